package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

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
		switch id := attribute(n, "id"); id {
		case "plan", "turns", "dock":
			parts[id] = strings.Join(strings.Fields(saidBy(n)), " ")
		}
	}
	for n := range doc.Descendants() {
		if n.Data == "a" && within(n, "turns") {
			links = append(links, attribute(n, "href"))
		}
	}
	return strings.Join(append([]string{parts["plan"], parts["turns"], parts["dock"]}, links...), "|")
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func within(n *html.Node, id string) bool {
	for ; n != nil; n = n.Parent {
		if attribute(n, "id") == id {
			return true
		}
	}
	return false
}

func saidBy(n *html.Node) string {
	var b strings.Builder
	for c := range n.ChildNodes() {
		switch {
		case c.Type == html.TextNode:
			b.WriteString(c.Data)
		case c.Data != "time":
			b.WriteString(saidBy(c))
		}
	}
	return b.String()
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
	for (const e of document.querySelectorAll('[id]')) seen.has(e.id) ? twice.push(e.id) : seen.add(e.id);
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
// once, or when the turn has gone on. After each step the page says what nod says,
// and at the end everything that the agent said is there once.
func TestC25Reconnect(t *testing.T) {
	w, p := newPuppetWorld(t)
	c := w.client()
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
				x.events, x.first, x.broken, x.hold = 0, "", 0, hold
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
