package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRestartGoesOn kills nod while a command waits for approval. The server that
// nod has started goes on; the nod that comes next shows the same card, takes the
// answer, and the turn ends as if nothing had been.
func TestRestartGoesOn(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.client()
			_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"script:command"}})
			path := sessionPath.FindString(page)
			w.untilPage(c, path, "Run a command?")
			w.nod.kill(signal)
			w.start()
			b := newBrowser(t, desk)
			b.loggedIn(w, false)
			b.goTo(w.base + path)
			b.until("the card", "document.querySelectorAll('.card button.approve[value=accept]').length == 1")
			b.untilText(".links", "connected")
			b.click(".card button.approve[value=accept]")
			b.untilText(".tool .output", "done")
			b.untilText(".prose td", "test")
			b.until("the composer", "document.querySelector('.send button')")
			if n := strings.Count(b.text(), "I will list the files first."); n != 1 {
				t.Errorf("the message is there %d times", n)
			}
			if out, err := os.ReadFile(filepath.Join(w.folder, "out.txt")); err != nil || string(out) != "done\n" {
				t.Errorf("the command left %q, %v", out, err)
			}
			b.sameAfterReload()
		})
	}
}

var hiddenField = regexp.MustCompile(`name="(digest|nonce)" value="([^"]+)"`)

// approve answers the only card of a session.
func (w *world) approve(c *http.Client, path string) {
	w.t.Helper()
	_, page := w.get(c, path)
	form := url.Values{"option": {"accept"}, "seen": {"1"}}
	for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], m[2])
	}
	if status, page := w.post(c, approvalPath.FindString(page), form); status != http.StatusOK {
		w.t.Fatalf("approve: %d %s", status, page)
	}
}

var approvalPath = regexp.MustCompile(`/approvals/[A-Z0-9]+`)

// TestRestartMissesNothing stops nod in the middle of a turn, which ends while
// there is none: the next nod shows all of it.
func TestRestartMissesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"script:slowcmd"}})
	path := sessionPath.FindString(page)
	w.untilPage(c, path, "Run a command?")
	w.approve(c, path)
	w.untilPage(c, path, "tick 2")
	w.nod.kill(syscall.SIGKILL)
	time.Sleep(8 * time.Second) // the command takes eight
	w.start()
	c = w.client()
	w.untilPage(c, path, "tick 8")
	w.untilPage(c, path, ">Send<")
	if _, page := w.get(c, path); strings.Count(page, "tick 2") != 1 {
		t.Error("the output is there more than once")
	}
}

// TestAgents lists and ends what goes on without nod.
func TestAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agents := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(nodBinary, append(append([]string{"agents"}, args...), "--data", w.data, "--config", os.DevNull)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if got := agents(); !strings.Contains(got, "no agent") {
		t.Errorf("before there is one: %s", got)
	}
	c := w.client()
	_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"script:slow"}})
	path := sessionPath.FindString(page)
	w.untilPage(c, path, "slow5 ")
	fields := strings.Fields(strings.Split(agents(), "\n")[1])
	if fields[0] != "Codex" || fields[1] != "0.171.0" {
		t.Errorf("it is listed as %q", fields)
	}
	if mb, err := strconv.Atoi(fields[4]); err != nil || mb < 20 {
		t.Errorf("it holds %s MB", fields[4])
	}
	if got := agents("stop"); !strings.Contains(got, "has ended") {
		t.Errorf("stop says %q", got)
	}
	w.untilPage(c, path, "The link to Codex was lost while this turn ran")
	if got := agents(); !strings.Contains(got, "no agent") {
		t.Errorf("after the end: %s", got)
	}
}

// terminal is a program in a terminal of its own.
type terminal struct {
	t      *testing.T
	server string // of tmux
}

var terminals int // so far

// newTerminal types a program into a terminal.
func newTerminal(t *testing.T, folder string, env []string, program ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("NOD_E2E") == "required" {
			t.Fatal("this test needs tmux; “make test” installs it")
		}
		t.Skip("tmux is not here")
	}
	terminals++
	x := &terminal{t, fmt.Sprintf("nod-%d-%d", os.Getpid(), terminals)}
	args := []string{"-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "40", "-c", folder}
	for _, kv := range env {
		args = append(args, "-e", kv)
	}
	x.tmux(append(args, program...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows:\n%s", x.screen())
		}
		x.close()
	})
	return x
}

func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", x.server}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Errorf("tmux %q: %v %s", args, err, out)
	}
	return string(out)
}

// close kills the terminal and the program in it.
func (x *terminal) close() { _ = exec.Command("tmux", "-L", x.server, "kill-server").Run() }

func (x *terminal) screen() string {
	out, _ := exec.Command("tmux", "-L", x.server, "capture-pane", "-p").CombinedOutput()
	return string(out)
}

func (x *terminal) until(text string) {
	x.t.Helper()
	deadline := time.Now().Add(patience)
	for !strings.Contains(x.screen(), text) {
		if time.Now().After(deadline) {
			x.t.Fatalf("the terminal does not show %q:\n%s", text, x.screen())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (x *terminal) untilGone(text string) {
	x.t.Helper()
	deadline := time.Now().Add(patience)
	for strings.Contains(x.screen(), text) {
		if time.Now().After(deadline) {
			x.t.Fatalf("the terminal still shows %q:\n%s", text, x.screen())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// say types a message and sends it.
func (x *terminal) say(text string) {
	x.t.Helper()
	x.tmux("send-keys", "-l", text)
	time.Sleep(500 * time.Millisecond) // what comes faster is taken for a paste
	x.tmux("send-keys", "Enter")
}

// trust has Codex not ask whether it may work in a folder.
func (w *world) trust(folder string) {
	w.t.Helper()
	w.configure("\n[projects.\"" + folder + "\"]\ntrust_level = \"trusted\"\n")
}

// configure adds to Codex's own configuration.
func (w *world) configure(text string) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.codex, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// endDaemon ends the daemon that a terminal has started.
func (w *world) endDaemon() {
	cmd := exec.Command(filepath.Join(codexDir, "codex"), "app-server", "daemon", "stop")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+w.codex)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Logf("daemon stop: %v %s", err, out)
	}
	var updater struct{ PID int }
	raw, err := os.ReadFile(filepath.Join(w.codex, "app-server-daemon", "daemon-updater.pid"))
	if err == nil && json.Unmarshal(raw, &updater) == nil && updater.PID > 1 {
		_ = syscall.Kill(updater.PID, syscall.SIGKILL) // it stays otherwise
	}
}

// dialog is what the terminal asks with.
const dialog = "Would you like to run the following command?"

// escaping is the command of the script "escalate", to the byte.
const escaping = `/bin/bash -lc 'touch escaped.txt && ls escaped.txt'`

// TestTerminal watches a codex that a person has started in a terminal, answers
// for it, sees what is answered there, and finishes what a closed terminal began.
func TestTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.trust(w.folder)
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	t.Cleanup(w.endDaemon)
	x := newTerminal(t, w.folder, []string{"CODEX_HOME=" + w.codex}, filepath.Join(codexDir, "codex"))
	x.until("Ask Codex to do anything")
	b.untilText(".row .m", filepath.Base(w.folder)) // by itself, before its first message

	x.say("please do script:escalate now")
	x.until(dialog)
	b.untilText(".row .st", "needs you")
	b.click(".row[href*='/s/']")
	b.until("the card", "document.querySelector('.card .bytes')")
	if got := eval[string](b, "document.querySelector('.card .bytes').textContent"); got != escaping {
		t.Errorf("the card shows %q, want %q", got, escaping)
	}
	b.untilText(".ask", "please do script:escalate now")
	b.click(".card button.approve[value=accept]")
	x.untilGone(dialog)
	b.untilText(".tool .output", "escaped.txt")
	b.until("the composer", "document.querySelector('.send button')")
	b.sameAfterReload()

	// Answered in the terminal.
	_ = os.Remove(filepath.Join(w.folder, "escaped.txt"))
	x.say("again script:escalate please")
	x.until(dialog)
	b.until("the second card", "document.querySelector('.card .bytes')")
	x.tmux("send-keys", "y")
	b.until("no form", "!document.querySelector('.card form')")
	b.untilText(".tool .output", "escaped.txt")
	b.until("the composer", "document.querySelector('.send button')")

	// Written in the browser, shown in the terminal.
	b.fill(".send textarea", "script:hello from the browser")
	b.click(".send button.primary")
	x.until("Hello from the scripted")
	b.until("the composer", "document.querySelector('.send button')")

	// The terminal is killed while it asks: nod finishes.
	_ = os.Remove(filepath.Join(w.folder, "escaped.txt"))
	x.say("once more script:escalate")
	x.until(dialog)
	b.until("the third card", "document.querySelector('.card .bytes')")
	x.close()
	b.click(".card button.approve[value=accept]")
	b.until("the end", "document.querySelector('.send button') && document.querySelectorAll('.turn').length === 4")
	if out, err := os.ReadFile(filepath.Join(w.folder, "escaped.txt")); err != nil {
		t.Errorf("the command left %q, %v", out, err)
	}
	b.sameAfterReload()

	// The other way round: a session that begins in nod runs on the daemon, so a
	// terminal can join it with what its page says.
	b.startSession(w, "script:hello in nod")
	b.untilText(".prose", "Hello from the")
	b.until("the composer", "document.querySelector('.send button')")
	b.untilText(".facts", "Codex in a terminal")
	id := eval[string](b, "location.pathname.split('/').pop()")
	b.untilText("pre.input", "codex resume "+id)
	x = newTerminal(t, w.folder, []string{"CODEX_HOME=" + w.codex}, filepath.Join(codexDir, "codex"), "resume", id)
	x.until("Hello from the scripted")
	x.say("script:messages from the terminal")
	b.untilText(".ask", "from the terminal")
	b.until("the end", "document.querySelector('.send button') && document.querySelectorAll('.turn').length === 2")
	b.sameAfterReload()
}

// TestOldTerminal does the same with Codex 0.122, whose terminal joins a server
// that the owner has started on a WebSocket.
func TestOldTerminal(t *testing.T) {
	t.Parallel()
	old := oldCodex(t)
	w := worldOf(t, filepath.Dir(old))
	address := freeAddress(t)
	server := exec.Command(old, "app-server", "--listen", "ws://"+address)
	server.Env = append(os.Environ(), "CODEX_HOME="+w.codex)
	server.Dir = w.folder
	startBare(t, server)
	w.config = filepath.Join(t.TempDir(), "nod.toml")
	if err := os.WriteFile(w.config, fmt.Appendf(nil, "[[codex.servers]]\nurl = \"ws://%s\"\n", address), 0o600); err != nil {
		t.Fatal(err)
	}
	w.trust(w.folder)
	w.start()
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.untilText(".row", "Codex at "+address)
	x := newTerminal(t, w.folder, []string{"CODEX_HOME=" + w.codex}, old, "-a", "untrusted", "--remote", "ws://"+address)
	x.until("gpt-5.5 default ·")
	x.say("please do script:command now")
	x.until(dialog)
	b.untilText(".row .st", "needs you")
	b.click(".row[href*='/s/']")
	b.until("the card", "document.querySelector('.card .bytes')")
	b.untilText(".ask", "please do script:command now")
	b.click(".card button.approve[value=accept]")
	x.untilGone(dialog)
	b.untilText(".tool .output", "done")
	b.until("the composer", "document.querySelector('.send button')")
	b.sameAfterReload()

	x.say("again script:command please")
	x.until(dialog)
	b.until("the second card", "document.querySelector('.card .bytes')")
	x.tmux("send-keys", "y")
	b.until("no form", "!document.querySelector('.card form')")
	b.until("the composer", "document.querySelector('.send button')")

	x.say("once more script:command")
	x.until(dialog)
	b.until("the third card", "document.querySelector('.card .bytes')")
	x.close()
	b.click(".card button.approve[value=accept]")
	b.until("the end", "document.querySelector('.send button') && document.querySelectorAll('.turn').length === 3")
	b.sameAfterReload()
}

// freeAddress is one on loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// TestOldRestart: Codex 0.122 listens on no socket, so it ends with nod, and the
// page says so.
func TestOldRestart(t *testing.T) {
	t.Parallel()
	w := worldOf(t, filepath.Dir(oldCodex(t)))
	w.start()
	c := w.client()
	_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"script:command"}})
	path := sessionPath.FindString(page)
	w.untilPage(c, path, "Run a command?")
	w.untilPage(c, "/", "a restart of nod ends what it does")
	w.nod.kill(syscall.SIGKILL)
	w.start()
	c = w.client()
	w.untilPage(c, path, "No longer asked")
	w.untilPage(c, path, "nod was stopped while this turn ran")
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}})
	w.untilPage(c, path, "Hello from the")
}
