package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// copilotTerminal starts a Copilot in a terminal, in the world's folder.
func (w *world) copilotTerminal(flags ...string) *terminal {
	w.t.Helper()
	env := append([]string{"PATH=" + w.path, "TERM=xterm-256color"}, w.env...)
	x := newTerminal(w.t, w.folder, env, append([]string{filepath.Join(codexDir, "copilot")}, flags...)...)
	x.until("Do you trust the files in this folder?")
	x.tmux("send-keys", "Enter")
	x.untilGone("Do you trust the files in this folder?")
	return x
}

const copilotDialog = "Do you want to run this command?"

// onlySession waits for the only session in the inbox, and returns its path.
func (w *world) onlySession(b *browser) string {
	w.t.Helper()
	b.goTo(w.base + "/")
	b.until("a session", "document.querySelector('a[href^=\"/s/\"]')")
	return eval[string](b, "document.querySelector('a[href^=\"/s/\"]').getAttribute('href')")
}

// TestCopilotTerminal: a terminal that serves is answered from the browser, and what is
// answered in it ends the card.
func TestCopilotTerminal(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	address := freeAddress(t)
	w.config = filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(w.config, fmt.Appendf(nil, "[[copilot.servers]]\naddress = %q\n", address), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	_, port, _ := strings.Cut(address, ":")
	x := w.copilotTerminal("--ui-server", "--port", port)
	x.say("script:shell")
	x.until(copilotDialog)
	path := w.onlySession(b)
	b.goTo(w.base + path)
	b.until("the card", "document.querySelector('.card button.approve')")
	b.untilText(".card", "echo hello > hello.txt")
	b.click(".card button.approve")
	x.untilGone(copilotDialog)
	x.until("The command has had its answer.")
	b.untilText(".prose", "The command has had its answer.")
	b.until("the end of the turn", "document.querySelector('.send button')")
	// The other way round.
	b.fill("#text", "script:shell")
	b.click(".send button.primary")
	x.until(copilotDialog)
	b.until("a card", "document.querySelector('.card button.approve')")
	x.tmux("send-keys", "Enter")
	b.until("the end of the card", "!document.querySelector('.card button.approve')")
	b.until("the second answer", "[...document.querySelectorAll('.prose')].filter(e => e.textContent.includes('The command has had its answer.')).length == 2")
	b.sameAfterReload()
	b.goTo(w.base + "/")
	b.untilText("main", "takes no token")
}

// TestCopilotPlainTerminal: a terminal that does not serve is watched, and its session
// goes on in nod once it is closed.
func TestCopilotPlainTerminal(t *testing.T) {
	t.Parallel()
	w := copilotWorld(t)
	w.start()
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	x := w.copilotTerminal()
	x.say("script:shell")
	x.until(copilotDialog)
	path := w.onlySession(b)
	b.goTo(w.base + path)
	b.untilText(".card", "echo hello > hello.txt")
	b.untilText(".card", "terminal")
	if eval[bool](b, "Boolean(document.querySelector('.card button, #write, #halt'))") {
		t.Error("there is something to press")
	}
	x.tmux("send-keys", "Enter")
	x.until("The command has had its answer.")
	b.untilText(".prose", "The command has had its answer.")
	b.untilText(".card", "Answered in another client")
	x.close()
	b.until("the composer", "document.querySelector('.send button.primary')")
	b.fill("#text", "script:hello")
	b.click(".send button.primary")
	b.until("an answer", "document.querySelectorAll('.turn').length >= 2 && document.querySelector('.send button.primary')")
	b.sameAfterReload()
}
