package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// policy collects how the pages of a tab have broken their own policy: something was
// left on one that nod did not mean to be there, or nod forgot what it allows itself.
// The browser tells it of workers and of pages without scripts as well.
type policy struct {
	provoked bool // by the test
	ended    chan struct{}
	broken   []string // until ended is closed the goroutine's
}

// watch begins to collect until the tab is closed.
func (p *policy) watch(t *testing.T, ctx context.Context) {
	t.Helper()
	issues := chromedp.Events(ctx, audits.IssueAdded)
	if _, err := chromedp.Call(ctx, audits.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	p.ended = make(chan struct{})
	go func() {
		defer close(p.ended)
		for e, err := range issues {
			if err != nil {
				return
			}
			if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
				p.broken = append(p.broken, fmt.Sprintf("%s by %s %q", d.ViolatedDirective, d.ContentSecurityPolicyViolationType, d.BlockedURL))
			}
		}
	}()
}

// obeyed fails on what was collected. The tab is closed by then.
func (p *policy) obeyed(t interface{ Errorf(string, ...any) }) {
	if p.ended == nil {
		return
	}
	<-p.ended
	if p.provoked != (len(p.broken) > 0) {
		t.Errorf("R18: a page has broken its policy, or should have: %q", p.broken)
	}
}

// everyPage returns an address for each page that the route table has, of a session
// that waits for an answer, and of things that are not there.
func everyPage(t *testing.T, w *world, b *browser) (pages []string) {
	t.Helper()
	table, err := os.ReadFile("../handlers/routes.go")
	if err != nil {
		t.Fatal(err)
	}
	b.startSession(w, "show me")
	b.until("a card", "document.querySelector('.card form')")
	session := eval[string](b, "location.pathname.split('/').pop()")
	card := eval[string](b, "document.querySelector('.card').id.replace('card-', '')")
	b.goTo(w.base + "/devices")
	b.click("form[action='/pair'] button")
	b.until("a code", "document.querySelector('svg.qr')")
	offer := eval[string](b, "location.pathname.split('/').pop()")
	for _, m := range regexp.MustCompile(`\{"GET", "([^"]+)"`).FindAllStringSubmatch(string(table), -1) {
		path := m[1]
		switch {
		case strings.HasSuffix(path, "/live"), path == "/healthz", path == "/static/:name", path == "/audit.jsonl":
			continue // no page
		case strings.HasPrefix(path, "/approvals/"):
			path = strings.Replace(path, ":id", card, 1)
		case path == "/audit/:id":
			path = "/audit/1"
		}
		pages = append(pages, strings.NewReplacer(":id", session, ":offer", offer, ":turn", "0", ":part", "0", ":file", "0", ":operation", "fork").Replace(path))
	}
	if len(pages) < 20 {
		t.Fatalf("the table has only %q", pages)
	}
	return append(pages, "/nothing", "/s/none")
}

// TestR18EveryPage: no page that nod has breaks its own policy, with scripts and
// without.
func TestR18EveryPage(t *testing.T) {
	t.Parallel()
	w := configured(t, "public_hosts = [\"nod.example\"]\n")
	b, plain := newBrowser(t, phone), newBrowser(t, look{width: desk.width, height: desk.height, noJS: true})
	b.loggedIn(w, false)
	w.login = w.mintLogin()
	plain.loggedIn(w, true)
	for _, page := range everyPage(t, w, b) {
		b.goTo(w.base + page)
		plain.goTo(w.base + page)
	}
}

// verdicts notes what it is told.
type verdicts []string

func (e *verdicts) Errorf(format string, more ...any) { *e = append(*e, fmt.Sprintf(format, more...)) }

// TestR18TheWatchSees: what breaks the policy is seen on each of these pages, and would
// fail its test.
func TestR18TheWatchSees(t *testing.T) {
	t.Parallel()
	var b *browser
	var pages []string
	t.Run("pages", func(t *testing.T) {
		w := configured(t, "public_hosts = [\"nod.example\"]\n")
		b = newBrowser(t, desk)
		b.loggedIn(w, false)
		pages = everyPage(t, w, b)
		b.provoked = true
		for i, page := range pages {
			b.goTo(w.base + page)
			eval[bool](b, fmt.Sprintf(`(() => {
				const e = document.createElement('img');
				e.src = 'http://evil.test/%d.png';
				document.body.append(e);
				return true;
			})()`, i))
		}
		b.goTo(w.base + "/nothing") // the browser tells all of it in order
	})
	seen := strings.Join(b.broken, "\n") // its tab is closed
	for i, page := range pages {
		if !strings.Contains(seen, fmt.Sprintf("evil.test/%d.png", i)) {
			t.Errorf("on %s nothing was seen", page)
		}
	}
	b.provoked = false
	var said verdicts
	if b.obeyed(&said); len(said) != 1 || !strings.Contains(said[0], "evil.test/0.png") {
		t.Errorf("it would say %q", said)
	}
}
