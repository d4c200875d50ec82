package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"
)

// pageText is what a session's page says where nothing ticks, and where its links
// lead; nodText is the same of a page that nod draws now.
const pageText = `['plan', 'turns', 'dock'].map(id => {
	const e = document.getElementById(id)?.cloneNode(true);
	e?.querySelectorAll('time').forEach(t => t.remove());
	return e?.textContent.replace(/\s+/g, ' ').trim();
}).concat([...document.querySelectorAll('#turns a')].map(a => a.getAttribute('href'))).join('|')`

func (w *world) nodText(c *http.Client, path string) string {
	w.t.Helper()
	status, page := w.get(c, path)
	if status != http.StatusOK {
		w.t.Fatalf("%s: %d", path, status)
	}
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		w.t.Fatal(err)
	}
	parts, links := map[string]string{}, []string{}
	for n := range doc.Descendants() {
		switch id := attr(n, "id"); id {
		case "plan", "turns", "dock":
			parts[id] = said(n)
		}
	}
	for n := range doc.Descendants() {
		if n.Data == "a" && within(n, "turns") {
			links = append(links, attr(n, "href"))
		}
	}
	return strings.Join(append([]string{parts["plan"], parts["turns"], parts["dock"]}, links...), "|")
}

func within(n *html.Node, id string) bool {
	for ; n != nil; n = n.Parent {
		if attr(n, "id") == id {
			return true
		}
	}
	return false
}

// untilSame waits until the page says what nod says, or until it need not.
func (b *browser) untilSame(w *world, c *http.Client, path, when string, enough func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		want := w.nodText(c, path)
		got := eval[string](b, pageText)
		if got == want || enough() {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s\nthe page says %q\nnod says      %q", when, got, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func never() bool { return false }

// untilTrue waits for something outside the browser.
func untilTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// observer is a client beside the browser, which needs a login of its own.
func (w *world) observer() *http.Client {
	w.t.Helper()
	c := w.client()
	w.login = w.mintLogin()
	return c
}

// newSession starts a session of the puppet by HTTP.
func (w *world) newSession(c *http.Client, p *puppet, prompt string) (path string, s *scene) {
	w.t.Helper()
	_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {prompt}})
	path = sessionPath.FindString(page[strings.Index(page, "data-live="):])
	return path, p.scene()
}

// sameIDs are the ids that more than one element has.
const sameIDs = `(() => {
	const seen = new Set(), twice = [];
	for (const e of document.querySelectorAll('[id]:not([id=""])')) seen.has(e.id) ? twice.push(e.id) : seen.add(e.id);
	return twice;
})()`

// allOfIt is a turn with everything in it whose blocks may be sent again: numbered
// words, in text that grows, blocks that change behind what comes after them, a
// command with output, and one that asks. Each step is one event, if no two fall
// into one frame.
func allOfIt(s *scene) []func() {
	var resolved func()
	return []func(){
		func() { s.think("think", "**First** word001") },
		func() { s.think("think", " word002\n\nand word003") },
		func() { s.say("text", "word004 and") },
		func() { s.say("text", " **word005**\n\n- word006") },
		func() { s.say("text", "\n- word007 [named][there]\n\n> word008\n\n") },
		func() { s.say("text", "```go\nfunc word009() {}\n") },
		func() { s.say("text", "// word010 `\n") },
		func() { s.say("text", "```\n\n| word011 | b |\n|---|---|\n") },
		func() { s.say("text", "| word012 | 1 |\n| word013 | 2 |\n") },
		func() { s.say("text", "\nSee [there] word014, <b>word015</b>\n\n") },
		func() { s.say("text", "[there]: https://example.com/there\n") },
		func() { s.run("call", "count words") },
		func() { s.write("call", "word016\n") },
		func() { s.write("call", "wrong\rword017\nword0") },
		func() { s.write("call", "18\x1b[31m word019\x1b[0m\n") },
		func() { s.ran("call", "count words") },
		func() { _, resolved = s.askToRun("asks", "count more words") },
		func() { resolved() },
		func() { s.write("asks", "word020\n") },
		func() { s.ran("asks", "count more words") },
		func() {
			s.notify("turn/plan/updated", object{"plan": []any{object{"step": "word021", "status": "completed"}, object{"step": "later", "status": "pending"}}})
		},
		func() { s.say("last", "# word022\n\nand word023") },
		func() { s.end("completed") },
	}
}

const wordsOfAllOfIt = 23

// TestC25Reconnect cuts the stream after each event of a turn, and has the browser
// come back with no id, an old one, one of the future, and one that is none: at
// once, or when the turn has gone on. Sometimes the event itself gets through only
// by half. After each step the page says what nod says,
// and at the end everything that the agent said is there once.
func TestC25Reconnect(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	future := func(id string) string { return regexp.MustCompile(`\.\d+\.`).ReplaceAllString(id, ".999999.") }
	ids := []struct {
		name string
		id   func(now, first string) string
	}{
		{"none", func(string, string) string { return "" }},
		{"old", func(_, first string) string { return first }},
		{"future", func(now, _ string) string { return future(now) }},
		{"garbage", func(string, string) string { return "%00.-1.<b>.9999999999999999999999" }},
	}
	b := newBrowser(t, desk)
	b.goTo("about:blank")
	var tabs []*browser
	var wires []*wire
	for range ids {
		x, tab := newWire(t, w), b.tab(chromedp.WithNewBrowserContext())
		tab.goTo(strings.Replace(w.mintLogin(), w.base, x.URL, 1))
		tab.untilText("h2.group", "Agents")
		tabs, wires = append(tabs, tab), append(wires, x)
	}
	for n := 1; ; n++ {
		path, s := w.newSession(c, p, fmt.Sprint("cut after ", n))
		var holds []chan struct{}
		for i, x := range wires {
			tabs[i].goTo("about:blank")
			untilTrue(t, "the end of the page before", func() bool { return len(x.open()) == 0 })
			var hold chan struct{}
			if (n+i)%2 == 1 {
				hold = make(chan struct{})
			}
			holds = append(holds, hold)
			x.set(func() {
				x.events, x.first, x.broken, x.hold, x.half = 0, "", 0, hold, n%3 == 2
				x.cut = func(event int) bool { return event == n }
				x.returns = func(r *http.Request) {
					id := ids[i].id(r.Header.Get("Last-Event-ID"), x.first)
					if r.Header.Del("Last-Event-ID"); id != "" {
						r.Header.Set("Last-Event-ID", id)
					}
					q := r.URL.Query()
					q.Set("since", id)
					r.URL.RawQuery = q.Encode()
				}
			})
			tabs[i].goTo(x.URL + path)
			tabs[i].until("the page", "document.getElementById('turns')")
		}
		for _, x := range wires {
			untilTrue(t, "the stream", func() bool { x.mu.Lock(); defer x.mu.Unlock(); return x.events > 0 })
		}
		for step, play := range allOfIt(s) {
			play()
			for i, x := range wires {
				if holds[i] != nil && x.wasCut() { // before this step, or by it
					close(holds[i])
					holds[i] = nil
					x.set(func() { x.hold = nil })
				}
				tabs[i].untilSame(w, c, path, fmt.Sprintf("cut after event %d, back with %s, step %d", n, ids[i].name, step),
					func() bool { return holds[i] != nil && x.wasCut() })
			}
		}
		cuts := 0
		for i, x := range wires {
			if holds[i] != nil {
				close(holds[i])
				x.set(func() { x.hold = nil })
			}
			when := fmt.Sprintf("cut after event %d, back with %s, at the end", n, ids[i].name)
			tabs[i].untilSame(w, c, path, when, never)
			x.set(func() { cuts += x.broken })
			said := eval[string](tabs[i], pageText)
			for word := 1; word <= wordsOfAllOfIt; word++ {
				if name := fmt.Sprintf("word%03d", word); strings.Count(said, name) != 1 && word != 21 || !strings.Contains(said, name) {
					t.Errorf("%s: %s is %d times on the page", when, name, strings.Count(said, name))
				}
			}
			if twice := eval[[]string](tabs[i], sameIDs); len(twice) > 0 {
				t.Errorf("%s: ids that are there twice: %q", when, twice)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
		if cuts == 0 {
			if n < 10 {
				t.Errorf("only %d events", n)
			}
			t.Logf("cut after each of %d events", n-1)
			return
		}
	}
}

// mark makes a mark that a reload would take away.
func (b *browser) mark() { b.do(chromedp.Evaluate[chromedp.Void]("window.mark = 'here'")) }

func (b *browser) marked() {
	b.t.Helper()
	if eval[string](b, "String(window.mark)") != "here" {
		b.t.Error("the page was loaded anew")
	}
}

// sixty are sixty things that happen.
func sixty(s *scene, first int) {
	for i := first; i < first+60; i++ {
		switch id := fmt.Sprint("part", i/10); {
		case i%10 == 9:
			s.run(fmt.Sprint("call", i), "count")
			s.write(fmt.Sprint("call", i), fmt.Sprintf("thing%03d\n", i))
			s.ran(fmt.Sprint("call", i), "count")
		default:
			s.say(id, fmt.Sprintf("thing%03d\n\n", i))
		}
	}
}

// TestC27Frozen: a tab that was frozen, or hidden, or told that its page is going,
// catches up when it is back, without loading anew.
func TestC27Frozen(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	path, s := w.newSession(c, p, "Count")
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	b.goTo(w.base + path)
	s.say("begin", "It begins.")
	b.untilText("#turns", "It begins.")
	b.mark()
	if _, err := chromedp.Call(b.ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: false}); err != nil {
		t.Fatal(err) // with it a page is never hidden
	}
	state := func(s page.SetWebLifecycleStateState) func() {
		return func() {
			b.t.Helper()
			if _, err := chromedp.Call(b.ctx, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: s}); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(js string) func() { return func() { b.do(chromedp.Evaluate[chromedp.Void](js)) } }
	both := func(fs ...func()) func() {
		return func() {
			for _, f := range fs {
				f()
			}
		}
	}
	front := func(x *browser) {
		if _, err := chromedp.Call(x.ctx, page.BringToFront, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	hidden := func() { b.until("the tab is hidden", "document.hidden") }
	hide := both(func() { front(b.tab(chromedp.WithNewWindow(false))) }, hidden)
	// A tab that was frozen while it was in front has to come to it anew.
	show := func() {
		front(b.tab(chromedp.WithNewWindow(false)))
		front(b)
		b.until("the tab is back", "!document.hidden")
	}
	gone := "dispatchEvent(new PageTransitionEvent('pagehide', {persisted: %v}))"
	for i, how := range []struct {
		name      string
		away, not func()
	}{
		{"frozen", both(state(page.SetWebLifecycleStateStateFrozen), hidden), both(state(page.SetWebLifecycleStateStateActive), show)},
		{"hidden", hide, show},
		{"hidden and frozen", both(hide, state(page.SetWebLifecycleStateStateFrozen)), both(state(page.SetWebLifecycleStateStateActive), show)},
		{"pagehide, then pageshow of a page that was not kept", run(fmt.Sprintf(gone, false)), run("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: false}))")},
		{"pagehide, then only shown", run(fmt.Sprintf(gone, true)), run("document.dispatchEvent(new Event('visibilitychange'))")},
		{"pagehide, then nothing", run(fmt.Sprintf(gone, false)), func() {}},
	} {
		how.away()
		sixty(s, 60*i)
		w.untilPage(c, path, fmt.Sprintf("thing%03d", 60*i+59))
		how.not()
		b.untilSame(w, c, path, how.name, never)
		if n := strings.Count(eval[string](b, pageText), "thing"); n != 60*(i+1) {
			t.Errorf("%s: %d things are on the page", how.name, n)
		}
		b.marked()
		s.say("after", fmt.Sprintf("after%d ", i))
		b.untilText("#turns", fmt.Sprintf("after%d", i)) // it is live again
	}
}

// TestC29FinishedWhileDown: the answer that finished while there was no way to nod
// is there when there is one; what was typed meanwhile is, too, and can be sent.
func TestC29FinishedWhileDown(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	x := newWire(t, w)
	b := newBrowser(t, phone)
	b.goTo(strings.Replace(w.login, w.base, x.URL, 1))
	b.untilText("h2.group", "Agents")
	for how, answers := range map[string]int{"connections are refused": refused, "a proxy answers for nod": http.StatusBadGateway} {
		path, s := w.newSession(c, p, "Finish while I am away")
		b.goTo(x.URL + path)
		s.say("text", "First half, ")
		b.untilText("#turns", "First half,")
		b.mark()
		x.cutOff(answers)
		b.until("the banner", "!document.getElementById('offline').hidden")
		b.do(chromedp.SendKeys(chromedp.CSS("#text"), "next, please"))
		b.do(chromedp.Evaluate[chromedp.Void]("document.getElementById('text').setSelectionRange(2, 4)"))
		s.say("text", "second half.")
		s.end("completed")
		w.untilPage(c, path, "second half.")
		w.untilPage(c, path, ">Send<")
		x.mend()
		b.until("the answer", "document.getElementById('turns').textContent.includes('First half, second half.')")
		b.until("the button", "document.querySelector('.send button')")
		b.until("no banner", "document.getElementById('offline').hidden")
		b.untilSame(w, c, path, how, never)
		if got := eval[string](b, "(t => [t.value, document.activeElement === t, t.selectionStart, t.selectionEnd].join())(document.getElementById('text'))"); got != "next, please,true,2,4" {
			t.Errorf("%s: the message field is %s", how, got)
		}
		b.marked()
		b.click(".send button")
		p.scene().end("completed")
		b.untilText(".ask", "next, please")
	}
}

// TestC31EightTabs: the eighth tab of a browser loads, and can approve, though the
// browser opens no more than six connections; and all eight keep current.
func TestC31EightTabs(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	x := newWire(t, w)
	path, s := w.newSession(c, p, "Eight tabs")
	b := newBrowser(t, desk)
	b.goTo(strings.Replace(w.login, w.base, x.URL, 1))
	b.untilText("h2.group", "Agents")
	tabs := []*browser{b}
	for len(tabs) < 8 {
		tabs = append(tabs, b.tab())
	}
	all := func(text string) {
		t.Helper()
		for i, tab := range tabs {
			tab.until(fmt.Sprintf("%q in tab %d", text, i), fmt.Sprintf("document.getElementById('turns').textContent.includes(%q)", text))
		}
	}
	for i, tab := range tabs {
		tab.goTo(x.URL + path)
		tab.until("the page", "document.getElementById('turns')")
		tab.mark()
		tab.do(chromedp.Evaluate[chromedp.Void](`{
			const banner = document.getElementById('offline'), look = () => { if (!banner.hidden) window.told = true; };
			new MutationObserver(look).observe(banner, { attributes: true });
			look();
		}`))
		s.say("text", fmt.Sprintf("tab%d ", i))
		tab.until("a change", fmt.Sprintf("document.getElementById('turns').textContent.includes('tab%d')", i))
	}
	all("tab7")
	answer, resolved := s.askToRun("asks", "rm -r /tmp/nothing")
	tabs[7].until("the card", "document.querySelector('.card button.approve')")
	before := x.open()
	for i := range 3 { // a stream that is open through three changes stays open
		s.say("more", fmt.Sprintf("change%d ", i))
		all(fmt.Sprint("change", i))
	}
	stay := 0
	for r := range x.open() {
		if _, was := before[r]; was {
			stay++
		}
	}
	if t.Logf("%d streams stay open", stay); stay == 0 || stay > 4 {
		t.Errorf("%d streams stay open", stay)
	}
	tabs[7].click(".card button.approve:not(.more-than-once)")
	approved(t, answer)
	resolved()
	s.ran("asks", "rm -r /tmp/nothing")
	s.say("last", "allowed")
	all("allowed")
	for i, tab := range tabs {
		if v := eval[string](tab, "document.visibilityState"); v != "visible" {
			t.Errorf("tab %d is %s", i, v)
		}
		if eval[bool](tab, "Boolean(window.told)") {
			t.Errorf("tab %d said that it is not connected", i)
		}
		if i < 7 { // the eighth has posted a form
			tab.marked()
		}
	}
}

// viewer is a browser's EventSource: it comes back when it was told to, with the
// id that it had last.
type viewer struct {
	client *http.Client
	url    string

	mu      sync.Mutex
	retry   int
	retries []int // as they came, each time it changed
	last    string
	text    string
	bad     []int // answers that are not 200
}

func (v *viewer) watch(ctx context.Context) {
	for ctx.Err() == nil {
		v.once(ctx)
		v.mu.Lock()
		wait := time.Duration(v.retry) * time.Millisecond
		v.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

func (v *viewer) once(ctx context.Context) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	v.mu.Lock()
	if v.last != "" {
		r.Header.Set("Last-Event-ID", v.last)
	}
	v.mu.Unlock()
	res, err := v.client.Do(r)
	if err != nil {
		return // nobody is there
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		v.mu.Lock()
		v.bad = append(v.bad, res.StatusCode)
		v.mu.Unlock()
		return
	}
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		v.mu.Lock()
		switch name {
		case "id":
			v.last = value
		case "data":
			v.text += value
		case "retry":
			if n, _ := strconv.Atoi(value); n != v.retry {
				v.retry = n
				v.retries = append(v.retries, n)
			}
		}
		v.mu.Unlock()
	}
}

// TestC32Restart restarts nod under fifty viewers: they come back one after the
// other, none of them gets an error, and all of them show the newest state.
func TestC32Restart(t *testing.T) {
	t.Parallel()
	w, p := puppetWorld(t)
	w.listen = quietPort(t, rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))))
	w.start()
	c := w.observer()
	path, s := w.newSession(c, p, "Fifty viewers")
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	var viewers []*viewer
	var jar http.CookieJar
	for i := range 50 {
		if i%4 == 0 { // each browser has four
			jar = w.observer().Jar
		}
		v := &viewer{client: &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}, url: w.base + path + "/live?since="}
		viewers = append(viewers, v)
		watching.Go(func() { v.watch(ctx) })
	}
	all := func(what string, is func(*viewer) bool) {
		t.Helper()
		for _, v := range viewers {
			untilTrue(t, what, func() bool { v.mu.Lock(); defer v.mu.Unlock(); return is(v) })
		}
	}
	s.say("text", "Before the restart.")
	all("the text", func(v *viewer) bool { return strings.Contains(v.text, "Before the restart.") })
	for _, v := range viewers {
		v.mu.Lock()
		v.text, v.retries = "", nil
		v.mu.Unlock()
	}
	w.nod.kill(syscall.SIGTERM)
	w.start()
	c = w.client()
	all("the state after the restart", func(v *viewer) bool {
		return strings.Contains(v.text, "nod was stopped") || strings.Contains(v.text, "Before the restart.")
	})
	w.post(c, path+"/messages", url.Values{"text": {"Go on"}})
	p.scene().say("text2", "After the restart.")
	all("the newest text", func(v *viewer) bool { return strings.Contains(v.text, "After the restart.") })
	spread := map[int]int{}
	for _, v := range viewers {
		v.mu.Lock()
		if len(v.bad) > 0 {
			t.Errorf("a viewer got %v", v.bad)
		}
		for _, n := range v.retries {
			if spread[n]++; n < 700 || n > 1400 {
				t.Errorf("a viewer was told to return after %d ms", n)
			}
		}
		v.mu.Unlock()
	}
	// Fifty numbers of seven hundred are about 48 different ones.
	if t.Logf("%d different times to return", len(spread)); len(spread) < 35 {
		t.Errorf("only %d different times to return", len(spread))
	}
}

// TestC40Scrolling: a page that streams stays where its reader is, follows at its
// end only, and leaves alone what the reader has opened, marked or typed.
func TestC40Scrolling(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	path, s := w.newSession(c, p, "Much text")
	x, b := newWire(t, w), newBrowser(t, desk)
	b.goTo(strings.Replace(w.login, w.base, x.URL, 1))
	b.untilText("h2.group", "Agents")
	s.think("thoughts", "It is about scrolling. thought0 ")
	s.run("call", "count")
	s.write("call", "out0\n")
	words := 0
	say := func() {
		t.Helper()
		for range 40 {
			words++
			s.say(fmt.Sprint("text", words/200), fmt.Sprintf("Paragraph word%04d of some length.\n\n", words))
		}
		b.untilText("#turns", fmt.Sprintf("word%04d", words))
	}
	b.goTo(x.URL + path)
	b.until("the page", "document.getElementById('turns')")
	const (
		atEnd = "(p => p.scrollHeight - p.scrollTop - p.clientHeight < 2)(document.scrollingElement)"
		pill  = "!document.getElementById('pill').hidden"
	)
	for range 3 { // it follows from the begin
		say()
		b.until("the end of the page", atEnd+" && document.scrollingElement.scrollTop > 0")
	}
	if eval[bool](b, pill) {
		t.Error("at the end there is a way to the end")
	}

	// Up, away from the end: by the wheel, as a person would.
	if err := chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseWheel, X: 700, Y: 400, DeltaX: 0.001, DeltaY: -1500})
		return err
	})); err != nil {
		t.Fatal(err)
	}
	b.until("the page has moved", "(p => p.scrollHeight - p.scrollTop - p.clientHeight > 1000)(document.scrollingElement)")
	untilStill(b)
	const place = "[document.scrollingElement.scrollTop, document.elementFromPoint(700, 300).closest('[id]').id, document.elementFromPoint(700, 300).closest('[id]').getBoundingClientRect().top].join()"
	was := eval[string](b, place)
	for range 3 {
		say()
	}
	b.until("the way to the end", pill)
	if is := eval[string](b, place); is != was {
		t.Errorf("the page moved: %s, was %s", is, was)
	}

	// Something opened, something closed, something marked, something typed.
	const (
		open    = "document.querySelector('.think').open"
		marking = `{
			const p = [...document.querySelectorAll('.prose p')].find(p => p.textContent.includes('word0210'));
			getSelection().setBaseAndExtent(p.firstChild, 3, p.firstChild, 12);
		}`
	)
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.think summary').click()"),
		chromedp.Evaluate[chromedp.Void]("if (document.querySelector('.tool').open) document.querySelector('.tool summary').click()"))
	b.do(chromedp.Evaluate[chromedp.Void]("(t => { t.focus({ preventScroll: true }); t.value = 'my draft'; t.setSelectionRange(3, 3); })(document.getElementById('text'))"))
	say()
	s.think("thoughts", "thought1 ")
	s.write("call", "out1\n")
	s.say("text1", "Another word at its end.")
	say()
	b.untilText(".think", "thought1")
	b.untilText(".output", "out1")
	untouched := func(when string) {
		t.Helper()
		if !eval[bool](b, open) {
			t.Errorf("%s, what was opened is closed", when)
		}
		if eval[bool](b, "document.querySelector('.tool').open") {
			t.Errorf("%s, what was closed is open", when)
		}
		if got := eval[string](b, "(t => [t.value, document.activeElement === t, t.selectionStart].join())(document.getElementById('text'))"); got != "my draft,true,3" {
			t.Errorf("%s, the message field is %s", when, got)
		}
	}
	untouched("after more text")
	// All of the page comes again, to somebody whose cursor nod does not know.
	x.set(func() {
		x.returns = func(r *http.Request) { r.Header.Set("Last-Event-ID", "another.1.1") }
	})
	x.CloseClientConnections()
	say()
	untouched("after the whole page has come again")
	// Marking a text takes the caret out of the field, so it is looked at by itself.
	b.do(chromedp.Evaluate[chromedp.Void](marking))
	say()
	x.CloseClientConnections()
	say()
	if got := eval[string](b, "String(getSelection())"); got != "agraph wo" {
		t.Errorf("marked is %q", got)
	}

	// The way to the end, and on from there.
	b.click("#pill")
	b.until("the end of the page", atEnd)
	b.until("no way to the end", "!("+pill+")")
	for range 2 {
		say()
		b.until("the end of the page", atEnd)
	}
	if eval[bool](b, pill) {
		t.Error("at the end there is a way to the end")
	}
	s.end("completed")
	b.untilText(".st", "done")
	b.until("the end of the page", atEnd)
}

// untilStill waits until the page does not scroll any more.
func untilStill(b *browser) {
	b.t.Helper()
	b.until("stillness", `new Promise(is => {
		const at = document.scrollingElement.scrollTop;
		requestAnimationFrame(() => requestAnimationFrame(() => is(document.scrollingElement.scrollTop === at)));
	})`)
}

// TestPartsOfAnotherSession: a page takes no part that is not of its session,
// whatever reaches it, and every element of the other has an id of its own.
func TestPartsOfAnotherSession(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	other, s := w.newSession(c, p, "The other session")
	s.say("o", "Words of the other session.")
	s.end("completed")
	w.untilPage(c, other, "Words of the other session.")
	path, s := w.newSession(c, p, "This session")
	s.say("m", "Words of this session.")
	w.untilPage(c, path, "Words of this session.")

	x := newWire(t, w)
	b := newBrowser(t, desk)
	b.goTo(strings.Replace(w.login, w.base, x.URL, 1))
	b.untilText("h2.group", "Agents")
	x.set(func() { x.instead = other + "/live" })
	b.goTo(x.URL + path)
	b.do(chromedp.Evaluate[chromedp.Void]("new MutationObserver(() => { window.other ||= document.body.textContent.includes('Words of the other session.'); }).observe(document, { subtree: true, childList: true, characterData: true })"))
	x.CloseClientConnections() // once more, now that somebody looks
	untilTrue(t, "all of the other session, on its way to the page", func() bool {
		for _, n := range x.open() {
			if n >= 2 { // hello, and the whole of it
				return true
			}
		}
		return false
	})
	x.set(func() { x.instead = "" })
	x.CloseClientConnections()
	s.say("n", "More words of this session.")
	b.untilText("#turns", "More words of this session.")
	if eval[bool](b, "Boolean(window.other)") {
		t.Error("the page showed what is not of its session")
	}
}
