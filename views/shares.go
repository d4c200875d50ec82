package views

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/a-h/templ"

	"nod/state"
	"nod/state/share"
	"nod/state/snapshot"
)

type sharingKey struct{}

// WithSharing returns a context whose pages offer to share sessions.
func WithSharing(ctx context.Context) context.Context {
	return context.WithValue(ctx, sharingKey{}, true)
}

// offersSharing reports whether a page offers to share sessions.
func offersSharing(ctx context.Context) bool {
	return ctx.Value(sharingKey{}) != nil && ViewOnly(ctx) == ""
}

// Lives are how long a share may live, the first one by default.
var Lives = []time.Duration{24 * time.Hour, time.Hour, 3 * 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

// ShareForm is what its owner wants of a share.
type ShareForm struct {
	Session snapshot.Session
	Terms   share.Terms
	Label   string
	Life    time.Duration // one of Lives
	Secret  bool          // a passphrase is set
	Problem string
	Public  string // address of nod for others; "" if there is none
}

// Preview is what its owner is shown before a share is made.
type Preview struct {
	ID    string
	Form  ShareForm
	Found []share.Found
	Proof Proof
	Sheet *Sheet // of what a guest would see
	Guest Guest
}

// Share is one share, for its owner. Times are Unix milliseconds.
type Share struct {
	ID       string
	Session  string // id
	Title    string // of the session
	Label    string
	Terms    share.Terms
	Secret   bool // a passphrase is asked for
	By       string
	Made     int64
	Until    int64
	Ended    int64 // 0 for not
	Views    int64
	ViewedAt int64 // 0 for never
	Now      int   // guests that look at it
	Over     bool
}

// called is how a share is told from others.
func (s Share) called() string {
	if s.Label != "" {
		return s.Label
	}
	return s.Title
}

// lifeWords is a time that a share may live.
func lifeWords(d time.Duration) string {
	if h := int(d.Hours()); h <= 24 {
		return plural(h, "hour", "hours")
	}
	return plural(int(d.Hours())/24, "day", "days")
}

// termsWords tell what of a session is shared.
func termsWords(t share.Terms) string {
	words := []string{"as it was"}
	if t.Live {
		words[0] = "live"
	}
	if t.From > 0 {
		words = append(words, fmt.Sprintf("from turn %d on", t.From+1))
	}
	for _, x := range []struct {
		is   bool
		word string
	}{{t.Reasoning, "reasoning"}, {t.Output, "output of tools"}, {t.Diffs, "diffs"}} {
		if x.is {
			words = append(words, "with "+x.word)
		} else {
			words = append(words, "without "+x.word)
		}
	}
	return strings.Join(words, ", ")
}

// overWords tell why a share cannot be looked at any more.
func overWords(s Share) string {
	if s.Ended > 0 {
		return "ended"
	}
	return "over"
}

// fromChoices are the turns that a share can begin with, the newest first.
func fromChoices(s snapshot.Session) (out []content) {
	for n := snapshot.TurnCount(s.State) - 1; n > 0; n-- {
		if len(out) == maxContents {
			break
		}
		out = append(out, content{n, oneLine(Plain(state.TitleOf(strings.TrimSpace(snapshot.Asked(s.State, n)))))})
	}
	return out
}

// asGuest draws a component as a guest would see it, on a page of its owner.
func asGuest(g Guest, c templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error { return c.Render(WithGuest(ctx, g), w) })
}

// sortShares parts those that can be looked at from those that cannot.
func sortShares(all []Share) (open, over []Share) {
	for _, s := range all {
		if s.Over {
			over = append(over, s)
		} else {
			open = append(open, s)
		}
	}
	return open, over[:min(len(over), maxOver)]
}

// maxOver is how many shares are listed that cannot be looked at any more.
const maxOver = 50

// foundURL is where something was found, in what a guest would see.
func foundURL(ctx context.Context, p Preview, f share.Found) templ.SafeURL {
	return turnURL(WithGuest(ctx, p.Guest), p.Sheet.view, max(0, f.Turn-p.Sheet.view.Cut))
}

// What the record tells about shares.
const (
	AuditShared      = "made a link to look at a session"
	AuditUnshared    = "ended a link to look at a session"
	AuditUnsharedAll = "ended all links to look at sessions"
)

// ShareWords tell in the record which share it is about.
func ShareWords(s Share) string {
	words := "“" + s.Title + "”: " + termsWords(s.Terms)
	if s.Label != "" {
		words += "; “" + s.Label + "”"
	}
	return words
}

// Title is what a session is called.
func Title(s snapshot.Session) string { return sessionTitle(s.State) }

// previewWords tell what is going to be shared.
func previewWords(f ShareForm) string {
	return phraseWords(termsWords(f.Terms)+", for "+lifeWords(f.Life), f.Secret)
}

// phraseWords add whether a passphrase is asked for.
func phraseWords(words string, secret bool) string {
	if secret {
		words += ", after a passphrase"
	}
	return words
}

// ruleWords tell what was found, and by which rule.
func ruleWords(f share.Found) string {
	if f.Rule == string(f.Kind) {
		return f.Rule
	}
	return string(f.Kind) + " · " + f.Rule
}
