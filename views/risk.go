package views

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
	"nod/views/reveal"
)

type ownKey struct{}

// WithOwn returns a context whose pages mark requests that name one of these
// folders, which are nod's own.
func WithOwn(ctx context.Context, folders []string) context.Context {
	return context.WithValue(ctx, ownKey{}, folders)
}

// ownOf returns these folders.
func ownOf(ctx context.Context) []string {
	own, _ := ctx.Value(ownKey{}).([]string)
	return own
}

// What is longer than this is not read to its end on a small screen, so it is not
// approved there.
const (
	maxSmallBytes = 64 << 10
	maxSmallLines = 400
)

// forLargeScreens reports whether a request is too long to be approved on a phone.
func forLargeScreens(r state.Request) bool {
	texts := r.Input + "\n" + r.Diff
	for _, d := range r.Details {
		if !d.File { // what changes in it is the diff
			texts += "\n" + d.Text
		}
	}
	lines, _, _ := reveal.Count(texts)
	return len(texts) > maxSmallBytes || lines > maxSmallLines
}

// shownOf is what a card shows of a text of a request: all of it, unless the request is
// too long to be approved.
func shownOf(r state.Request, text string) string {
	if len(r.Params) > approvals.MaxRequest {
		return first(text, maxRaw)
	}
	return text
}

// A session asks a lot if more wait than anybody looks at one by one, or so many
// came within a minute.
const (
	manyWaiting  = 10
	manyAMinute  = 20
	stormsWindow = time.Minute
)

// asksALot reports whether a session asks more than a person can look at with care.
func asksALot(s snapshot.Session) bool {
	waiting, recent := askedLately(s)
	return waiting > manyWaiting || waiting > 0 && recent > manyAMinute
}

// askedWords tells how much that is.
func askedWords(s snapshot.Session) string {
	waiting, recent := askedLately(s)
	return fmt.Sprintf("%s, and %d came within a minute.", plural(waiting, "request waits", "requests wait"), recent)
}

// askedLately counts the requests that wait, and those that came in the minute before the
// newest: that one tells what time it is, so that the same state always shows the
// same page.
func askedLately(s snapshot.Session) (waiting, recent int) {
	newest := int64(0)
	for _, a := range s.Approvals {
		newest = max(newest, a.AskedAt)
		if a.State == approvals.Pending {
			waiting++
		}
	}
	for _, a := range s.Approvals {
		if a.AskedAt > newest-stormsWindow.Milliseconds() {
			recent++
		}
	}
	return waiting, recent
}

// hostOf tells whose an address is: its host in the form that the network uses, and
// as it reads; which part of it somebody has registered. ok is false for what is no
// address with a host of letters.
type hostOf struct {
	before, owner string // of the network's form: what stands in front of the registered part, and that
	reads         string // "" if it is the same
}

// webHosts are the hosts of all addresses in a text, each once.
func webHosts(text string) (out []hostOf) {
	seen := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		i := strings.Index(word, "://")
		if i < 0 {
			continue
		}
		host := word[i+len("://"):]
		if end := strings.IndexAny(host, "/?#\\\"'`)>|;,"); end >= 0 {
			host = host[:end]
		}
		host = host[strings.LastIndex(host, "@")+1:]
		if name, port, ok := strings.Cut(host, ":"); ok && strings.Trim(port, "0123456789") == "" {
			host = name
		}
		h, ok := readHost(host)
		if ok && !seen[host] {
			seen[host] = true
			out = append(out, h)
		}
	}
	return out
}

func readHost(host string) (h hostOf, ok bool) {
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		if ascii, err = idna.Punycode.ToASCII(host); err != nil {
			return h, false
		}
	}
	owner, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(ascii))
	if err != nil { // a number, a name without a dot, or a suffix itself
		return h, false
	}
	h = hostOf{before: ascii[:len(ascii)-len(owner)], owner: ascii[len(ascii)-len(owner):]}
	if reads, err := idna.Punycode.ToUnicode(ascii); err == nil && reads != ascii {
		h.reads = reads
	}
	return h, true
}
