package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"log/slog"

	"nod/state/journal"
)

// lastWords are what the agent has said last.
const lastWords = `[...document.querySelectorAll('#turns .prose')].at(-1).innerText`

// controls are what nobody may find who may only look.
const controls = `[...document.querySelectorAll('form, button, input, textarea, select')].map(e => e.outerHTML)`

// TestC52WatchedByGuests (C45, R25-R29): somebody with a link watches a running Codex
// on a phone, and can do nothing; across a restart, until the link is over.
func TestC52WatchedByGuests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, g := newBrowser(t, desk), newBrowser(t, phone)
	b.loggedIn(w, false)
	b.startSession(w, "Please look around. script:command")
	b.until("a card", "document.querySelector('.card form')")
	session := eval[string](b, "location.href.replace(/#.*/, '')")
	b.sharedFor(w, session, "For Grace")
	if got := eval[string](b, "document.querySelector('.seen').innerText"); !strings.Contains(got, "waits for its owner") || strings.Contains(got, "out.txt") {
		t.Errorf("the preview says %q", got)
	}
	link := b.madeLink(w)

	g.goTo(link)
	g.until("the page", "document.querySelector('.guest')")
	g.untilText("#head", "waits for its owner")
	g.cookieSecrets(w)
	if got := eval[string](g, "location.pathname + history.length"); strings.Contains(got, "/k/") {
		t.Errorf("the address bar has %s", got)
	}
	if got := eval[string](g, "document.documentElement.outerHTML"); strings.Contains(got, "out.txt") || strings.Contains(got, "Run a command?") || strings.Contains(got, w.folder) {
		t.Errorf("a guest is told what for: %s", got)
	}
	b.goTo(session)
	b.until("a card", "document.querySelector('.card form')")
	b.approve(".card .approve:not(.more-than-once)")
	g.untilText("#turns", "out.txt")
	b.until("the answer", "document.querySelector('.prose table') && document.querySelector('.send button')")
	g.until("the answer", "document.querySelector('.prose table')")
	if found := eval[[]string](g, controls); len(found) > 0 {
		t.Errorf("a guest finds %v", found)
	}

	// What streams is at most a line behind.
	b.fill(".send textarea", "script:long")
	b.click(".send button")
	for part := 20; part <= 100; part += 20 {
		b.until("a part", fmt.Sprintf(`/Part %d\b/.test(document.getElementById('turns').innerText)`, part))
		has := eval[string](b, lastWords)
		whole := has[:strings.LastIndex(has, "\n")+1]
		g.until("all but the last line", fmt.Sprintf("%s.startsWith(%q)", lastWords, strings.TrimSpace(whole)))
	}
	b.untilText(".foot:last-of-type", "Turn 2")
	b.until("the end", "document.querySelector('.send button')")
	g.until("the same end", fmt.Sprintf("%s === %q", lastWords, eval[string](b, lastWords)))

	// What is asked for is not seen before it is approved, not even for a moment: Codex
	// says that it runs first.
	const mentions = "document.body.innerText.split('out.txt').length"
	before := eval[int](g, mentions)
	g.run("window.most = 0; new MutationObserver(() => { window.most = Math.max(window.most, " + mentions + "); }).observe(document.body, {childList: true, subtree: true, characterData: true})")
	b.fill(".send textarea", "script:command")
	b.click(".send button")
	b.until("a card", "document.querySelector('.card form')")
	g.untilText("#head", "waits for its owner")
	if most := eval[int](g, "window.most"); most == 0 || most > before {
		t.Errorf("out.txt was seen %d times, before %d", most, before)
	}
	b.approve(".card .approve:not(.more-than-once)")
	g.until("what was approved", fmt.Sprintf("%s > %d", mentions, before))
	b.until("the end", "document.querySelector('.send button')")

	// A restart: the page goes on by itself. Then time runs out.
	address, _ := strings.CutPrefix(w.base, "http://")
	w.listen = address
	w.nod.kill(syscall.SIGTERM)
	store, err := journal.Open(t.Context(), w.data, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	all, err := store.Shares(t.Context())
	if err != nil || len(all) != 1 || all[0].Views < 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	all[0].ExpiresAt = time.Now().Add(30 * time.Second).UnixMilli()
	if err := store.ChangeShare(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	w.start()
	c := w.client()
	w.post(c, strings.TrimPrefix(session, w.base)+"/messages", map[string][]string{"text": {"script:hello"}})
	g.untilText("#turns", "Hello from the scripted model")
	g.until("its end", "document.body.innerText.includes('There is no such page')")
	g.goTo(link)
	g.until("its end", "document.body.innerText.includes('There is no such page')")
}

// TestR29RevokedInTheBrowser: what a guest looks at is gone when its owner ends it.
func TestR29RevokedInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	b, g := newBrowser(t, desk), newBrowser(t, phone)
	b.loggedIn(w, false)
	b.startSession(w, "Rename the package.")
	b.until("a card", "document.querySelector('.card form')")
	session := eval[string](b, "location.href.replace(/#.*/, '')")
	b.goTo(session + "/share")
	b.until("the form", "document.querySelector('#passphrase')")
	b.fill("#passphrase", "open sesame")
	b.click("main form button.primary")
	b.until("the preview", "document.querySelector('.seen')")
	link := b.madeLink(w)

	g.goTo(link)
	try := func(phrase, answer string) {
		t.Helper()
		g.until("the question", "document.querySelector('#passphrase')")
		g.fill("#passphrase", phrase)
		g.run("window.before = true")
		g.click("main form button")
		g.until(answer, fmt.Sprintf("!window.before && document.body?.innerText.includes(%q)", answer))
	}
	for range 5 {
		try("open barley", "That is not the passphrase")
	}
	try("open sesame", "Try again in")

	b.goTo(session + "/share") // another one
	b.until("the form", "document.querySelector('#passphrase')")
	b.click("main form button.primary")
	b.until("the preview", "document.querySelector('.seen')")
	link = b.madeLink(w)
	g.goTo(link)
	g.until("the page", "document.querySelector('.guest')")
	b.goTo(w.base + "/shares")
	b.until("that somebody looks", "document.body.innerText.includes('1 guest now')")
	b.click(".row button")
	g.until("its end", "document.body.innerText.includes('There is no such page')")
}
