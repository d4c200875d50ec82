package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// edition is one version of Codex, with a nod and a scripted model.
type edition struct {
	*world
	old bool
	// A second client reaches nod's own server where that listens; the older Codex
	// does not, so it has a server beside nod's that the owner has named.
	shared string // the provider of sessions there
	server string // its address

	mu    sync.Mutex
	rests map[string]string // what each page said at its end, by path
}

// TestCodexVersions plays what Codex does with the newest and with the oldest
// version that nod works with. In the end each page must be at rest, the same as
// one that is loaded afresh, and there must be nothing that nod does not know.
func TestCodexVersions(t *testing.T) {
	t.Parallel()
	mcp := filepath.Join(t.TempDir(), "fakemcp")
	if out, err := exec.Command("go", "build", "-o", mcp, "nod/e2e/fakemcp").CombinedOutput(); err != nil {
		t.Fatalf("fakemcp: %v\n%s", err, out)
	}
	t.Run("0.171.0", func(t *testing.T) {
		w := worldOf(t, codexDir, "-mcp", mcp)
		w.start()
		everything(t, &edition{world: w, shared: "codex", server: filepath.Join(w.data, "codex", "app-server.sock"), rests: map[string]string{}})
	})
	t.Run("0.122.0", func(t *testing.T) {
		program := oldCodex(t)
		w := worldOf(t, filepath.Dir(program), "-mcp", mcp)
		e := &edition{world: w, old: true, server: "ws://" + freeAddress(t), rests: map[string]string{}}
		server := exec.Command(program, "app-server", "--listen", e.server)
		server.Env = append(os.Environ(), "CODEX_HOME="+w.codex)
		server.Dir = w.folder
		server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it may not end by itself
		startBare(t, server)
		e.shared = "codex@" + e.server
		w.config = filepath.Join(t.TempDir(), "nod.toml")
		if err := os.WriteFile(w.config, fmt.Appendf(nil, "[[codex.servers]]\nurl = %q\n", e.server), 0o600); err != nil {
			t.Fatal(err)
		}
		w.start()
		everything(t, e)
	})
}

func everything(t *testing.T, e *edition) {
	// The first session starts the server, which the others then share.
	p := e.session(t, "codex", "script:hello")
	p.untilSays("turns", "Hello from the scripted model.")
	p.atRest()
	t.Run("together", func(t *testing.T) {
		for name, play := range map[string]func(*testing.T, *edition){
			"approved": approvedOnce, "declined": declined, "cancelled": cancelled, "for the session": forTheSession, "three at once": threeAtOnce,
			"files": files, "question": question, "form": form, "address": address, "tool approved": toolApproved, "plan": plan,
			"stopped in text": stoppedInText, "stopped in a command": stoppedInCommand, "steered": steered, "denied with a reason": deniedWithReason,
			"model errors": modelErrors, "5,000 pieces": manyPieces, "2 MB": muchOutput, "background": background, "said and thought": saidAndThought,
			"permissions": permissions, "review": review, "compaction": compaction, "another's tool": toolOfAnother, "code": code, "two clients": twoClients, "typed": typed, "in a browser": inBrowser,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play(t, e)
			})
		}
	})
	// Another nod on the same data, and on a server that goes on, says the same.
	e.nod.kill(syscall.SIGKILL)
	e.start()
	w, c := e.device(t)
	p = e.sessionOn(w, c, "codex", "script:hello") // so that it has met the server again
	p.atRest()
	for path, was := range e.rests {
		if is := w.nodText(c, path); is != was {
			t.Errorf("%s is another after a restart:\n%s", path, difference(was, is))
		}
	}
}

// play is one session in one test, with its page open all the time.
type play struct {
	*livePage
	e      *edition
	folder string
	logged int // bytes of nod's log before it
}

// device is a client of its own, so that no more streams are open than one may have.
func (e *edition) device(t *testing.T) (*world, *http.Client) {
	t.Helper()
	w := *e.world
	w.t = t
	w.login = w.mintLogin()
	return &w, w.client()
}

// session starts a session in a folder of its own.
func (e *edition) session(t *testing.T, provider, prompt string) *play {
	t.Helper()
	w, c := e.device(t)
	return e.sessionOn(w, c, provider, prompt)
}

func (e *edition) sessionOn(w *world, c *http.Client, provider, prompt string) *play {
	w.t.Helper()
	t := w.t
	p := &play{e: e, folder: t.TempDir(), logged: len(w.nod.said())}
	status, page := w.post(c, "/new", url.Values{"provider": {provider}, "folder": {p.folder}, "prompt": {prompt}})
	path := regexp.MustCompile(`data-live="(/s/[^"/]+)/live"`).FindStringSubmatch(page)
	if status != http.StatusOK || path == nil {
		t.Fatalf("no session: %d %s", status, page)
	}
	p.livePage = w.openLive(c, path[1])
	return p
}

// joined starts a session on the server that a second client has joined.
func (e *edition) joined(t *testing.T) (*play, *peer) {
	t.Helper()
	p := e.session(t, e.shared, "script:hello")
	p.untilIdle()
	other := newPeer(t, e.server)
	other.join(p.thread())
	return p, other
}

// foreign opens the page of a session that a second client has started.
func (e *edition) foreign(t *testing.T, policy, prompt string, more object) (*play, *peer) {
	t.Helper()
	w, c := e.device(t)
	p := &play{e: e, folder: t.TempDir(), logged: len(w.nod.said())}
	other := newPeer(t, e.server)
	thread := other.begin(p.folder, policy, more)
	other.prompt(thread, prompt, nil)
	w.untilPage(c, "/s/"+thread, prompt)
	p.livePage = w.openLive(c, "/s/"+thread)
	return p, other
}

// thread is the id of the session's thread.
func (p *play) thread() string { return strings.TrimPrefix(p.path, "/s/") }

// say sends a message.
func (p *play) say(text string) { p.submit(p.path+"/messages", url.Values{"text": {text}}) }

func (p *play) stop() { p.submit(p.path+"/stop", nil) }

// submit sends a form and returns the page that comes.
func (p *play) submit(path string, form url.Values) *html.Node {
	p.t.Helper()
	status, page := p.w.post(p.c, path, form)
	doc, err := html.Parse(strings.NewReader(page))
	if status != http.StatusOK || err != nil {
		p.t.Fatalf("%s: %d, %v\n%s", path, status, err, said(byID(doc, "page")))
	}
	return doc
}

// cardWith waits for a card that can be answered and that says something, and
// returns the form on it.
func (p *play) cardWith(text string) (form *html.Node) {
	p.t.Helper()
	p.until("a card with "+text, func(doc *html.Node) bool {
		for _, card := range allOfClass(doc, "card") {
			if f := byClass(card, "acts-form"); f != nil && strings.Contains(said(card), text) {
				form = f
				return true
			}
		}
		return false
	})
	return form
}

// answer presses a button of a form, and that of the page in between if there is
// one. more is what a person has filled in.
func (p *play) answer(form *html.Node, option string, more url.Values) {
	p.t.Helper()
	if element(form, func(n *html.Node) bool { return n.DataAtom == atom.Button && attr(n, "value") == option }) == nil {
		p.t.Fatalf("there is no %s in %s", option, said(form))
	}
	page := p.submit(attr(form, "action"), with(fields(form), more, url.Values{"option": {option}, "seen": {"yes"}}))
	again := element(page, func(n *html.Node) bool { return n.DataAtom == atom.Form && fields(n).Get("confirmed") != "" })
	if again != nil {
		form := with(fields(again), url.Values{"option": {option}})
		if form.Has("code") {
			form.Set("code", p.w.code())
		}
		p.submit(attr(again, "action"), form)
	}
}

func with(form url.Values, more ...url.Values) url.Values {
	for _, m := range more {
		for name, values := range m {
			form[name] = values
		}
	}
	return form
}

// approve answers the card that says something with yes, once.
func (p *play) approve(text string) {
	p.t.Helper()
	p.answer(p.cardWith(text), "accept", nil)
}

// untilIdle waits for the end of what runs.
func (p *play) untilIdle() {
	p.t.Helper()
	p.until("the end of the turn", func(doc *html.Node) bool {
		write := byID(doc, "write")
		return write != nil && element(write, func(n *html.Node) bool { return n.DataAtom == atom.Button }) != nil &&
			byID(doc, "halt") == nil && len(allOfClass(byID(doc, "turns"), "run")) == 0
	})
}

// notKnown is what nod says of what it does not know.
var notKnown = regexp.MustCompile(`(?i)does not (know|understand)|not understood|cannot show`)

// atRest checks a session at its end.
func (p *play) atRest() {
	p.t.Helper()
	p.untilIdle()
	var streamed, loaded string
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		loaded = shown(p.load())
		p.read(func(doc *html.Node) { streamed = shown(doc) })
		if streamed == loaded {
			break
		}
		if time.Now().After(deadline) {
			p.t.Errorf("the page that was streamed is another than the one that is loaded:\n%s", difference(streamed, loaded))
			break
		}
	}
	p.read(func(doc *html.Node) {
		for _, id := range []string{"head", "turns", "dock"} {
			for _, class := range []string{"run", "need", "acts-form"} {
				for _, n := range allOfClass(byID(doc, id), class) {
					p.t.Errorf("in the end there is still a .%s: %s", class, said(n))
				}
			}
		}
		page := said(byID(doc, "head")) + said(byID(doc, "turns")) + said(byID(doc, "dock"))
		if m := notKnown.FindStringIndex(page); m != nil {
			p.t.Errorf("the page says %q", page[max(0, m[0]-200):min(len(page), m[1]+200)])
		}
		for _, n := range allOfClass(byID(doc, "turns"), "mark") {
			if said(n) == "?" {
				p.t.Errorf("nod does not know what this is: %s", said(n.Parent.Parent))
			}
		}
	})
	for line := range strings.Lines(p.w.nod.said()[p.logged:]) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "does not understand") {
			p.t.Errorf("nod's log says %s", line)
		}
	}
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	p.e.rests[p.path] = p.w.nodText(p.c, p.path)
}

// difference is where two texts begin to differ.
func difference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, i-150):min(len(s), i+600)] }
	return fmt.Sprintf("streamed …%q…\nloaded   …%q…", cut(a), cut(b))
}

// outputs are what the commands have written, as the page shows it. The shell of
// some machines has something to say before them.
func (p *play) outputs() (out []string) {
	p.read(func(doc *html.Node) {
		for _, n := range allOfClass(byID(doc, "turns"), "output") {
			out = append(out, said(n))
		}
	})
	return out
}

func (p *play) expect(id string, texts ...string) {
	p.t.Helper()
	p.read(func(doc *html.Node) {
		page := said(byID(doc, id))
		for _, text := range texts {
			if !strings.Contains(page, text) {
				p.t.Errorf("#%s does not say %q:\n%.3000s", id, text, page)
			}
		}
	})
}

// exists reports whether a command has left a file.
func (p *play) exists(name string) bool {
	_, err := os.Stat(filepath.Join(p.folder, name))
	return err == nil
}

// ---- commands ----

func approvedOnce(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:command")
	form := p.cardWith("ls -la && echo done > out.txt && cat out.txt")
	if p.exists("out.txt") {
		t.Error("it ran before it was approved")
	}
	p.answer(form, "accept", nil)
	p.untilSays("turns", "12")
	p.atRest()
	p.expect("turns", "exit 0", "You chose “Approve once”.", "Looking at the folder", "I will list the files first.")
	if out := p.outputs(); len(out) != 1 || !strings.HasSuffix(out[0], "done") || !p.exists("out.txt") {
		t.Errorf("the output is %q", out)
	}
}

func declined(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:command")
	p.answer(p.cardWith("Run a command?"), "decline", nil)
	p.untilSays("turns", "The command finished.") // the script goes on all the same
	p.atRest()
	p.expect("turns", "Denied. It was not run.")
	if p.exists("out.txt") {
		t.Error("it ran")
	}
}

func cancelled(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:command")
	p.answer(p.cardWith("Run a command?"), "cancel", nil)
	p.untilSays("turns", "· stopped")
	p.atRest()
	p.expect("turns", "Denied. It was not run.")
	if p.exists("out.txt") {
		t.Error("it ran")
	}
	p.say("script:hello")
	p.untilSays("turns", "Hello from the scripted model.")
	p.atRest()
}

func forTheSession(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:fail")
	p.answer(p.cardWith("cannot find the widget"), "acceptForSession", nil)
	p.untilSays("turns", "The command failed with exit code 3")
	p.untilIdle()
	p.say("again: script:fail")
	p.until("the second run, which is not asked for", func(doc *html.Node) bool {
		if byClass(doc, "acts-form") != nil {
			t.Fatal("it is asked for again")
		}
		return strings.Count(said(byID(doc, "turns")), "The command failed with exit code 3") == 2
	})
	p.atRest()
	if out := p.outputs(); len(out) != 2 || !strings.HasSuffix(out[0], "cannot find the widget") || !strings.HasSuffix(out[1], "cannot find the widget") {
		t.Errorf("the outputs are %q", out)
	}
}

// threeAtOnce answers in another order than that of the questions.
func threeAtOnce(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:three")
	p.until("three cards", func(doc *html.Node) bool { return len(allOfClass(doc, "acts-form")) == 3 })
	p.approve("number 3")
	p.answer(p.cardWith("number 1"), "decline", nil)
	p.approve("number 2")
	p.untilSays("turns", "All three have had their answer.")
	p.atRest()
	if p.exists("three1.txt") || !p.exists("three2.txt") || !p.exists("three3.txt") {
		t.Error("the answers reached the wrong commands")
	}
	out := strings.Join(p.outputs(), "")
	if strings.Count(out, "number 2") != 1 || strings.Count(out, "number 3") != 1 || strings.Contains(out, "number 1") {
		t.Errorf("the outputs are %q", out)
	}
}

func background(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:background")
	p.approve("background $i")
	p.untilSays("turns", "The command runs on in the background.")
	p.untilSays("turns", "Was still running when the turn ended")
	p.until("the end of the command", func(doc *html.Node) bool { return strings.Contains(said(byID(doc, "turns")), "exit 0") })
	p.atRest()
	want := "background 1 "
	if e.old {
		want = "" // this version tells nobody what a command writes at once
	}
	if out := p.outputs(); len(out) != 1 || !strings.HasSuffix(out[0], want+"background 2 background 3 background 4 background 5 background 6") {
		t.Errorf("the output is %q", out)
	}
}

// muchOutput shows 2 MB to their end.
func muchOutput(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:big")
	p.approve("nothing to see")
	p.untilSays("turns", "That was 2 MB.")
	p.atRest()
	if out := p.outputs(); len(out) != 1 || !strings.HasSuffix(out[0], " END") {
		t.Error("the output has another end")
	}
	var whole string
	p.read(func(doc *html.Node) {
		whole = attr(element(byClass(doc, "left-out"), func(n *html.Node) bool { return n.DataAtom == atom.A }), "href")
	})
	first, size := "1: line 1, nothing", 2_000_000
	if e.old { // which tells nobody what a command writes at once
		first, size = "2: line 1, nothing", 1_500_000
	}
	if _, page := p.w.get(p.c, whole); len(page) < size || !strings.Contains(page, first) || !strings.Contains(page, "\n4: line 9999, nothing to see, but a lot of it\n") {
		t.Errorf("the whole of it has %d bytes", len(page))
	}
}

// typed has the model type into a command that asks.
func typed(t *testing.T, e *edition) {
	p, _ := e.foreign(t, "on-request", "script:stdin", nil)
	p.approve("Name?")
	if !e.old {
		p.answer(p.cardWith("Type into a command that runs?"), "accept", nil)
	}
	p.untilSays("turns", "The command knows the name.")
	p.atRest()
	p.expect("turns", "Hello, nod")
}

// code has the model use its tools from a script, as only newer ones do.
func code(t *testing.T, e *edition) {
	if e.old {
		t.Skip("this version runs no scripts of a model")
	}
	p, _ := e.foreign(t, "untrusted", "script:code", object{"model": "gpt-6-astra"})
	p.approve("echo from a script > code.txt && cat code.txt")
	p.approve("+# Hello")
	p.untilSays("turns", "The scripts have run.")
	p.atRest()
	p.expect("turns", "exit 0", "notes/hello.md")
	p.expect("head", "gpt-6-astra")
	if !p.exists("code.txt") || !p.exists("notes/hello.md") {
		t.Error("not all of it was done")
	}
}

// ---- files ----

func files(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:patch")
	p.answer(p.cardWith("Change files?"), "accept", nil)
	form := p.cardWith("line 1 and a half")
	p.answer(form, "decline", nil)
	p.untilSays("turns", "Both edits are made.") // so says the script
	p.atRest()
	p.expect("turns", "Denied. It was not run.")
	if b, err := os.ReadFile(filepath.Join(p.folder, "notes", "hello.md")); err != nil || string(b) != "# Hello\n\nline one\nline two\n" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// ---- questions ----

// question is one that Codex asks in plan mode. nod has no button for that mode, so
// the other client begins the turn.
func question(t *testing.T, e *edition) {
	p, other := e.joined(t)
	model := "gpt-5.5"
	if e.old {
		model = "gpt-5.4"
	}
	other.prompt(p.thread(), "script:ask", object{"collaborationMode": object{"mode": "plan", "settings": object{"model": model, "reasoning_effort": nil, "developer_instructions": nil}}})
	p.answer(p.cardWith("Which database should I use?"), "answer", url.Values{"q.db": {"PostgreSQL"}})
	other.until(p.thread(), "serverRequest/resolved")
	p.untilSays("turns", "You answered:")
	p.atRest()
	p.expect("turns", `"PostgreSQL"`)
}

// form fills in a field of every kind, wrongly first: nothing is sent then, and
// nothing of it is lost.
func form(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:form")
	card := p.cardWith("Where should the new server run?")
	wrong := url.Values{
		"t.name": {"x"}, "t.email": {"nobody"}, "t.site": {"not an address"}, "t.day": {"tomorrow"}, "t.at": {"noon"}, "t.load": {"2.5"}, "t.cores": {"many"},
		"q.public": {"true"}, "q.region": {"south"}, "q.disk": {"ssd"}, "q.ports": {"80", "443", "8080"}, "q.backups": {"d", "w"},
	}
	status, text := p.w.post(p.c, attr(card, "action"), with(fields(card), wrong, url.Values{"option": {"accept"}, "seen": {"yes"}}))
	page, err := html.Parse(strings.NewReader(text))
	if err != nil || status != http.StatusUnprocessableEntity {
		t.Fatalf("%d, %v: %s", status, err, text)
	}
	again := byClass(page, "acts-form")
	for name, values := range wrong {
		if got := fields(again)[name]; !slices.Equal(got, values) {
			t.Errorf("%s was %q and is now %q", name, values, got)
		}
	}
	// The heading, and a sentence each for name, email, site, day, at, load, cores, size and ports.
	if n := len(allOfClass(page, "problem")); n != 10 {
		t.Errorf("%d sentences: %s", n, said(again))
	}
	p.answer(again, "accept", url.Values{
		"t.name": {"blue"}, "t.email": {"me@example.com"}, "t.site": {"https://example.com"}, "t.day": {"2026-12-01"}, "t.at": {"2026-12-01T10:00:00Z"},
		"t.load": {"0.75"}, "t.cores": {"4"}, "q.size": {"l"}, "q.ports": {"80", "443"},
	})
	p.untilSays("turns", "The server returned:")
	p.atRest()
	p.expect("turns", `"name":"blue"`, `"email":"me@example.com"`, `"site":"https://example.com"`, `"day":"2026-12-01"`, `"at":"2026-12-01T10:00:00Z"`,
		`"load":0.75`, `"cores":4`, `"public":true`, `"region":"south"`, `"size":"l"`, `"disk":"ssd"`, `"ports":["80","443"]`, `"backups":["d","w"]`)
}

func address(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:url")
	p.answer(p.cardWith("https://login.example/device?code=NOD-1"), "decline", nil)
	p.untilSays("turns", "The server returned:")
	p.atRest()
	p.expect("turns", `"action":"decline"`)
}

// toolApproved allows a tool for the session: it is asked for once, and runs twice.
func toolApproved(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:note")
	title := "Run the tool “write_note” of “fakemcp”?"
	if e.old { // which names the tool in a sentence alone
		title = "Run a tool of “fakemcp”?It says: “Allow the fakemcp MCP server to run tool \"write_note\"?”"
	}
	p.answer(p.cardWith(title), "accept", nil)
	p.untilSays("turns", "The server returned:")
	p.untilIdle()
	p.say("again: script:note")
	p.answer(p.cardWith(title), "session", nil)
	p.until("the second result", func(doc *html.Node) bool { return strings.Count(said(byID(doc, "turns")), "The server returned:") == 2 })
	p.untilIdle()
	p.say("once more: script:note")
	p.until("the third result, which is not asked for", func(doc *html.Node) bool {
		if byClass(doc, "acts-form") != nil {
			t.Fatal("it is asked for again")
		}
		return strings.Count(said(byID(doc, "turns")), "The server returned:") == 3
	})
	p.atRest()
	if out := p.outputs(); len(slices.DeleteFunc(out, func(s string) bool { return s != "noted: hello" })) != 3 {
		t.Errorf("the results are %q", p.outputs())
	}
}

// toolOfAnother is a tool that only the client has that brought it along.
func toolOfAnother(t *testing.T, e *edition) {
	p, other := e.foreign(t, "untrusted", "script:tool", object{"dynamicTools": []object{{
		"name": "lookup", "description": "looks a word up",
		"inputSchema": object{"type": "object", "properties": object{"word": object{"type": "string"}}, "required": []string{"word"}},
	}}})
	p.untilSays("dock", "Codex waits for another program")
	other.answer(other.until(p.thread(), "item/tool/call"), object{"contentItems": []object{{"type": "inputText", "text": "nod: to agree"}}, "success": true})
	p.untilSays("dock", "Answered in another client.")
	p.untilSays("turns", "The tool returned:")
	p.atRest()
	p.expect("turns", "nod: to agree")
}

// permissions are asked for with a tool that Codex offers to nobody yet.
func permissions(t *testing.T, e *edition) {
	p, _ := e.foreign(t, "on-request", "script:permissions", object{"config": object{"features.request_permissions_tool": true}})
	form := p.cardWith("May I reach the network and write to /srv/data?")
	p.expect("dock", "Allow more than this session may?", "/srv/data")
	p.answer(form, "turn", nil)
	p.untilSays("turns", "You granted:")
	p.atRest()
	p.expect("turns", `"enabled":true`, "/srv/data")
}

// ---- what a turn shows ----

// plan (C23): the plan that was told last is shown.
func plan(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:plan")
	p.untilSays("turns", "The plan is done.")
	p.atRest()
	p.expect("plan", "2 of 3", "Read the code", "Write the fix", "Run the tests", "Step 3")
}

func saidAndThought(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:reason")
	for _, x := range []struct{ script, says string }{
		{"", "Three words."}, {"messages", "It is all in order."}, {"search", "The web says: a model that does not think."}, {"count", "The server returned:"},
	} {
		if x.script != "" {
			p.untilIdle()
			p.say("script:" + x.script)
		}
		p.untilSays("turns", x.says)
	}
	p.atRest()
	p.expect("turns", "First I count the words. Then I answer.", "There are three.", "Answering", "First I look around.", "Now I know enough.",
		"Search the web for what is a scripted model", "counted to 5")
}

// modelErrors are told in a sentence, and the session can go on.
func modelErrors(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:err429")
	for i, x := range []struct{ script, says string }{{"err429", "429"}, {"err500", "high demand"}, {"cut", "stream disconnected before completion"}} {
		if i > 0 {
			p.say("script:" + x.script)
		}
		p.until("a turn that failed", func(doc *html.Node) bool { return len(allOfClass(byID(doc, "turns"), "failed")) == i+1 })
		p.untilIdle()
		p.read(func(doc *html.Node) {
			if sentence := said(allOfClass(byID(doc, "turns"), "failed")[i]); !strings.Contains(sentence, x.says) {
				t.Errorf("%s: the page says %q", x.script, sentence)
			}
		})
	}
	p.expect("turns", "This answer broke off, so Codex asks the model again.")
	p.say("script:hello")
	p.untilSays("turns", "Hello from the scripted model.")
	p.atRest()
}

// manyPieces streams 5,000 pieces without losing or doubling one.
func manyPieces(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:long")
	p.untilSays("turns", "word4999")
	p.atRest()
	var got []string
	p.read(func(doc *html.Node) {
		for _, n := range allOfClass(byID(doc, "turns"), "prose") {
			for _, word := range strings.Fields(said(n)) {
				if strings.HasPrefix(word, "word") {
					got = append(got, word)
				}
			}
		}
	})
	var want []string
	for i := range 5000 {
		if i%40 != 0 { // these are headings
			want = append(want, fmt.Sprintf("word%d", i))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d words of %d, or in another order", len(got), len(want))
	}
}

func stoppedInText(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:slow")
	p.untilSays("turns", "slow5 ")
	p.stop()
	p.untilSays("turns", "· stopped")
	p.atRest()
}

func stoppedInCommand(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:slowcmd")
	p.approve("tick $i")
	p.untilSays("turns", "tick 2") // Codex streams nothing of what comes at once
	p.stop()
	p.untilSays("turns", "· stopped")
	p.atRest()
	if e.old { // Codex does not stop the command itself, and has no word for it
		p.expect("turns", "Was still running when the turn ended")
		p.untilSays("turns", "exit 0")
		p.expect("turns", "tick 8")
	} else {
		p.untilSays("turns", "exit ")
		if got := strings.Join(p.outputs(), " "); strings.Contains(got, "tick 8") {
			t.Errorf("the command went on: %s", got)
		}
	}
	p.say("script:hello")
	p.untilSays("turns", "Hello from the scripted model.")
	p.atRest()
}

// steered is a turn to which another client says something.
func steered(t *testing.T, e *edition) {
	p, other := e.joined(t)
	p.say("script:steer")
	p.approve("waiting $i")
	p.untilSays("turns", "waiting 2") // Codex streams nothing of what comes at once
	var started struct {
		Turn struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	if err := json.Unmarshal(other.until(p.thread(), "turn/started").Params, &started); err != nil {
		t.Fatal(err)
	}
	other.call("turn/steer", object{"threadId": p.thread(), "expectedTurnId": started.Turn.ID, "input": []object{{"type": "text", "text": "also mind the widget"}}})
	p.untilSays("turns", "Meanwhile you said: also mind the widget")
	p.atRest()
	p.expect("turns", "Said while the turn ran: also mind the widget")
}

// deniedWithReason tells the agent why.
func deniedWithReason(t *testing.T, e *edition) {
	p := e.session(t, "codex", "script:steer")
	p.answer(p.cardWith("waiting $i"), "decline", url.Values{"reason": {"mind the widget first"}})
	p.untilSays("turns", "Meanwhile you said: mind the widget first")
	p.atRest()
	p.expect("turns", "Denied: mind the widget first")
}

func review(t *testing.T, e *edition) {
	p, other := e.joined(t)
	other.call("review/start", object{"threadId": p.thread(), "target": object{"type": "custom", "instructions": "script:review"}})
	other.until(p.thread(), "turn/completed")
	p.untilSays("turns", "The review has ended")
	p.atRest()
	p.expect("turns", "A review begins", "The widget is never closed", "It leaks files.")
	p.read(func(doc *html.Node) {
		if strings.Contains(said(byID(doc, "turns")), "Said while the turn ran") {
			t.Error("what Codex told the reviewer is shown as what a person said")
		}
	})
	if e.old { // which tells the reviewer's part of the turn as another turn later
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.rests, p.path)
	}
}

func compaction(t *testing.T, e *edition) {
	p, other := e.joined(t)
	other.call("thread/compact/start", object{"threadId": p.thread()})
	other.until(p.thread(), "turn/completed")
	p.untilSays("turns", "What was said so far is summed up")
	p.atRest()
}

// ---- two clients on one server ----

// twoClients: what one answers is over for the other.
func twoClients(t *testing.T, e *edition) {
	p, other := e.joined(t)
	p.say("script:command")
	p.cardWith("ls -la")
	other.answer(other.until(p.thread(), "item/commandExecution/requestApproval"), object{"decision": "accept"})
	p.untilSays("dock", "Answered in another client.")
	p.untilSays("turns", "The command finished.")
	p.atRest()

	p.say("script:fail")
	request := other.until(p.thread(), "item/commandExecution/requestApproval")
	p.approve("cannot find the widget")
	var resolved struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if err := json.Unmarshal(other.until(p.thread(), "serverRequest/resolved").Params, &resolved); err != nil || string(resolved.RequestID) != string(request.ID) {
		t.Errorf("the other client hears of request %s, not %s (%v)", resolved.RequestID, request.ID, err)
	}
	p.untilSays("turns", "The command failed with exit code 3")
	p.atRest()
	if out := p.outputs(); len(out) != 2 {
		t.Errorf("the outputs are %q", out)
	}
}

// ---- in a browser ----

// inBrowser fills in a form, wrongly first, and approves a command and an edit.
func inBrowser(t *testing.T, e *edition) {
	w, _ := e.device(t)
	w.login, w.folder = w.mintLogin(), t.TempDir()
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	b.startSession(w, "script:form")
	b.until("the form", "document.querySelector('.card form')")
	b.fill("[name='t.name']", "blue")
	b.fill("[name='t.cores']", "many")
	b.click("[name='q.size'][value=l]")
	b.click("[name='q.ports'][value='443']")
	b.click(".card button[value=accept]")
	b.untilText(".problem", "Nothing was sent: 1 answer is not of the form that is asked for.")
	if got := eval[string](b, "document.querySelector('[name=\"t.name\"]').value"); got != "blue" {
		t.Errorf("the name is now %q", got)
	}
	b.fill("[name='t.cores']", "4")
	b.click("main button[value=accept]")
	b.untilText("#turns .prose", "The server returned:")
	b.until("the composer", "document.querySelector('.send button')")
	if text := eval[string](b, "document.getElementById('turns').textContent"); !strings.Contains(text, `"cores":4`) || !strings.Contains(text, `"size":"l"`) {
		t.Errorf("the page says %s", text)
	}
	b.sameAfterReload()
	for script, asked := range map[string]int{"three": 3, "patch": 2} {
		b.fill(".send textarea", "script:"+script)
		b.click(".send button.primary")
		for n := range asked {
			b.until("a card", "document.querySelector('.card button[value=accept]')")
			card := eval[string](b, "document.querySelector('.card:has(button[value=accept])').id")
			b.click("#" + card + " button[value=accept]")
			b.until(fmt.Sprint("the end of card ", n), "!document.querySelector('#"+card+" button[value=accept]')")
		}
		b.until("the composer", "document.querySelector('.send button')")
		b.sameAfterReload()
	}
	if c := b.complaints(); len(c) > 1 || len(c) == 1 && !strings.Contains(c[0], "422") { // of the form that was not right
		t.Errorf("the browser complains: %q", c)
	}
}
