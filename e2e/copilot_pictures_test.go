package e2e

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// TestPicturesOfCopilot draws what Copilot asks and does.
func TestPicturesOfCopilot(t *testing.T) {
	dir := picturesFolder(t)
	w := copilotWorld(t)
	if err := os.WriteFile(filepath.Join(w.folder, "README.md"), []byte("read me\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	a := openAlbum(t, w, dir)
	c := w.client()
	for name, script := range map[string]string{
		"copilot-shell": "script:shell", "copilot-patch": "script:patch", "copilot-read": "script:read", "copilot-choose": "script:choose", "copilot-mixed": "script:mixed",
	} {
		path := w.beginWith(c, "copilot", script+" Find out why the invoice of a customer who has moved is sent to the old address, and mend it")
		w.untilPage(c, path, `class="card`)
		a.all(name, func(tab *browser) { tab.goTo(w.base + path + "#now") })
	}
	done := w.beginWith(c, "copilot", "script:todo Plan it")
	w.untilIdle(c, done)
	w.post(c, done+"/messages", url.Values{"text": {"script:delegate And let somebody look around"}})
	w.decide(c, done, "approve-once")
	w.post(c, done+"/messages", url.Values{"text": {"script:fail"}})
	w.decide(c, done, "approve-once")
	a.all("copilot-done", func(tab *browser) { tab.goTo(w.base + done) })
	failed := w.beginWith(c, "copilot", "script:err400")
	w.untilIdle(c, failed)
	a.all("copilot-failed", func(tab *browser) { tab.goTo(w.base + failed) })
	x := w.copilotTerminal()
	x.say("script:shell")
	x.until(copilotDialog)
	w.untilPage(c, "/", "Copilot in terminals")
	b := newBrowser(t, desk)
	w.login = w.mintLogin()
	b.loggedIn(w, false)
	a.all("copilot-inbox", func(tab *browser) { tab.goTo(w.base + "/") })
	terminal := eval[string](b, "[...document.querySelectorAll('a[href^=\"/s/\"]')].find(e => e.textContent.includes('script:shell'))?.getAttribute('href') ?? ''")
	a.all("copilot-terminal", func(tab *browser) { tab.goTo(w.base + terminal + "#now") })
	a.all("copilot-new", func(tab *browser) { tab.goTo(w.base + "/new") })
}
