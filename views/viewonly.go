package views

import "context"

type viewOnlyKey struct{}

// WithViewOnly returns a context whose pages offer nothing that changes anything.
// why is the sentence about it that stands above each page; "" offers all.
func WithViewOnly(ctx context.Context, why string) context.Context {
	return context.WithValue(ctx, viewOnlyKey{}, why)
}

// ViewOnly returns why the pages of a context are to be looked at only, or "".
func ViewOnly(ctx context.Context) string {
	why, _ := ctx.Value(viewOnlyKey{}).(string)
	return why
}

type noticeKey struct{}

// WithNotice returns a context whose first pages tell the owner something about
// nod's own settings.
func WithNotice(ctx context.Context, text string) context.Context {
	return context.WithValue(ctx, noticeKey{}, text)
}

func noticeOf(ctx context.Context) string {
	text, _ := ctx.Value(noticeKey{}).(string)
	return text
}
