// Package e2e drives the real program: nod, with the real Codex and a scripted
// model behind it, in a real browser.
package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
)

// patience bounds every wait of these tests. Machines are shared; a test that
// waits for something that comes does not take longer for it.
const patience = 60 * time.Second

var (
	nodBinary, modelBinary string
	codexDir               string // folder of the codex program
	chromium               string
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == puppetWord {
		os.Exit(puppetPipe(os.Args[2]))
	}
	os.Exit(func() int {
		missing := find()
		if len(missing) > 0 {
			say := "e2e tests need " + strings.Join(missing, ", ") + "; “make test” installs them"
			if os.Getenv("NOD_E2E") == "required" {
				fmt.Println(say)
				return 1
			}
			fmt.Println("skipped: " + say)
			return 0
		}
		dir, err := os.MkdirTemp("", "nod-e2e-")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		nodBinary, modelBinary = filepath.Join(dir, "nod"), filepath.Join(dir, "fakemodel")
		for target, pkg := range map[string]string{nodBinary: "nod/cmd/web", modelBinary: "nod/e2e/fakemodel"} {
			if out, err := exec.Command("go", "build", "-o", target, pkg).CombinedOutput(); err != nil {
				fmt.Printf("%s: %v\n%s", pkg, err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

func find() (missing []string) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			chromium = p
			break
		}
	}
	if chromium == "" {
		missing = append(missing, "Chromium")
	}
	codexDir, _ = filepath.Abs("node_modules/.bin") // fails only without a working folder
	if _, err := os.Stat(filepath.Join(codexDir, "codex")); err != nil {
		missing = append(missing, "Codex below e2e/node_modules")
	}
	return missing
}

// ---- processes ----

// process is a child that is gone when the test is.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

// start runs a program and waits for a line of its output that matches.
func start(t *testing.T, cmd *exec.Cmd, ready *regexp.Regexp) (*process, []string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = p
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan []string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := ready.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m:
				default:
				}
			}
		}
		_ = cmd.Wait() // how it ended is seen in its log
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill(syscall.SIGTERM) // so that nod takes its agents along
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), p.said())
		}
	})
	select {
	case m := <-found:
		return p, m
	case <-p.ended:
		t.Fatalf("%s ended before it was ready:\n%s", cmd.Path, p.said())
	case <-time.After(patience):
		t.Fatalf("%s was not ready in time:\n%s", cmd.Path, p.said())
	}
	return nil, nil
}

// Write collects what the program logs.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// untilSaid waits for text in the log, which reaches us a moment after the page.
func (p *process) untilSaid(t *testing.T, text string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !strings.Contains(p.said(), text) {
		if time.Now().After(deadline) {
			t.Fatalf("the log does not say %q", text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// kill sends a signal and waits for the end.
func (p *process) kill(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
}

// world is one nod with what it needs around it.
type world struct {
	t      *testing.T
	nod    *process
	base   string // http://127.0.0.1:port, and the path below which nod is
	login  string // link
	data   string
	folder string   // for sessions
	listen string   // address of nod; "" for a free port
	path   string   // PATH of nod
	codex  string   // CODEX_HOME
	config string   // file; "" for none
	model  string   // address of the scripted model
	env    []string // further variables of nod's
	bare   bool     // nod gets no environment but PATH and homes, as on a machine without a screen

	secrets *secrets // shared by its copies
}

var loginLine = regexp.MustCompile(`(https?://\S+)/login#k=\S+`)

// newWorld starts a scripted model and a nod whose Codex uses it.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := worldOf(t, codexDir)
	w.start()
	return w
}

// worldOf starts a scripted model, and nod can be started with the codex of that
// folder.
func worldOf(t *testing.T, dir string, modelFlags ...string) *world {
	t.Helper()
	w := &world{t: t, data: filepath.Join(t.TempDir(), "data"), folder: t.TempDir(), codex: filepath.Join(t.TempDir(), "codex-home"),
		path: dir + string(os.PathListSeparator) + os.Getenv("PATH")}
	model := exec.Command(modelBinary, append([]string{"-addr", "127.0.0.1:0", "-codex-home", w.codex}, modelFlags...)...)
	_, m := start(t, model, regexp.MustCompile(`listening on (\S+)`))
	w.model = m[1]
	t.Cleanup(w.stopAgents)
	return w
}

// oldCodex returns the program of Codex 0.122.
func oldCodex(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("node_modules/codex-0.122/vendor/*/codex/codex")
	if len(found) == 0 {
		t.Skip("Codex 0.122 is not here; there is one for Linux on x86-64 only")
	}
	path, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startBare starts a program that says nothing a test waits for.
func startBare(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is seen in its log
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), p.said())
		}
	})
}

// stopAgents ends what goes on without nod.
func (w *world) stopAgents() {
	if out, err := exec.Command(nodBinary, "agents", "stop", "--data", w.data, "--config", os.DevNull).CombinedOutput(); err != nil {
		w.t.Errorf("nod agents stop: %v\n%s", err, out)
	}
}

// newBareWorld starts a nod with the given PATH, so with the agents found there.
func newBareWorld(t *testing.T, path string) *world {
	t.Helper()
	w := &world{t: t, data: filepath.Join(t.TempDir(), "data"), folder: t.TempDir(), path: path}
	w.start()
	return w
}

// start starts nod, anew or again on the same data.
func (w *world) start() {
	w.t.Helper()
	w.watched()
	cmd := exec.Command(nodBinary, "--listen", cmp.Or(w.listen, "127.0.0.1:0"), "--data", w.data, "--log-level", "debug", "--config", cmp.Or(w.config, os.DevNull))
	cmd.Dir = w.folder
	if !w.bare {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "HOME="+os.Getenv("HOME"), "PATH="+w.path, "CODEX_HOME="+w.codex)
	cmd.Env = append(cmd.Env, w.env...)
	var m []string
	w.nod, m = start(w.t, cmd, loginLine)
	w.secrets.nods = append(w.secrets.nods, w.nod)
	w.login, w.base = m[0], m[1]
	w.loginSecret(w.login)
}

// mintLogin gets another login link.
func (w *world) mintLogin() string {
	w.t.Helper()
	out, err := exec.Command(nodBinary, "login-url", "--data", w.data, "--config", cmp.Or(w.config, os.DevNull)).Output()
	if err != nil {
		w.t.Fatal(err)
	}
	w.loginSecret(string(out))
	return strings.TrimSpace(string(out))
}

// code is what nod prints for its owner to show that it is they.
func (w *world) code() string {
	w.t.Helper()
	out, err := exec.Command(nodBinary, "verify", "--data", w.data, "--config", os.DevNull).Output()
	if err != nil {
		w.t.Fatal(err)
	}
	code := verifyCode.FindString(string(out))
	w.secret("a code that shows who one is", code)
	return code
}

var verifyCode = regexp.MustCompile(`[A-Z2-7]{4}-[A-Z2-7]{4}`)

// client returns an HTTP client that has logged in.
func (w *world) client() *http.Client {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &http.Client{Jar: jar, Timeout: patience}
	status, _ := w.post(c, "/login", url.Values{"token": {w.login}})
	if status != http.StatusOK {
		w.t.Fatalf("login: %d", status)
	}
	w.cookieSecrets(c)
	return c
}

// post sends a form as a browser does and follows to the next page.
func (w *world) post(c *http.Client, path string, form url.Values) (status int, body string) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, w.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return w.do(c, r)
}

func (w *world) get(c *http.Client, path string) (status int, body string) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, w.base+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.do(c, r)
}

func (w *world) do(c *http.Client, r *http.Request) (int, string) {
	w.t.Helper()
	res, err := c.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// untilPage loads a page until it contains something.
func (w *world) untilPage(c *http.Client, path, text string) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		_, page := w.get(c, path)
		if strings.Contains(page, text) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%q did not come on %s:\n%s", text, path, page)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ---- browser ----

// browser is one tab.
type browser struct {
	t   *testing.T
	ctx context.Context

	policy

	mu       sync.Mutex
	problems []string // what the browser's own log complains about
}

type look struct {
	width, height int64
	dark, noJS    bool
	anyCert       bool // takes certificates that sign themselves
}

var (
	phone = look{width: 390, height: 844}
	desk  = look{width: 1440, height: 900}
)

func newBrowser(t *testing.T, l look) *browser {
	t.Helper()
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("no-sandbox", true), chromedp.Flag("headless", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("host-resolver-rules", "MAP evil.test 127.0.0.1"),
	}
	if l.anyCert {
		opts = append(opts, chromedp.Flag("ignore-certificate-errors", true))
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	b := &browser{t: t, ctx: ctx}
	t.Cleanup(func() { b.obeyed(t) })
	t.Cleanup(func() { cancel(); stop() })
	// The browser lives as long as the context it was first used with.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(l.width, l.height)); err != nil {
		t.Fatal(err)
	}
	b.watch(t, ctx)
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	for _, err := range []error{
		second(chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})),
		// As in a window that somebody uses: the first click gives it no focus.
		second(chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})),
		second(chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.noJS})),
		second(chromedp.Call(ctx, log.Enable, cdp.Empty{})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	entries := chromedp.Events(ctx, log.EntryAdded)
	go func() {
		for e, err := range entries {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.problems = append(b.problems, fmt.Sprint(e.Entry.Source, ": ", e.Entry.Text))
			b.mu.Unlock()
		}
	}()
	return b
}

// reload loads the page again as it is.
var reload = chromedp.Reload()

// reloadUntil is until for a page without scripts: a person would press reload.
func (b *browser) reloadUntil(what, expression string) {
	b.t.Helper()
	b.wait(what, expression, 200*time.Millisecond, func() { b.do(reload) })
}

func second[T any](_ T, err error) error { return err }

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("browser: %v\n%s", err, b.text())
	}
}

// eval runs an expression in the page; it works with the page's scripts off too.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("browser: %s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true. A page that is being replaced
// answers nothing for a moment.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	b.wait(what, expression, 30*time.Millisecond, func() {})
}

func (b *browser) wait(what, expression string, pause time.Duration, meanwhile func()) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s did not come (%v). The page says:\n%s", what, err, b.text())
		}
		time.Sleep(pause)
		meanwhile()
	}
}

// untilText waits for text within the elements of a selector.
func (b *browser) untilText(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%q in %s", text, selector),
		fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))", selector, text))
}

// text is what the page says, for messages.
func (b *browser) text() string {
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body?.innerText ?? ''"))
	if err != nil {
		return err.Error()
	}
	return s
}

func (b *browser) goTo(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
}

// click clicks on the first element of a selector. One that approves is brought into
// view and waited for: a card has to stand still for a moment first.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.run("window.aim = null")
	b.until("a button that can be used", fmt.Sprintf(`(e => {
		if (!e?.matches('.approve')) return true;
		if (window.aim !== e) { e.scrollIntoViewIfNeeded(); window.aim = e; window.calm = 0; }
		window.calm = e.ariaDisabled ? 0 : window.calm + 1;
		return window.calm > 8; // longer than the page needs to see that it has moved
	})(document.querySelector(%q))`, selector))
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// approve approves on a card, and on the page that shows all of it once more if its end
// was not in view for long enough.
func (b *browser) approve(selector string) {
	b.t.Helper()
	card := eval[string](b, fmt.Sprintf("document.querySelector(%q).closest('.card').id", selector))
	b.click(selector)
	b.until("the next thing", fmt.Sprintf("!document.getElementById(%q)?.querySelector('form')", card))
	if eval[bool](b, "Boolean(document.querySelector('main.narrow .approve'))") {
		b.click("main.narrow .approve")
		b.until("the session", "document.querySelector('#page[data-session]')")
	}
}

// prove gives a code on the page that asks for one, and so approves something risky.
func (b *browser) prove(w *world) {
	b.t.Helper()
	b.until("the page that asks for a proof", "document.querySelector('.proof #code')")
	b.fill("#code", w.code())
	b.click("main.narrow .approve")
}

func (b *browser) fill(selector, value string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(selector), value))
}

// complaints are the lines of the browser's log that are no refused resource of
// our own making.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.problems...)
}

// shot saves a picture of the window.
func (b *browser) shot(file string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// loggedIn opens the login link and waits for the inbox. Without scripts the
// link has to be pasted.
func (b *browser) loggedIn(w *world, noJS bool) {
	b.t.Helper()
	b.goTo(w.login)
	if noJS {
		b.fill("#token", w.login)
		b.click("#login button")
	}
	b.untilText("h2.group", "Agents")
	b.cookieSecrets(w)
}

// startSession fills the form for a new session.
func (b *browser) startSession(w *world, prompt string) {
	b.t.Helper()
	b.goTo(w.base + "/new")
	b.fill("#folder", w.folder)
	b.fill("#prompt", prompt)
	b.click("main form button.primary")
	b.until("the session's page", "document.getElementById('turns')")
}
