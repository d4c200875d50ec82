package views

import (
	"cmp"
	"context"
	"strings"

	"github.com/a-h/templ"

	"nod/state"
	"nod/state/snapshot"
)

// Guest is what stands around a session that somebody looks at who may do nothing
// else. Times are Unix milliseconds.
type Guest struct {
	Base  string // path below which its pages are; no argument of URL
	Live  bool   // else it is as it was At
	Alone bool   // nobody has a link to it yet: it is a preview, and has no stream
	At    int64  // when it was shared
	Until int64  // when that ends
}

type guestKey struct{}

// WithGuest returns a context whose session pages are those of a share: they lead to
// nothing else, and have nothing that could be sent.
func WithGuest(ctx context.Context, g Guest) context.Context {
	return context.WithValue(WithViewOnly(ctx, "This is a shared view."), guestKey{}, &g)
}

func guestOf(ctx context.Context) *Guest {
	g, _ := ctx.Value(guestKey{}).(*Guest)
	return g
}

// guestWords tell what a guest looks at.
func guestWords(g Guest) string {
	if g.Live {
		return "Shared to be read, live"
	}
	return "Shared to be read, as it was"
}

// guestStatus is how a shared session is: nothing waits for a guest.
func guestStatus(s snapshot.Session) status {
	st := statusOf(s)
	if st.class == "need" {
		st.word = "waits for its owner"
	}
	return st
}

// waitsWords is about what an agent waits for.
const waitsWords = "The agent has asked its owner something, and waits for the answer. What it is about is not part of this page until it is answered."

// maxContents bounds the table of turns, the newest ones.
const maxContents = 200

// content is a line of the table of turns.
type content struct {
	turn  int
	words string
}

// contents are the turns that somebody has begun.
func contents(s snapshot.Session) (lines []content) {
	for n := max(0, snapshot.TurnCount(s.State)-maxContents); n < snapshot.TurnCount(s.State); n++ {
		lines = append(lines, content{n, turnWords(s, n)})
	}
	return lines
}

// turnWords name a turn in one line.
func turnWords(s snapshot.Session, n int) string {
	if alone := byItself(s, n); alone != "" {
		return alone
	}
	return cmp.Or(state.TitleOf(Plain(strings.TrimSpace(snapshot.Asked(s.State, n)))), "Without a message")
}

// turnURL is where a turn stands: on the page itself, or on one of earlier turns.
func turnURL(ctx context.Context, v sessionView, n int) templ.SafeURL {
	at := snapshot.Part{Kind: snapshot.Turn, Turn: n}
	place := templ.SafeURL("#" + partID(at))
	if begin := v.sheet.begin; n > begin.Turn || n == begin.Turn && begin.Index == 0 {
		return place
	}
	return earlierURL(ctx, v.Session, snapshot.Part{Turn: n, Index: snapshot.PartCount(v.State, n)}) + place
}
