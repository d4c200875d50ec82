package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// picturesFolder is where pictures go. They are drawn when NOD_PICTURES names a
// folder, since fonts differ between machines.
func picturesFolder(t *testing.T) string {
	dir := os.Getenv("NOD_PICTURES")
	if dir == "" {
		t.Skip("NOD_PICTURES names no folder")
	}
	return dir
}

// album draws each scene in every look.
type album struct {
	t    *testing.T
	dir  string
	tabs map[string]*browser
}

func openAlbum(t *testing.T, w *world, dir string) *album {
	t.Helper()
	w.folder = filepath.Join(os.TempDir(), "shop") // a name that looks well
	if err := os.MkdirAll(w.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	looks := map[string]look{"390x844": phone, "1440x900": desk}
	looks["390x844-dark"], looks["1440x900-dark"] = look{width: 390, height: 844, dark: true}, look{width: 1440, height: 900, dark: true}
	a := &album{t, dir, map[string]*browser{}}
	for name, l := range looks {
		a.tabs[name] = newBrowser(t, l)
		a.tabs[name].loggedIn(w, false)
		w.login = w.mintLogin()
	}
	return a
}

// all has show lead each browser to a scene.
func (a *album) all(scene string, show func(*browser)) {
	a.t.Helper()
	for name, tab := range a.tabs {
		show(tab)
		tab.until("that its cards can be answered", "![...document.querySelectorAll('.approve')].some(e => e.ariaDisabled)")
		time.Sleep(300 * time.Millisecond) // for the last frame to be drawn
		tab.shot(filepath.Join(a.dir, scene+"-"+name+".png"))
		for _, fault := range eval[[]string](tab, faults) {
			a.t.Errorf("%s, %s: %s", scene, name, fault)
		}
	}
}

// faults are what no page may have: something wider than the window, text of
// which the contrast is below 4.5 (but for what cannot be used yet), and on a phone buttons that are hard to hit.
const faults = `(() => {
	const found = new Set(), seen = e => e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length;
	const name = e => e.tagName.toLowerCase() + (e.id && '#' + e.id) + [...e.classList].map(c => '.' + c).join('');
	const page = document.scrollingElement;
	if (page.scrollWidth > page.clientWidth) found.add('the page is ' + (page.scrollWidth - page.clientWidth) + ' px too wide');
	const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
	const rgba = c => { paint.clearRect(0, 0, 1, 1); paint.fillStyle = c; paint.fillRect(0, 0, 1, 1); return [...paint.getImageData(0, 0, 1, 1).data]; };
	const over = (a, b, o) => a.slice(0, 3).map((x, i) => x * o + b[i] * (1 - o));
	const ground = e => {
		const c = rgba(getComputedStyle(e).backgroundColor), o = c[3] / 255;
		return o === 1 || !e.parentElement ? c.slice(0, 3) : over(c, ground(e.parentElement), o);
	};
	const light = c => c.map(x => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4).reduce((s, x, i) => s + x * [.2126, .7152, .0722][i], 0);
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const done = new Set();
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement;
		if (!texts.currentNode.data.trim() || done.has(e) || !seen(e) || e.closest('.away, [aria-disabled=true]') || e.getAnimations().length) continue;
		done.add(e);
		let opacity = 1;
		for (let p = e; p; p = p.parentElement) opacity *= getComputedStyle(p).opacity;
		const back = ground(e), text = rgba(getComputedStyle(e).color);
		const [a, b] = [light(over(text, back, opacity * text[3] / 255)), light(back)].sort((x, y) => y - x);
		const ratio = (a + .05) / (b + .05);
		if (ratio < 4.5) found.add('contrast ' + ratio.toFixed(1) + ' of ' + name(e) + ' in ' + name(e.parentElement));
	}
	if (innerWidth < 1000)
		for (const e of document.querySelectorAll('button, .button, summary, input, textarea, .pill, .row')) {
			const r = (e.closest('label') ?? e).getBoundingClientRect();
			if (seen(e) && e.type !== 'hidden' && r.height < 43.5) found.add(Math.round(r.height) + ' px to hit: ' + name(e) + ' in ' + name(e.parentElement));
		}
	return [...found];
})()`

// TestPictures draws the pictures of docs/, and most other pages.
func TestPictures(t *testing.T) {
	dir := picturesFolder(t)
	w := newBareWorld(t, "/usr/bin:/bin")
	a := openAlbum(t, w, dir)
	b, all := a.tabs["1440x900"], a.all
	start := func(prompt string) string {
		b.startSession(w, prompt)
		return eval[string](b, "location.href.replace(/#.*/, '')")
	}
	answer := func() {
		id := eval[string](b, "document.querySelector('.card').id")
		b.approve(".card .approve:not(.more-than-once)")
		b.until("the next thing", "!document.getElementById('"+id+"')?.querySelector('form')")
	}
	card := func() { b.until("a card", "document.querySelector('.card form')") }

	start("Rename the package and fix what that breaks.")
	card()
	b.click(".halt .stop")
	b.until("the end", "document.querySelector('.send button')")
	finished := start("The LRU in cache.go grows without limit. Bound it to 10,000 entries and add a test.")
	pending := false
	for range 12 {
		b.until("a card or the tail", "document.querySelector('.card form') || document.querySelectorAll('.prose table').length > 0")
		if !eval[bool](b, "Boolean(document.querySelector('.card form'))") {
			break
		}
		if !pending && eval[bool](b, "Boolean(document.querySelector('.card .diff'))") {
			pending = true
			all("diff", func(tab *browser) { tab.goTo(finished); tab.until("the card", "document.querySelector('.card')") })
			b.goTo(finished)
			card()
		}
		if eval[bool](b, "Boolean(document.querySelector('.card .question'))") {
			all("question", func(tab *browser) { tab.goTo(finished); tab.until("the card", "document.querySelector('.card')") })
			b.goTo(finished)
			card()
		}
		answer()
	}
	b.until("the end", "document.querySelector('.send button')")
	waiting := start("Upgrade echo to the newest release of version 4 and run all tests.")
	card()
	answer()
	card()
	start("Explain why TestRetry is flaky on slow machines.")
	all("pending", func(tab *browser) { tab.goTo(waiting); tab.until("the card", "document.querySelector('.card')") })
	all("finished", func(tab *browser) {
		tab.goTo(finished)
		tab.until("the session", "document.querySelector('.prose table')")
		tab.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.prose table').closest('.part').scrollIntoView()"))
	})
	all("top", func(tab *browser) {
		tab.goTo(finished)
		tab.until("the session", "document.querySelector('.prose table')")
	})
	all("inbox", func(tab *browser) { tab.goTo(w.base + "/") })
	all("devices", func(tab *browser) { tab.goTo(w.base + "/devices") })
	all("login", func(tab *browser) { tab.goTo(w.base + "/login") })
	all("problem", func(tab *browser) { tab.goTo(w.base + "/s/none") })
	all("confirm", func(tab *browser) {
		tab.goTo(waiting)
		tab.until("the card", "document.querySelector('.card')")
		tab.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.card textarea').value = 'git switch -c a-longer-name\\ngit push \\u202e--force origin a-longer-name-that-does-not-fit-into-one-line-of-a-phone'"))
		tab.click(".card .approve:not(.more-than-once)")
		tab.until("the confirm page", "document.querySelector('.edited')")
	})
	all("new", func(tab *browser) { tab.goTo(w.base + "/new") })

	// Sub-agents, the archive, and what a crash leaves behind.
	b.goTo(w.base + "/")
	helped := b.idle(w, "Find out what reads the cache.")
	b.startHelper()
	all("subagent", func(tab *browser) { tab.goTo(helped); tab.until("the card", "document.querySelector('.card')") })
	child := eval[string](b, "document.querySelector('.sub-agent').href")
	all("child", func(tab *browser) { tab.goTo(child); tab.until("the card", "document.querySelector('.card')") })
	all("delete", func(tab *browser) { tab.goTo(finished + "/delete") })
	all("keeping", func(tab *browser) {
		tab.goTo(finished)
		tab.click(".keeping summary")
	})
	b.goTo(finished)
	b.click(".keeping summary")
	b.click(".keeping button")
	b.until("the inbox", "document.querySelector('.inbox')")
	all("archive", func(tab *browser) { tab.goTo(w.base + "/archive") })
	crashed := strings.TrimPrefix(start("Explain the cache at length."), w.base)
	b.until("text", "document.querySelector('.prose')")
	w.nod.kill(syscall.SIGKILL)
	w.start()
	for _, tab := range a.tabs {
		tab.loggedIn(w, false)
		w.login = w.mintLogin()
	}
	all("gap", func(tab *browser) {
		tab.goTo(w.base + crashed)
		tab.until("the session", "document.querySelector('.gap')")
	})
}

// TestPicturesOfMuch draws what is long: sessions, turns, outputs, messages, diffs.
func TestPicturesOfMuch(t *testing.T) {
	dir := picturesFolder(t)
	w, p := puppetWorld(t)
	p.model = "gpt-5.2-codex"
	w.start()
	a := openAlbum(t, w, dir)
	c := w.observer()
	all := a.all
	at := func(path string) func(*browser) {
		return func(b *browser) {
			b.goTo("about:blank") // or it stays where it was
			b.goTo(w.base + path)
		}
	}
	to := func(path, selector string) func(*browser) {
		return func(b *browser) {
			at(path)(b)
			b.until("the scene", fmt.Sprintf("document.querySelector(%q)", selector))
			b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).scrollIntoView()", selector)))
		}
	}
	run := func(script string) func(*browser) {
		return func(b *browser) { b.do(chromedp.Evaluate[chromedp.Void](script)) }
	}

	// Many turns.
	many, s := w.newSession(c, p, "Why does the cart lose its discount when somebody logs in?")
	aTurn(s, 0)
	for i := 1; i <= 70; i++ {
		s = s.again(asked[i%len(asked)])
		aTurn(s, i)
	}
	w.untilPage(c, many, ">Send<")
	all("earlier", at(many))
	all("earlier-more", func(b *browser) {
		at(many)(b)
		b.click("#earlier a")
		b.until("more", "!document.getElementById('earlier')")
		run("scrollTo(0, document.querySelector('.earlier').offsetTop - 40)")(b)
	})
	all("earlier-page", to(many+"/before/30/0", "#turns"))
	all("earlier-page-top", at(many+"/before/30/0"))
	all("earlier-page-end", func(b *browser) {
		at(many + "/before/30/0")(b)
		run("scrollTo(0, 1e6)")(b)
	})
	all("find-empty", at(many+"/find"))
	all("find", at(many+"/find?q=discount"))
	all("find-nothing", at(many+"/find?q=a+text+that+stands+nowhere"))

	// One turn that does not end.
	steps, s := w.newSession(c, p, "Go through all migrations, one by one, and say which of them lock a table for longer than a second.")
	for i := range 1500 {
		s.say(fmt.Sprint(s.id, "-say-", i), md(fmt.Sprintf("Migration %04d adds a column with a default; ´ALTER TABLE´ takes the lock only for a moment.", i)))
		id, line := fmt.Sprint(s.id, "-run-", i), fmt.Sprintf("psql -X -f migrations/%04d_orders.sql --single-transaction", i)
		s.run(id, line)
		s.write(id, "ALTER TABLE\nTime: 12.107 ms\n")
		s.ran(id, line)
	}
	s.say("last", "All of them are read.")
	s.end("completed")
	w.untilPage(c, steps, "All of them are read.")
	w.untilPage(c, steps, ">Send<")
	all("steps", at(steps))

	// Terminals.
	term, s := w.newSession(c, p, "Run the linters and the tests.")
	s.say("say", "I run the linter first, then all tests with the race detector.")
	s.run("colours", "make lint test")
	s.write("colours", colours())
	all("terminal-running", to(term, ".output"))
	s.ran("colours", "make lint test")
	s.run("long", "go test -race -v -count=1 ./... 2>&1 | tee /tmp/a-log-with-a-long-name-that-does-not-fit-into-one-line.txt")
	for i := range 3000 {
		s.write("long", fmt.Sprintf("=== RUN   TestCart/discount_%04d\n\x1b[32m--- PASS\x1b[0m: TestCart/discount_%04d (0.0%ds)\n", i, i, i%10))
	}
	all("terminal-long-running", to(term, ".part:last-child .output"))
	fails := command("long", "go test -race -v -count=1 ./...", "failed")
	fails["exitCode"], fails["durationMs"] = 1, 61_500
	s.write("long", "\x1b[1;31mFAIL\x1b[0m\tshop/cart\t61.402s\n")
	s.done(fails)
	s.end("completed")
	w.untilPage(c, term, ">Send<")
	all("terminal", func(b *browser) {
		at(term)(b)
		run("for (const d of document.querySelectorAll('.tool')) d.open = true; document.querySelector('.tool').scrollIntoView()")(b)
	})
	all("terminal-left-out", func(b *browser) {
		at(term)(b)
		run("document.querySelector('.left-out').scrollIntoView({block: 'center'})")(b)
	})
	all("whole", at(fmt.Sprintf("%s/turns/0/parts/2", term)))

	// Messages.
	talk, s := w.newSession(c, p, "Explain the cart, with code.")
	s.think("think", "**Reading the cart.** It keeps the discount beside the session, not beside the cart.\n\nSo a login that changes the session loses it.")
	s.say("code", md(codeText))
	s.say("prose", md(proseText))
	s.end("completed")
	w.untilPage(c, talk, ">Send<")
	time.Sleep(time.Second) // for the colours
	all("code", to(talk, ".prose pre"))
	all("code-more", to(talk, ".prose .b:has(pre) ~ .b:has(pre) ~ .b:has(pre) > pre"))
	all("prose", to(talk, ".part:nth-child(3)"))
	all("prose-more", to(talk, ".part:nth-child(3) table"))
	essay, s := w.newSession(c, p, "Write down everything that you know about this repository.")
	for i := range 400 {
		s.say("essay", md(fmt.Sprintf("\n\n### Chapter %d\n\nThe package ´cart%d´ keeps what a person has put aside. It is read at every request and written when something changes, so it lives in memory and on disk, and the two are compared at every start.\n\n- one reason\n- another one\n", i, i)))
	}
	s.end("completed")
	w.untilPage(c, essay, ">Send<")
	all("message-left-out", func(b *browser) {
		at(essay)(b)
		run("document.querySelector('.left-out').scrollIntoView({block: 'center'})")(b)
	})

	// Diffs.
	changes, s := w.newSession(c, p, "Move the discount to the cart.")
	s.say("say", "The discount moves from the session to the cart. This touches the store, the handlers and one fixture.")
	edit := object{"type": "fileChange", "id": "edit", "status": "inProgress", "changes": someChanges()}
	s.begin(edit)
	answer, resolved := s.ask("item/fileChange/requestApproval", object{"itemId": "edit", "reason": "The session ends at a login, and the discount with it."})
	w.untilPage(c, changes, `class="card"`)
	all("diff-card", at(changes))
	all("diff-card-end", func(b *browser) {
		at(changes)(b)
		run("document.querySelector('.aside').scrollTo(0, 1e6)")(b)
	})
	b := a.tabs["1440x900"]
	at(changes)(b)
	b.click(".card .approve:not(.more-than-once)")
	approved(t, answer)
	resolved()
	edit["status"] = "completed"
	s.done(edit)
	s.end("completed")
	w.untilPage(c, changes, ">Send<")
	all("diff-words", func(b *browser) {
		at(changes)(b)
		run("document.querySelector('.tool').open = true; document.querySelector('.tool').scrollIntoView()")(b)
	})
	all("diff-large", func(b *browser) {
		at(changes)(b)
		run("document.querySelector('.tool').open = true; document.querySelector('.diff a[data-get]').closest('.diff').previousElementSibling.scrollIntoView()")(b)
	})
	all("diff-opened", func(b *browser) {
		at(changes)(b)
		run("document.querySelector('.tool').open = true; document.querySelector('.diff a[data-get]').closest('.diff').scrollIntoView()")(b)
		b.click(".diff a[data-get]")
		b.until("the lines", "document.querySelector('.diff[data-keep] .lines')")
	})
	at(changes)(b)
	file := strings.TrimPrefix(eval[string](b, "document.querySelector('.diff a[data-get]').href"), w.base)
	all("diff-file", at(file))
	all("diff-file-later", func(b *browser) {
		at(file + "?from=1000")(b)
	})
	all("diff-file-end", func(b *browser) {
		at(file)(b)
		run("scrollTo(0, 1e6)")(b)
	})
	files, s := w.newSession(c, p, "Generate the clients anew.")
	s.begin(object{"type": "fileChange", "id": "edit", "status": "inProgress", "changes": manyChanges(10_000)})
	_, _ = s.ask("item/fileChange/requestApproval", object{"itemId": "edit"})
	w.untilPage(c, files, `class="card"`)
	all("diff-files", func(b *browser) {
		at(files)(b)
		run("document.querySelector('.card .diffs').scrollTo(0, 1e6)")(b)
	})
	all("diff-files-page", func(b *browser) {
		at(files)(b)
		b.goTo(eval[string](b, "[...document.links].find(a => a.textContent.includes('more files')).href"))
	})
	all("diff-files-page-end", run("scrollTo(0, 1e6)"))

	// Text that grows while somebody reads further up.
	grows, s := w.newSession(c, p, "Explain the cart at length.")
	more := func(b *browser) {
		run("scrollTo(0, 500)")(b)
		b.until("another place", "document.scrollingElement.scrollTop === 500")
		time.Sleep(100 * time.Millisecond) // for the event
		s.say("text", md(proseText))
		b.until("the way to the end", "!document.getElementById('pill').hidden")
	}
	for range 3 {
		s.say("text", md(proseText))
	}
	all("pill", func(b *browser) { at(grows)(b); more(b) })
	s.notify("turn/plan/updated", object{"plan": []any{
		object{"step": "Read what keeps the cart, and everything that reads it", "status": "completed"},
		object{"step": "Say what happens at a login, in the order in which it happens", "status": "inProgress"},
		object{"step": "Propose a change", "status": "pending"},
	}})
	w.untilPage(c, grows, "Propose a change")
	all("pill-plan", func(b *browser) { at(grows)(b); more(b) })
	all("plan", func(b *browser) {
		at(grows)(b)
		run("document.querySelector('.plan details').open = true")(b)
	})
	for _, tab := range a.tabs {
		at(grows)(tab)
	}
	w.nod.kill(syscall.SIGKILL)
	all("offline", func(b *browser) { b.until("the banner", "!document.getElementById('offline').hidden") })
}

// md is a text with ´ for the mark of code, as Go has no other place for it.
func md(s string) string { return strings.ReplaceAll(s, "´", "`") }

var asked = []string{
	"Add a test for that.",
	"And what if the cart is empty? I think that somebody has seen an error there last week, with the message “discount: no such cart”.",
	"Measure it, please.",
}

// aTurn is one as people have them all day.
func aTurn(s *scene, i int) {
	s.think(s.id+"-think", "**Looking at the store.** The discount is kept beside the session.")
	s.say(s.id+"-first", md("The ´discount´ is kept with the session, and a login begins a new one. I look where it is read."))
	line := fmt.Sprintf("rg -n 'Discount' internal/cart internal/session --context %d", i%5)
	s.run(s.id+"-rg", line)
	s.write(s.id+"-rg", "internal/cart/cart.go:41:\tDiscount Money // of the session, not of the cart\n")
	s.ran(s.id+"-rg", line)
	s.run(s.id+"-test", "go test ./internal/cart")
	s.write(s.id+"-test", "ok  \tshop/internal/cart\t0.214s\n")
	s.ran(s.id+"-test", "go test ./internal/cart")
	s.say(s.id+"-last", md(fmt.Sprintf("It is in **three places**, of which one is wrong:\n\n1. ´cart.Add´ keeps it\n2. ´session.Renew´ drops it\n3. ´checkout.Total´ reads it\n\n| case | before | now |\n|---|---:|---:|\n| guest | %d.00 | %d.00 |\n| after a login | 0.00 | %d.00 |\n\n~~~go\nfunc (s *Session) Renew() *Session {\n\treturn &Session{ID: newID(), Cart: s.Cart}\n}\n~~~\n", i, i, i)))
	s.end("completed")
}

// colours is what linters, tests and builds paint.
func colours() string {
	var b strings.Builder
	b.WriteString("\x1b[1m== lint ==\x1b[0m\n\x1b[1minternal/cart/cart.go:41:2:\x1b[0m \x1b[31;1merror:\x1b[0m field Discount is unused \x1b[2m(unused)\x1b[0m\n")
	b.WriteString("\x1b[1minternal/cart/cart.go:77:14:\x1b[0m \x1b[35;1mwarning:\x1b[0m this copies a \x1b[4msync.Mutex\x1b[0m, which nobody wants to have copied by accident \x1b[36m[copylocks]\x1b[0m\n")
	for i := range 8 {
		fmt.Fprintf(&b, "\x1b[%dm fg %d \x1b[0m\x1b[1;%dm bold \x1b[0m\x1b[%dm bright \x1b[0m\x1b[2;%dm dim \x1b[0m\x1b[%dm bg %d \x1b[0m\x1b[37;%dm on \x1b[0m\x1b[30;%dm on \x1b[0m\x1b[7;%dm inverse \x1b[0m\x1b[97;%dm bright \x1b[0m\n", 30+i, i, 30+i, 90+i, 30+i, 40+i, i, 40+i, 40+i, 30+i, 100+i)
	}
	b.WriteString("\x1b[3mitalic\x1b[0m \x1b[9mstruck\x1b[0m \x1b[4;9mboth\x1b[0m \x1b[38;5;208m256 colours\x1b[0m \x1b[38;2;20;20;20mtrue colour\x1b[0m \x1b[48;5;22mon green\x1b[0m \x1b[31;43mred on yellow\x1b[0m \x1b[34;41mblue on red\x1b[0m\n")
	b.WriteString("\x1b[42;30m PASS \x1b[0m src/cart.test.ts\n\x1b[41;37m FAIL \x1b[0m src/login.test.ts\n")
	for i := 0; i <= 100; i += 5 {
		fmt.Fprintf(&b, "\r\x1b[2K\x1b[32m%s\x1b[90m%s\x1b[0m %3d %%", strings.Repeat("█", i/4), strings.Repeat("░", 25-i/4), i)
	}
	b.WriteString("\n")
	return b.String()
}

const codeText = `Here is each kind, first Go:

~~~go
// Renew begins another session for the same person, with what they have put aside.
func (s *Session) Renew(now time.Time) (*Session, error) {
	if s.Ended() {
		return nil, fmt.Errorf("session %q has ended at %v, %d minutes ago, and cannot be renewed any more", s.ID, s.End, 15)
	}
	return &Session{ID: newID(), Cart: s.Cart, Begin: now}, nil
}
~~~

The change:

~~~diff
--- a/session.go
+++ b/session.go
@@ -12,7 +12,7 @@ func (s *Session) Renew() *Session {
-	return &Session{ID: newID()}
+	return &Session{ID: newID(), Cart: s.Cart}
 }
~~~

How to try it:

~~~bash
# all of it, with the race detector
export SHOP_DB="postgres://localhost/shop" && go test -race ./... | tee "$HOME/log.txt"
for i in 1 2 3; do curl -sS "http://localhost:8080/cart/$i" || exit 1; done
~~~

What it answers:

~~~json
{"cart": 7, "discount": 12.5, "items": [{"name": "Espresso cup", "count": 2, "gift": true, "note": null}]}
~~~

And in a page:

~~~html
<form method="post" action="/cart"><input name="count" value="2"><button>Put aside</button></form>
~~~

~~~python
class Cart:
    """What a person has put aside."""
    def total(self, rate: float = 0.19) -> float:
        return sum(x.price * x.count for x in self.items) * (1 + rate)  # with tax
~~~

~~~
no language, and a line that is longer than any phone is wide, so that it has to be scrolled to be read to its end
~~~
`

const proseText = `## What happens at a login

The cart is *read*, then **renewed**, and ~~thrown away~~ kept; see ´session.Renew´ in [the handler](https://example.com/login) and https://example.com/a/very/long/address/that/does/not/fit/into/one/line/of/a/phone?at=all.

1. The old session ends.
   - its id is forgotten
   - its cart is not
     1. which is what this is about
     2. and what the test is for
2. A new one begins.

   With a second paragraph in the same item.
3. The answer goes out.

- [x] read the code
- [ ] change it

> A session is a promise to remember.
>
> > And a quote in a quote, with ´code´.

| What | Where | Before | After | Why it changes |
|:-----|:------|-------:|------:|----------------|
| discount | ´session´ | 12.50 | 0.00 | a login begins another session |
| items | ´cart´ | 3 | 3 | they are kept on disk, so nothing happens to them |
| a-very-long-identifier-without-spaces | ´internal/session/renew.go´ | 1 | 2 | none |

---

### And then

That is all there is to it.

`

// someChanges are of every kind.
func someChanges() []object {
	change := func(kind, path, to, diff string) object {
		k := object{"type": kind}
		if to != "" {
			k["move_path"] = to
		}
		return object{"path": path, "kind": k, "diff": diff}
	}
	var large strings.Builder
	for i := range 1199 {
		fmt.Fprintf(&large, "{\"id\": %d, \"name\": \"Espresso cup no. %d\", \"price\": %d.50, \"in_stock\": true}\n", i, i, i%90)
	}
	var larger strings.Builder
	for i := range 2600 {
		fmt.Fprintf(&larger, "INSERT INTO carts (id, discount) VALUES (%d, %d);\n", i, i%30)
	}
	return []object{
		change("update", "internal/session/renew.go", "", "@@ -10,7 +10,8 @@ import \"time\"\n // Renew begins another session for the same person.\n func (s *Session) Renew(now time.Time) *Session {\n-\tnext := &Session{ID: newID(), Begin: now}\n-\tnext.Discount = 0 // it belongs to the old session, and nobody has asked for it since then\n+\tnext := &Session{ID: newID(), Begin: now, Cart: s.Cart}\n+\tnext.Cart.Discount = s.Discount // it belongs to the cart, and somebody has asked for it since then\n+\taudit.Log(\"renewed\", s.ID, next.ID)\n \treturn next\n }\n \n"),
		change("add", "internal/cart/testdata/items.json", "", large.String()),
		change("update", "internal/cart/discount.go", "internal/cart/money/discount_of_a_cart_that_was_moved_between_sessions.go", ""),
		change("update", "web/logo.png", "", "Binary files a/web/logo.png and b/web/logo.png differ\n"),
		change("delete", "internal/session/discount.go", "", "package session\n\n// Discount is what a person need not pay.\ntype Discount int\n"),
		change("add", "migrations/0042_carts.sql", "", larger.String()),
		change("update", "Makefile", "", "@@ -1,2 +1,2 @@\n all: build\n-test: ; go test ./...\n+test: ; go test -race ./...\n"),
	}
}

func manyChanges(n int) []object {
	var all []object
	for i := range n {
		all = append(all, object{"path": fmt.Sprintf("clients/v2/generated/resource_%05d/client.go", i), "kind": object{"type": "update"},
			"diff": fmt.Sprintf("@@ -1,2 +1,2 @@\n // Code generated. DO NOT EDIT.\n-const version = %d\n+const version = %d\n", i, i+1)})
	}
	return all
}
