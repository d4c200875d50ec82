package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestR11RevokedInTheBrowser: a phone whose session is ended on another screen loses its
// live page at once, and what it asks for after that.
func TestR11RevokedInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	screen, mobile := newBrowser(t, desk), newBrowser(t, phone)
	screen.loggedIn(w, false)
	w.login = w.mintLogin()
	mobile.loggedIn(w, false)
	screen.startSession(w, "show me")
	screen.until("a card", "document.querySelector('.card form')")
	session := eval[string](screen, "location.href.replace(/#.*/, '')")
	mobile.goTo(session)
	mobile.until("a card", "document.querySelector('.card form')")
	screen.goTo(w.base + "/devices")
	screen.click(".device:not(:has(.ok)) form[action$=end] button")
	screen.until("that there is one device", "document.querySelectorAll('.device').length === 1")
	// Nobody touches it: its stream has ended, and it asks what is the matter.
	mobile.until("that it is out", "location.pathname === '/login' && document.querySelector('#token')")
	mobile.goTo(session)
	mobile.until("the login page", "location.pathname === '/login'")
	screen.goTo(session)
	screen.until("the card, unanswered", "document.querySelector('.card form')")
}

// TestR10NoTrace: neither a login link nor a cookie is in what the machine's other users
// see of nod's processes, or in what nod leaves behind when it crashes.
func TestR10NoTrace(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	c := w.client()
	w.mintLogin() // one that nobody has used
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.base+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	live, err := (&http.Client{Jar: c.Jar}).Do(r) // so that nod holds the cookie
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = live.Body.Close() }()
	lists, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	places, ours := map[string]string{}, false
	for _, file := range lists {
		b, _ := os.ReadFile(file) // it may have ended
		places["the list of processes"] += string(b) + "\n"
		ours = ours || strings.HasPrefix(string(b), nodBinary)
	}
	if !ours {
		t.Skip("this system shows no list of processes in /proc")
	}
	w.nod.kill(syscall.SIGQUIT) // as a fault of Go's runtime: it says what each goroutine was at
	places["what a crash leaves"] = w.nod.said()
	if !strings.Contains(w.nod.said(), "goroutine ") {
		t.Error("it has left nothing")
	}
	w.secrets.mu.Lock()
	defer w.secrets.mu.Unlock()
	if len(w.secrets.words) < 4 { // two links, a cookie, a key
		t.Errorf("it was looked for %d secrets only", len(w.secrets.words))
	}
	for secret, what := range w.secrets.words {
		for where, text := range places {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", what, where)
			}
		}
	}
}

// TestR10LinkOnTheLoginPage: a link that is opened in a tab that shows the login page
// already, where the browser loads nothing, logs in like any.
func TestR10LinkOnTheLoginPage(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	b := newBrowser(t, desk)
	b.goTo(w.base + "/login")
	b.fill("#token", "wrong")
	b.click("#login button")
	b.until("what was wrong", "document.querySelector('.problem:not([hidden])')")
	b.loggedIn(w, false)
	if eval[string](b, "location.hash") != "" {
		t.Error("the token is still in the address")
	}
}
