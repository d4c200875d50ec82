package e2e

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// codexGroup is the process group of the server that nod has started.
func (w *world) codexGroup() int {
	w.t.Helper()
	m := regexp.MustCompile(`msg=started .*group=(\d+)`).FindStringSubmatch(w.nod.said())
	if m == nil {
		w.t.Fatal("nod has not logged the process group of Codex")
	}
	group, err := strconv.Atoi(m[1])
	if err != nil {
		w.t.Fatal(err)
	}
	return group
}

// TestFrozenCodex (C19) stops the agent's process in the middle of a turn: the page
// says that it does not answer, and when it goes on, so does the page.
func TestFrozenCodex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "script:slow")
	b.untilText(".prose", "slow5 ")
	group := w.codexGroup()
	if err := syscall.Kill(-group, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGCONT) })
	b.untilText(".links", "does not answer")
	b.untilText(".st", "agent silent")
	if err := syscall.Kill(-group, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.untilText(".links", "connected")
	b.untilText(".prose", "slow30 ")
	b.click(".halt .stop")
	b.untilText(".foot", "stopped")
	b.sameAfterReload()
}

// sharedServer is a server that somebody else has started on a socket.
func (w *world) sharedServer(program, socket string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.Command(program, "app-server", "--listen", "unix://"+socket)
	cmd.Env = append(os.Environ(), "CODEX_HOME="+w.codex)
	cmd.Dir = w.folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	startBare(w.t, cmd)
	return cmd
}

// TestServerRestarted kills a server that others run in the middle of a turn, with
// a request open, and starts it again: nod finds it, says what is gone, and goes on.
func TestServerRestarted(t *testing.T) {
	t.Parallel()
	w := worldOf(t, codexDir)
	socket := filepath.Join(t.TempDir(), "s")
	program := filepath.Join(codexDir, "codex")
	w.config = filepath.Join(t.TempDir(), "nod.toml")
	if err := os.WriteFile(w.config, fmt.Appendf(nil, "[[codex.servers]]\nurl = \"unix://%s\"\n", socket), 0o600); err != nil {
		t.Fatal(err)
	}
	first := w.sharedServer(program, socket)
	w.start()
	c := w.client()
	w.untilPage(c, "/", "Codex 0.171.0")
	provider := "codex@unix://" + socket
	_, page := w.post(c, "/new", url.Values{"provider": {provider}, "folder": {w.folder}, "prompt": {"script:command"}})
	path := sessionPath.FindString(page)
	w.untilPage(c, path, "Run a command?")
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.untilPage(c, path, "link lost")
	w.sharedServer(program, socket)
	w.untilPage(c, path, "No longer asked")
	w.untilPage(c, path, ">Send<")
	if _, page := w.get(c, path); !strings.Contains(page, "stopped") {
		t.Errorf("the turn did not end as interrupted:\n%s", page)
	}
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}})
	w.untilPage(c, path, "Hello from the")
}

// TestAnotherVersion restarts a server as another version of Codex: nod says which
// it is now, and the session goes on there.
func TestAnotherVersion(t *testing.T) {
	t.Parallel()
	old := oldCodex(t)
	w := worldOf(t, codexDir)
	address := freeAddress(t)
	run := func(program string) *exec.Cmd {
		cmd := exec.Command(program, "app-server", "--listen", "ws://"+address)
		cmd.Env = append(os.Environ(), "CODEX_HOME="+w.codex)
		cmd.Dir = w.folder
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		startBare(t, cmd)
		return cmd
	}
	w.config = filepath.Join(t.TempDir(), "nod.toml")
	if err := os.WriteFile(w.config, fmt.Appendf(nil, "[[codex.servers]]\nurl = \"ws://%s\"\n", address), 0o600); err != nil {
		t.Fatal(err)
	}
	first := run(old)
	w.start()
	c := w.client()
	w.untilPage(c, "/", "Codex 0.122.0")
	_, page := w.post(c, "/new", url.Values{"provider": {"codex@ws://" + address}, "folder": {w.folder}, "prompt": {"script:command"}})
	path := sessionPath.FindString(page)
	w.untilPage(c, path, "Run a command?")
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.untilPage(c, path, "link lost")
	run(filepath.Join(codexDir, "codex"))
	w.untilPage(c, "/", "Codex 0.171.0")
	w.untilPage(c, path, "No longer asked")
	w.untilPage(c, path, ">Send<")
	w.post(c, path+"/messages", url.Values{"text": {"script:hello"}})
	w.untilPage(c, path, "Hello from the")
}

// TestTwentySessions runs twenty threads at once, each of which asks: the list is
// right at every moment, and every request reaches its own session (C05).
func TestTwentySessions(t *testing.T) {
	t.Parallel()
	const count = 20
	w := newWorld(t)
	c := w.client()
	var paths []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range count {
		folder := filepath.Join(w.folder, fmt.Sprint(i))
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {folder}, "prompt": {fmt.Sprintf("number %d script:command", i)}})
			mu.Lock()
			defer mu.Unlock()
			paths = append(paths, sessionPath.FindString(page))
		})
	}
	all.Wait()
	needing := func() int {
		_, page := w.get(c, "/")
		title := regexp.MustCompile(`data-title="\((\d+)\)`).FindStringSubmatch(page)
		rows := strings.Count(page, "needs you</")
		if title != nil && title[1] != fmt.Sprint(rows) || title == nil && rows != 0 {
			t.Fatalf("the title counts %v, the rows %d", title, rows)
		}
		return rows
	}
	until := func(n int) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for needing() != n {
			if time.Now().After(deadline) {
				t.Fatalf("%d need somebody, not %d", needing(), n)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	until(count)
	for i, path := range paths {
		w.approve(c, path)
		until(count - i - 1)
	}
	for _, path := range paths {
		w.untilPage(c, path, ">Send<")
	}
	for i := range count {
		if out, err := os.ReadFile(filepath.Join(w.folder, fmt.Sprint(i), "out.txt")); err != nil || string(out) != "done\n" {
			t.Errorf("the command of session %d left %q, %v", i, out, err)
		}
	}
	if _, page := w.get(c, "/"); strings.Contains(page, "working</") {
		t.Error("one still works")
	}
}

// TestC54Headless: on a machine without a screen or a terminal, a phone sees at a
// glance what is alive and what has ended, also after a restart.
func TestC54Headless(t *testing.T) {
	t.Parallel()
	w := worldOf(t, codexDir)
	w.bare = true
	w.start()
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	b.startSession(w, "script:slow first")
	b.untilText(".prose", "slow5 ")
	b.startSession(w, "script:command second")
	b.until("the card", "document.querySelector('.card')")
	b.startSession(w, "script:hello third")
	b.until("the end", "document.querySelector('.send button')")
	b.goTo(w.base + "/")
	row := func(title, word string) {
		t.Helper()
		b.until(title+" is "+word, fmt.Sprintf("[...document.querySelectorAll('.row')].some(r => r.textContent.includes(%q) && r.querySelector('.st').textContent.includes(%q))", title, word))
	}
	row("first", "working")
	row("second", "needs you")
	row("third", "done")
	row("Codex", "connected")
	if wide := eval[bool](b, "document.documentElement.scrollWidth > innerWidth"); wide {
		t.Error("the list is wider than the phone")
	}
	if err := syscall.Kill(-w.codexGroup(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	row("first", "failed")
	row("second", "failed")
	row("third", "done")
	row("Codex", "link lost")
	w.nod.kill(syscall.SIGTERM)
	w.start()
	b.loggedIn(w, false)
	row("first", "failed")
	row("third", "done")
	row("Codex", "not running")
}

// TestSubagent: a real sub-agent is a session of its own, whose request stands on
// the page of the session that started it, also after nod was killed.
func TestSubagent(t *testing.T) {
	t.Parallel()
	w := worldOf(t, codexDir)
	w.configure("\n[features]\nmulti_agent_v2 = true\n")
	w.start()
	c := w.client()
	_, page := w.post(c, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"script:subagent"}})
	path := sessionPath.FindString(page)
	w.untilPage(c, path, "Run a command?")
	w.nod.kill(syscall.SIGKILL)
	w.start()
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.goTo(w.base + path)
	b.until("the card", "document.querySelector('.card button.approve[value=accept]')")
	b.untilText(".links", "connected")
	b.click(".card button.approve[value=accept]")
	b.untilText(".prose", "The sub-agent is done.")
	b.until("the composer", "document.querySelector('.send button')")
	b.sameAfterReload()
	b.click(".tool a[href*='/s/']")
	b.untilText(".tool .output", "done")
	b.untilText(".prose td", "test")
	b.untilText(".st", "done")
}
