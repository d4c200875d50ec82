package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// maxNodes is how many elements a page of a session has at the most.
const maxNodes = 3500

const (
	nodes = "document.getElementsByTagName('*').length"
	// asks are the numbers of the turns on the page, in their order.
	asks = "[...document.querySelectorAll('#turns .ask')].map(e => Number(e.textContent.replace('Ask ', '')))"
)

// longTurn is a turn of a hundred events, each with a number of its own: prose, a
// list, a table, code, and what a command writes.
func longTurn(s *scene, n *int) {
	next := func() string { *n++; return fmt.Sprintf("n%05d", *n) }
	text := func(pieces int, format string) {
		for range pieces {
			s.say(s.id+"-text", fmt.Sprintf(format, next()))
		}
	}
	text(34, "%s is what was *counted* next, after what was counted before. ")
	text(8, "\n\n- `%s` and its reason")
	s.say(s.id+"-text", "\n\n| number | what |\n|---|---|\n")
	text(8, "| %s | a row |\n")
	s.say(s.id+"-text", "\n\n```go\n")
	text(5, "func %s(a int) string { return \"a\" }\n")
	s.say(s.id+"-text", "```\n")
	s.run(s.id+"-call", "count on")
	for range 40 {
		s.write(s.id+"-call", next()+"\n")
	}
	s.ran(s.id+"-call", "count on")
	s.end("completed")
}

var numbers = regexp.MustCompile(`n\d{5}`)

// TestC35TenThousandEvents: of a session of ten thousand events a page has the end,
// and the way back to the begin leads over pages that are no larger, with scripts
// or without.
func TestC35TenThousandEvents(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	const turns = 102
	path, s := w.newSession(c, p, "Ask 1")
	n := 0
	longTurn(s, &n)
	for i := 2; i <= turns; i++ {
		s = s.again(fmt.Sprint("Ask ", i))
		longTurn(s, &n)
	}
	last := fmt.Sprintf("n%05d", n)
	w.untilPage(c, path, last)
	w.untilPage(c, path, ">Send<")

	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	w.login = w.mintLogin()
	b.goTo(w.base + path)
	b.untilText("#turns", last)
	if got := eval[int](b, nodes); got > maxNodes {
		t.Errorf("%d elements", got)
	}
	if got := eval[string](b, "document.querySelector('#turns > .turn:last-child > .foot:last-child').textContent"); !strings.Contains(got, fmt.Sprint("Turn ", turns)) {
		t.Errorf("the last turn ends with %q", got)
	}
	t.Run("show earlier", func(t *testing.T) { showEarlier(t, b, s, turns, &n) })
	t.Run("without scripts", func(t *testing.T) { earlierWithoutScripts(t, w, path, turns, n) })

	// At the end, and with no wish for earlier turns, the page stays small.
	b.goTo("about:blank") // loading the same page anew goes to where one was
	b.goTo(w.base + path + "#now")
	b.until("the end", "(p => p.scrollHeight - p.scrollTop - p.clientHeight < 48)(document.scrollingElement)")
	most := 0
	for i := range 40 {
		s = s.again(fmt.Sprint("Ask ", 1000+i))
		longTurn(s, &n)
		b.untilText("#turns", fmt.Sprintf("n%05d", n))
		most = max(most, eval[int](b, nodes))
	}
	if t.Logf("at most %d elements", most); most > maxNodes {
		t.Errorf("the page grew to %d elements", most)
	}
	w.untilPage(c, path, ">Send<")
	b.untilSame(w, c, path, "after 40 more turns", never)
}

// showEarlier brings all turns onto the page, from the newest to the first.
func showEarlier(t *testing.T, b *browser, s *scene, turns int, n *int) {
	const (
		first = "document.querySelector('#turns .part')?.id"
		// What is seen below the middle of the window, and where.
		seen  = "(e => [e.id, e.getBoundingClientRect().top])(document.elementFromPoint(700, 600).closest('#turns [id]'))"
		where = "document.getElementById(%q).getBoundingClientRect().top"
	)
	clicks := 0
	for ; eval[bool](b, "Boolean(document.querySelector('.earlier').querySelector('a'))"); clicks++ {
		if clicks > turns {
			t.Fatal("the begin does not come")
		}
		b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.earlier').scrollIntoView()"))
		untilStill(b)
		was, at := eval[string](b, first), eval[[]any](b, seen)
		b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.earlier').querySelector('a').click()"))
		b.until("earlier turns", fmt.Sprintf("%s !== %q", first, was))
		untilStill(b)
		top, _ := at[1].(float64)
		if now := eval[float64](b, fmt.Sprintf(where, at[0])); now < top-2 || now > top+2 {
			t.Errorf("click %d: what was at %v is at %v", clicks+1, top, now)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d clicks", clicks)
	if clicks == 0 {
		t.Error("all of it was on the page at once")
	}
	got := eval[[]int](b, asks)
	for i, n := range got {
		if n != i+1 {
			t.Fatalf("the turns are in the order %v", got)
		}
	}
	if len(got) != turns {
		t.Errorf("%d turns are on the page, of %d", len(got), turns)
	}
	if twice := eval[[]string](b, sameIDs); len(twice) > 0 {
		t.Errorf("ids that are there twice: %q", twice)
	}
	allNumbers(t, eval[string](b, "document.getElementById('turns').textContent"), *n)

	// A new turn does not move the page, and is there.
	at := eval[[]any](b, seen)
	now := s.again(fmt.Sprint("Ask ", turns+1))
	now.say("new", "Something new.")
	b.untilText("#turns .turn:last-child", "Something new.")
	top, _ := at[1].(float64)
	if now := eval[float64](b, fmt.Sprintf(where, at[0])); now < top-2 || now > top+2 {
		t.Errorf("a new turn moved the page: what was at %v is at %v", top, now)
	}
	b.until("the way to the end", "!document.getElementById('pill').hidden")
	now.end("completed")
	b.untilText(".st", "done")
	if got := eval[[]int](b, asks); len(got) != turns+1 || got[0] != 1 {
		t.Errorf("then %d turns are on the page", len(got))
	}
}

// allNumbers looks whether every number is there once, in order.
func allNumbers(t *testing.T, text string, n int) {
	t.Helper()
	found := numbers.FindAllString(text, -1)
	for i, x := range found {
		if got, _ := strconv.Atoi(x[1:]); got != i+1 {
			t.Fatalf("at %d there is %s", i+1, x)
		}
	}
	if len(found) != n {
		t.Errorf("%d of %d numbers", len(found), n)
	}
}

// earlierWithoutScripts goes back page by page, and forth again.
func earlierWithoutScripts(t *testing.T, w *world, path string, turns, n int) {
	l := phone
	l.noJS = true
	b := newBrowser(t, l)
	b.loggedIn(w, true)
	b.goTo(w.base + path)
	// One part may stand on two pages, since a page ends where it must: so pages are
	// put together by the ids of their parts.
	const parts = "[...document.querySelectorAll('#turns .part')].map(e => [e.id, e.textContent])"
	seen, order, pages := map[string]bool{}, []string{}, 0
	link := func(words string) string {
		return fmt.Sprintf("[...document.querySelectorAll('.earlier a')].find(a => a.textContent === %q)", words)
	}
	follow := func(words string) {
		was := eval[string](b, "location.pathname")
		b.do(chromedp.Evaluate[chromedp.Void](link(words) + ".click()"))
		b.until("another page", fmt.Sprintf("location.pathname !== %q && document.readyState === 'complete' && document.querySelector('#turns .part')", was))
	}
	for ; ; pages++ {
		if got := eval[int](b, nodes); got > maxNodes {
			t.Errorf("page %d has %d elements", pages, got)
		}
		var here []string
		for _, p := range eval[[][]string](b, parts) {
			if !seen[p[0]] {
				seen[p[0]] = true
				here = append(here, p[1])
			}
		}
		order = append(here, order...)
		if !eval[bool](b, "Boolean("+link("Show earlier")+")") || pages > turns {
			break
		}
		follow("Show earlier")
	}
	allNumbers(t, strings.Join(order, " "), n)
	if got := eval[[]int](b, asks); len(got) == 0 || got[0] != 1 {
		t.Errorf("the first page has the turns %v", got)
	}
	back := 0
	for ; eval[bool](b, "Boolean("+link("Show later")+")") && back <= 2*turns; back++ {
		follow("Show later")
	}
	t.Logf("%d pages back, %d forth", pages, back)
	if got := eval[[]int](b, asks); len(got) == 0 || got[len(got)-1] < turns {
		t.Errorf("the way forth ends with the turns %v", got)
	}
	if !eval[bool](b, fmt.Sprintf("Boolean([...document.links].find(a => a.getAttribute('href').startsWith(%q)))", path)) {
		t.Error("no way to the newest")
	}
}
