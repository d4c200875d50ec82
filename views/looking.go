package views

import "context"

type lookingKey struct{}

// WithLooking returns a context whose pages offer nothing that changes anything, and
// say why in a sentence.
func WithLooking(ctx context.Context, why string) context.Context {
	return context.WithValue(ctx, lookingKey{}, why)
}

// looking is why a page offers nothing, "" if it does.
func looking(ctx context.Context) string {
	why, _ := ctx.Value(lookingKey{}).(string)
	return why
}
