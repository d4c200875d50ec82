package e2e

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// copilotCache is where the CLI unpacks itself, once for all tests.
var copilotCache = sync.OnceValues(func() (string, error) {
	cache, err := filepath.Abs("node_modules/.cache/copilot")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(codexDir, "copilot"), "--version")
	cmd.Env = append(os.Environ(), "COPILOT_CACHE_HOME="+cache, "COPILOT_AUTO_UPDATE=false")
	return cache, cmd.Run()
})

// copilotWorld makes a nod whose Copilot uses a scripted model. It is not started.
func copilotWorld(t *testing.T, modelFlags ...string) *world {
	t.Helper()
	cache, err := copilotCache()
	if err != nil {
		t.Fatalf("Copilot does not unpack itself: %v", err)
	}
	home, err := os.MkdirTemp("", "copilot-home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // a terminal may still be writing there
	w := worldOf(t, codexDir, modelFlags...)
	w.env = []string{
		"COPILOT_HOME=" + home, "COPILOT_CACHE_HOME=" + cache, "COPILOT_AUTO_UPDATE=false",
		"COPILOT_PROVIDER_BASE_URL=" + w.model, "COPILOT_MODEL=gpt-5.4",
	}
	return w
}

// beginWith begins a session of an agent with a prompt, and returns the path of its page.
func (w *world) beginWith(c *http.Client, provider, prompt string) string {
	w.t.Helper()
	_, page := w.post(c, "/new", url.Values{"provider": {provider}, "folder": {w.folder}, "prompt": {prompt}})
	path := sessionPath.FindString(page)
	if path == "" {
		w.t.Fatalf("no session began:\n%s", page)
	}
	return path
}

// TestCopilotShell: the whole way in a browser.
func TestCopilotShell(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	w.start()
	c := w.client()
	path := w.beginWith(c, "copilot", "script:shell")
	b := newBrowser(t, phone)
	w.login = w.mintLogin()
	b.loggedIn(w, false)
	b.goTo(w.base + path)
	b.until("the card", "document.querySelector('.card button.approve')")
	b.untilText(".card", "echo hello > hello.txt")
	b.click(".card button.approve")
	b.untilText(".prose", "The command has had its answer.")
	b.untilText(".tool .output", "hello")
	if out, err := os.ReadFile(filepath.Join(w.folder, "hello.txt")); err != nil || string(out) != "hello\n" {
		t.Errorf("the command left %q, %v", out, err)
	}
	b.sameAfterReload()
}

// TestCopilotRestart: nod is killed, or stopped, while Copilot waits for a person and
// while it writes. The turn goes on, with the same card, and nothing is missing or
// there twice.
func TestCopilotRestart(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			w := copilotWorld(t)
			w.start()
			c := w.client()
			path := w.beginWith(c, "copilot", "script:shell")
			w.untilPage(c, path, "Run a command?")
			_, page := w.get(c, path)
			card := approvalPath.FindString(page)
			stream := w.beginWith(c, "copilot", "script:slow")
			w.untilPage(c, stream, "slow10 ")
			w.nod.kill(signal)
			w.start()
			b := newBrowser(t, desk)
			b.loggedIn(w, false)
			b.goTo(w.base + path)
			b.untilText(".links", "connected")
			b.until("the card", "document.querySelectorAll('.card button.approve').length > 0")
			w.login = w.mintLogin()
			c = w.client()
			if _, page := w.get(c, path); approvalPath.FindString(page) != card {
				t.Errorf("it is another card")
			}
			b.click(".card button.approve")
			b.untilText(".prose", "The command has had its answer.")
			if n := strings.Count(b.text(), "I will make a file."); n != 1 {
				t.Errorf("the message is there %d times", n)
			}
			b.sameAfterReload()
			b.goTo(w.base + stream)
			b.until("the end of the stream", "document.querySelector('.send button') && !document.querySelector('.turn.active')")
			b.sameAfterReload()
		})
	}
}
