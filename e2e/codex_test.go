package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// exactCommand is what the script "command" has Codex run, to the byte.
const exactCommand = `/bin/bash -lc 'ls -la && echo done > out.txt && cat out.txt'`

// TestApprove is the whole way, once: a prompt, streamed text, a card, a click,
// output, and the answer as HTML. The page complains of nothing, and a reload
// shows what was streamed.
func TestApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "Please look around. script:command")
	b.untilText(".ask", "Please look around.")
	b.untilText(".think", "Looking at the folder")
	b.untilText(".prose", "I will list the files first.")

	b.until("the card", "document.querySelector('.card .bytes')")
	if got := eval[string](b, "document.querySelector('.card .bytes').textContent"); got != exactCommand {
		t.Errorf("the card shows %q, want %q", got, exactCommand)
	}
	b.untilText(".card .where", w.folder)
	if title := eval[string](b, "document.title"); !strings.HasPrefix(title, "(1)") {
		t.Errorf("the title is %q", title)
	}
	if _, err := os.Stat(filepath.Join(w.folder, "out.txt")); err == nil {
		t.Error("the command ran before it was approved")
	}
	b.click(".card button.approve[value=accept]")
	b.untilText(".tool .output", "done")
	b.untilText(".tool .dur", "exit 0")
	b.untilText(".prose td", "test")
	b.untilText(".prose pre code", `fmt.Println("hello <world> & \"co\"")`)
	b.until("no card", "!document.querySelector('.card')")
	b.untilText(".st", "done")
	b.until("the composer", "document.querySelector('.send button')")
	if out, err := os.ReadFile(filepath.Join(w.folder, "out.txt")); err != nil || string(out) != "done\n" {
		t.Errorf("the command left %q, %v", out, err)
	}
	b.sameAfterReload()
	if c := b.complaints(); len(c) > 0 {
		t.Errorf("the browser complains: %q", c)
	}
}

// transcript is what a person reads, without what ticks.
const transcript = `[...document.querySelectorAll('#turns, #dock, #plan')].map(e => e.textContent.replace(/\s+/g, ' ')).join('|')`

// sameAfterReload compares the streamed page of a session at rest with one
// loaded afresh.
func (b *browser) sameAfterReload() {
	b.t.Helper()
	b.until("the end of the turn", "document.querySelector('.send button')")
	streamed := eval[string](b, transcript)
	b.goTo(eval[string](b, "location.href.replace(/#.*/, '')"))
	b.until("the page", "document.getElementById('turns')")
	if loaded := eval[string](b, transcript); loaded != streamed {
		b.t.Errorf("streamed %q\nloaded   %q", streamed, loaded)
	}
}

func TestDeny(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	b.startSession(w, "script:command")
	b.until("the card", "document.querySelector('.card')")
	b.click(".card button.deny[value=decline]")
	b.until("the denied call", "document.querySelector('.tool.off')")
	b.untilText(".tool.off", "Denied. It was not run.")
	b.untilText(".prose h2", "Result") // the script goes on all the same
	b.untilText(".st", "done")
	if _, err := os.Stat(filepath.Join(w.folder, "out.txt")); err == nil {
		t.Error("a denied command ran")
	}
	b.sameAfterReload()
}

// TestReloadInTheMiddle cuts in while text streams: the page that is loaded then
// shows what was streamed, goes on, and ends the same.
func TestReloadInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "script:slow")
	b.untilText(".prose", "slow12 ")
	before := eval[string](b, "document.querySelector('.prose').textContent.trim()")
	b.do(reload)
	b.until("the page", "document.querySelector('.prose')")
	after := eval[string](b, "document.querySelector('.prose').textContent.trim()")
	if !strings.HasPrefix(after, before) {
		t.Errorf("before %q\nafter  %q", before, after)
	}
	b.untilText(".prose", "slow30 ") // it goes on by itself
	b.click(".halt .stop")
	b.untilText(".foot", "stopped")
	b.until("the composer", "document.querySelector('.send button')")
	words := strings.Fields(eval[string](b, "document.querySelector('.prose').textContent"))
	for i, word := range words {
		if word != fmt.Sprintf("slow%d", i) {
			t.Fatalf("word %d is %q: text was lost or doubled", i, word)
		}
	}
	b.sameAfterReload()
}

// TestWithoutJavaScript does the same by forms alone. Approve leads over a page
// that shows the whole command above its button.
func TestWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := phone
	l.noJS = true
	b := newBrowser(t, l)
	b.loggedIn(w, true)
	b.startSession(w, "script:command")
	session := eval[string](b, "location.href")
	b.reloadUntil("the card", "document.querySelector('.card button.approve')")
	b.click(".card button.approve[value=accept]")
	b.until("the confirm page", "document.querySelector('main.narrow .bytes')")
	if got := eval[string](b, "document.querySelector('.bytes').textContent"); got != exactCommand {
		t.Errorf("the confirm page shows %q", got)
	}
	above := "document.querySelector('.bytes').getBoundingClientRect().bottom <= document.querySelector('button.approve').getBoundingClientRect().top"
	if !eval[bool](b, above) {
		t.Error("the button is not below the command")
	}
	if _, err := os.Stat(filepath.Join(w.folder, "out.txt")); err == nil {
		t.Error("the command ran before it was confirmed")
	}
	b.click("main.narrow button.approve")
	b.until("the session", "location.href.startsWith("+fmt.Sprintf("%q", session)+")")
	b.reloadUntil("the answer", "document.querySelector('.prose table')")
	if out := eval[string](b, "document.querySelector('.tool .output').textContent"); !strings.Contains(out, "done") {
		t.Errorf("output %q", out)
	}
	b.reloadUntil("the composer", "document.querySelector('.send button')")
	b.fill(".send textarea", "script:hello")
	b.click(".send button")
	b.reloadUntil("the second answer", "[...document.querySelectorAll('.prose')].some(e => e.textContent.includes('Hello from the scripted model'))")
}

// TestKill9OfNod finds a finished session whole after nod was killed.
func TestKill9OfNod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"script:hello"}})
	path := sessionPath.FindString(page)
	w.untilPage(c, path, "Hello from the")
	w.untilPage(c, path, ">Send<")
	before := transcriptOf(t, w, c, path)
	w.nod.kill(syscall.SIGKILL)
	w.start()
	c = w.client()
	after := transcriptOf(t, w, c, path)
	if before != after {
		t.Errorf("before %s\nafter  %s", before, after)
	}
	if !strings.Contains(after, "Hello from the <em>scripted</em> model.") {
		t.Errorf("it is not whole: %s", after)
	}
	// And it goes on where it was.
	w.post(c, path+"/messages", url.Values{"text": {"script:command"}})
	w.untilPage(c, path, "Run a command?")
}

var (
	sessionPath = regexp.MustCompile(`/s/[a-z0-9-]+`)
	turnsPart   = regexp.MustCompile(`(?s)<div id="turns">.*<div id="composer"`)
)

func transcriptOf(t *testing.T, w *world, c *http.Client, path string) string {
	t.Helper()
	status, page := w.get(c, path)
	if status != http.StatusOK {
		t.Fatalf("%s: %d", path, status)
	}
	return turnsPart.FindString(page)
}

// TestKill9OfCodex kills the agent in a turn: within a second the page says that
// the link is lost and what that means; nothing runs on.
func TestKill9OfCodex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "script:slow")
	b.untilText(".prose", "slow5 ")
	m := regexp.MustCompile(`msg=started .*group=(\d+)`).FindStringSubmatch(w.nod.said())
	if m == nil {
		t.Fatal("nod has not logged the process of Codex")
	}
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil { // the whole group: npm's codex is a script around the program
		t.Fatal(err)
	}
	killed := time.Now()
	b.untilText(".links", "link lost")
	t.Logf("the page said so %v after the kill", time.Since(killed).Round(time.Millisecond))
	b.untilText(".failed", "The link to Codex was lost while this turn ran")
	b.untilText(".st", "failed")
	b.until("the composer", "document.querySelector('.send button')")
	if n := eval[int](b, "document.querySelectorAll('.tool.run, .card').length"); n != 0 {
		t.Errorf("%d things still run or wait", n)
	}
	// The next message starts Codex again and goes on in the same thread.
	b.fill(".send textarea", "script:hello")
	b.click(".send button.primary")
	b.untilText(".prose", "Hello from the scripted model.")
}

// TestModelErrors shows what went wrong with the model, as a sentence of the turn.
func TestModelErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	for script, want := range map[string]string{"err429": "429 Too Many Requests", "err500": "This turn failed.", "cut": "stream disconnected before completion"} {
		_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"script:" + script}})
		w.untilPage(c, sessionPath.FindString(page), want)
	}
}

// TestFileChange approves two edits, each shown as a diff before it is made.
func TestFileChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	b.startSession(w, "script:patch")
	b.until("the first card", "document.querySelector('.card .diff')")
	b.untilText(".card .diff .a", "+# Hello")
	b.click(".card button.approve[value=accept]")
	b.untilText(".card .diff .d", "-line one")
	b.click(".card button.approve[value=accept]")
	b.untilText(".prose", "Both edits are made.")
	if got, err := os.ReadFile(filepath.Join(w.folder, "notes", "hello.md")); err != nil || !strings.Contains(string(got), "line 1 and a half") {
		t.Errorf("the file is %q, %v", got, err)
	}
	b.sameAfterReload()
}

// TestParallel answers two requests that wait at once, the second one first, and
// allows one for the whole session, which is asked twice.
func TestParallel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "script:parallel")
	b.until("two cards", "document.querySelectorAll('.card button[value=accept]').length === 2")
	b.click(".card:nth-child(2) button[value=acceptForSession]")
	b.until("the confirm page", "document.querySelector('main.narrow')")
	b.untilText(".risknote", "more than one run")
	b.click("main.narrow button.approve")
	b.until("one card", "document.querySelectorAll('.card button[value=accept]').length === 1")
	b.click(".card button[value=accept]")
	b.untilText(".prose", "Both commands are done.")
	for _, f := range []string{"par1.txt", "par2.txt"} {
		if _, err := os.Stat(filepath.Join(w.folder, f)); err != nil {
			t.Error(err)
		}
	}
}

// TestLongAnswer streams 5,000 pieces without losing or doubling one.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "script:long")
	b.untilText(".prose", "word4999")
	b.untilText(".st", "done")
	words := strings.Fields(eval[string](b, "[...document.querySelectorAll('.prose p')].map(e => e.textContent).join(' ')"))
	if len(words) != 4875 { // every fortieth piece is a heading
		t.Errorf("%d words", len(words))
	}
	b.sameAfterReload()
}

// TestHostile has the agent write what would take over a careless page.
func TestHostile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "script:hostile")
	b.until("the card", "document.querySelector('.card')")
	for _, chip := range []string{"U+202E", "U+2066", "U+200B", "U+00A0"} {
		b.untilText(".card .hid", chip)
	}
	if n := eval[int](b, "document.querySelectorAll('#turns :is(button, input, form, img, script, iframe, [onclick], [onerror], [style])').length"); n != 0 {
		t.Errorf("%d controls or worse in the transcript", n)
	}
	if n := eval[int](b, "[...document.querySelectorAll('#turns a')].filter(a => !/^(https?|mailto):/.test(a.getAttribute('href'))).length"); n != 0 {
		t.Errorf("%d links that lead here or run", n)
	}
	if title := eval[string](b, "document.title"); strings.Contains(title, "owned") {
		t.Error("it ran")
	}
	if c := b.complaints(); len(c) > 0 {
		t.Errorf("the browser had to stop something: %q", c)
	}
}

// TestFirstLoad weighs the session page: HTML, style and script, all from here.
func TestFirstLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	b.startSession(w, "script:command")
	b.until("the card", "document.querySelector('.card')")
	b.do(reload)
	b.until("the page", "document.getElementById('turns')")
	type entry struct {
		Name string
		Size int
	}
	entries := eval[[]entry](b, `[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
		.filter(e => e.initiatorType !== 'eventsource' && !e.name.includes('/live?')).map(e => ({name: e.name, size: e.decodedBodySize}))`)
	total := 0
	for _, e := range entries {
		total += e.Size
		if !strings.HasPrefix(e.Name, w.base) {
			t.Errorf("a request to %s", e.Name)
		}
	}
	t.Logf("first load: %d bytes in %d requests", total, len(entries))
	if total == 0 || total >= 100_000 {
		t.Errorf("%d bytes", total)
	}
}
