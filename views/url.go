// Package views draws what a person sees. Every component is a pure function of
// its arguments: no component reads a clock, a file or a request. What an agent
// said is text here, never a control: it is escaped, bounded, and stands outside
// every form.
package views

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"nod/state/snapshot"
	"nod/static"
)

type baseKey struct{}

// WithBase returns a context whose pages link below the given path, "" or "/nod".
func WithBase(ctx context.Context, base string) context.Context {
	return context.WithValue(ctx, baseKey{}, base)
}

// URL is the one maker of addresses. format begins with a slash; the arguments
// are escaped as path segments.
func URL(ctx context.Context, format string, args ...string) templ.SafeURL {
	base, _ := ctx.Value(baseKey{}).(string)
	escaped := make([]any, len(args))
	for i, a := range args {
		escaped[i] = url.PathEscape(a)
	}
	return templ.SafeURL(base + fmt.Sprintf(format, escaped...))
}

// sessionURL is the page of a session, or of the share that is drawn, and what is below.
func sessionURL(ctx context.Context, s snapshot.Session, format string, args ...string) templ.SafeURL {
	if g := guestOf(ctx); g != nil {
		return URL(ctx, g.Base+format, args...)
	}
	return URL(ctx, "/s/%s"+format, append([]string{s.ID}, args...)...)
}

// againURL is the page of a share for whom it loads by itself, which counts as no view.
func againURL(ctx context.Context) string { return string(URL(ctx, guestOf(ctx).Base)) + "?again" }

// liveURL is where the changes of a session page come from, "" for one that stands still.
func liveURL(ctx context.Context, s snapshot.Session) string {
	if g := guestOf(ctx); g != nil && !g.Live {
		return ""
	}
	return string(sessionURL(ctx, s, "/live"))
}

// wholeURL is the page that shows all of one part.
func wholeURL(ctx context.Context, s snapshot.Session, n, i int) templ.SafeURL {
	return sessionURL(ctx, s, "/turns/%s/parts/%s", strconv.Itoa(n), strconv.Itoa(i))
}

// earlierURL is the page of what stands before a response part.
func earlierURL(ctx context.Context, s snapshot.Session, end snapshot.Part) templ.SafeURL {
	return sessionURL(ctx, s, "/before/%s/%s", strconv.Itoa(end.Turn), strconv.Itoa(end.Index))
}

// hitURL is the page that ends with what was found, and the place on it.
func hitURL(ctx context.Context, s snapshot.Session, h snapshot.Hit) templ.SafeURL {
	end := h.At
	if h.At.Kind == snapshot.Response {
		end.Index++
	}
	return earlierURL(ctx, s, end) + templ.SafeURL("#"+partID(h.At))
}

// asset is the address of a static file, which changes with its content.
func asset(ctx context.Context, name string) string {
	return string(URL(ctx, "/static/%s", name)) + "?v=" + static.Version
}

// Cursor is a viewer's whole position: the numbers up to which its page shows a
// session and the inbox, and the process they belong to. The zero Cursor is of
// no process.
type Cursor struct {
	Epoch string
	Seq   uint64 // of the session; 0 on the inbox
	Rev   uint64 // of the inbox
}

// String is the cursor's form on the wire: epoch.seq.rev.
func (c Cursor) String() string { return fmt.Sprintf("%s.%d.%d", c.Epoch, c.Seq, c.Rev) }

// ParseCursor reads a cursor. Anything else than a cursor is the zero one.
func ParseCursor(s string) Cursor {
	f := strings.Split(s, ".")
	if len(f) != 3 {
		return Cursor{}
	}
	seq, err1 := strconv.ParseUint(f[1], 10, 64)
	rev, err2 := strconv.ParseUint(f[2], 10, 64)
	if err1 != nil || err2 != nil {
		return Cursor{}
	}
	return Cursor{Epoch: f[0], Seq: seq, Rev: rev}
}
