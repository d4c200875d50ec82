package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestPictures draws the pictures of docs/. It runs when NOD_PICTURES names a
// folder, since fonts differ between machines.
func TestPictures(t *testing.T) {
	dir := os.Getenv("NOD_PICTURES")
	if dir == "" {
		t.Skip("NOD_PICTURES names no folder")
	}
	w := newBareWorld(t, "/usr/bin:/bin")
	w.folder = filepath.Join(os.TempDir(), "shop") // a name that looks well
	if err := os.MkdirAll(w.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	looks := map[string]look{"390x844": phone, "1440x900": desk}
	looks["390x844-dark"], looks["1440x900-dark"] = look{390, 844, true, false}, look{1440, 900, true, false}
	tabs := map[string]*browser{}
	for name, l := range looks {
		tabs[name] = newBrowser(t, l)
		tabs[name].loggedIn(w, false)
		w.login = w.mintLogin()
	}
	b := tabs["1440x900"]
	start := func(prompt string) string {
		b.startSession(w, prompt)
		return eval[string](b, "location.href.replace(/#.*/, '')")
	}
	all := func(scene string, show func(*browser)) {
		for name, tab := range tabs {
			show(tab)
			time.Sleep(300 * time.Millisecond) // for the last frame to be drawn
			tab.shot(dir + "/" + scene + "-" + name + ".png")
		}
	}
	answer := func() {
		id := eval[string](b, "document.querySelector('.card').id")
		b.click(".card .approve:not(.more-than-once)")
		b.until("the next thing", "!document.getElementById('"+id+"')?.querySelector('form')")
	}
	card := func() { b.until("a card", "document.querySelector('.card form')") }

	start("Rename the package and fix what that breaks.")
	card()
	b.click(".halt .stop")
	b.until("the end", "document.querySelector('.send button')")
	finished := start("The LRU in cache.go grows without limit. Bound it to 10,000 entries and add a test.")
	pending := false
	for range 12 {
		b.until("a card or the tail", "document.querySelector('.card form') || document.querySelectorAll('.prose table').length > 0")
		if !eval[bool](b, "Boolean(document.querySelector('.card form'))") {
			break
		}
		if !pending && eval[bool](b, "Boolean(document.querySelector('.card .diff'))") {
			pending = true
			all("diff", func(tab *browser) { tab.goTo(finished); tab.until("the card", "document.querySelector('.card')") })
			b.goTo(finished)
			card()
		}
		if eval[bool](b, "Boolean(document.querySelector('.card .question'))") {
			all("question", func(tab *browser) { tab.goTo(finished); tab.until("the card", "document.querySelector('.card')") })
			b.goTo(finished)
			card()
		}
		answer()
	}
	b.until("the end", "document.querySelector('.send button')")
	waiting := start("Upgrade echo to the newest release of version 4 and run all tests.")
	card()
	answer()
	card()
	start("Explain why TestRetry is flaky on slow machines.")
	all("pending", func(tab *browser) { tab.goTo(waiting); tab.until("the card", "document.querySelector('.card')") })
	all("finished", func(tab *browser) {
		tab.goTo(finished)
		tab.until("the session", "document.querySelector('.prose table')")
		tab.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.prose table').closest('.part').scrollIntoView()"))
	})
	all("top", func(tab *browser) {
		tab.goTo(finished)
		tab.until("the session", "document.querySelector('.prose table')")
	})
	all("inbox", func(tab *browser) { tab.goTo(w.base + "/") })
	all("devices", func(tab *browser) { tab.goTo(w.base + "/devices") })
	all("login", func(tab *browser) { tab.goTo(w.base + "/login") })
	all("problem", func(tab *browser) { tab.goTo(w.base + "/s/none") })
	all("confirm", func(tab *browser) {
		tab.goTo(waiting)
		tab.until("the card", "document.querySelector('.card')")
		tab.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.card textarea').value = 'git switch -c a-longer-name\\ngit push \\u202e--force origin a-longer-name-that-does-not-fit-into-one-line-of-a-phone'"))
		tab.click(".card .approve:not(.more-than-once)")
		tab.until("the confirm page", "document.querySelector('.edited')")
	})
	all("new", func(tab *browser) { tab.goTo(w.base + "/new") })

	// Sub-agents, the archive, and what a crash leaves behind.
	b.goTo(w.base + "/")
	helped := b.idle(w, "Find out what reads the cache.")
	b.startHelper()
	all("subagent", func(tab *browser) { tab.goTo(helped); tab.until("the card", "document.querySelector('.card')") })
	child := eval[string](b, "document.querySelector('.sub-agent').href")
	all("child", func(tab *browser) { tab.goTo(child); tab.until("the card", "document.querySelector('.card')") })
	all("delete", func(tab *browser) { tab.goTo(finished + "/delete") })
	all("keeping", func(tab *browser) {
		tab.goTo(finished)
		tab.click(".keeping summary")
	})
	b.goTo(finished)
	b.click(".keeping summary")
	b.click(".keeping button")
	all("archive", func(tab *browser) { tab.goTo(w.base + "/archive") })
	crashed := strings.TrimPrefix(start("Explain the cache at length."), w.base)
	b.until("text", "document.querySelector('.prose')")
	w.nod.kill(syscall.SIGKILL)
	w.start()
	for _, tab := range tabs {
		tab.loggedIn(w, false)
		w.login = w.mintLogin()
	}
	all("gap", func(tab *browser) {
		tab.goTo(w.base + crashed)
		tab.until("the session", "document.querySelector('.gap')")
	})
}
