package e2e

import (
	"strings"
	"testing"
)

// idle starts a session of the demo and stops its first turn.
func (b *browser) idle(w *world, prompt string) (address string) {
	b.t.Helper()
	b.startSession(w, prompt)
	b.until("the stop button", "document.querySelector('.halt .stop')")
	b.click(".halt .stop")
	b.until("the end", "document.querySelector('.send button')")
	return eval[string](b, "location.href.replace(/#.*/, '')")
}

// startHelper has the demo start a sub-agent, and waits until that asks.
func (b *browser) startHelper() {
	b.t.Helper()
	b.fill("#text", "Get a helper, please.")
	b.click(".send button")
	b.until("the sub-agent's card", "document.querySelector('.card form')")
}

// TestSubAgent: a sub-agent's work is one click away from the call that started
// it, and what it asks is answered where one is.
func TestSubAgent(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	b, other := newBrowser(t, phone), newBrowser(t, desk)
	b.loggedIn(w, false)
	w.login = w.mintLogin()
	other.loggedIn(w, false)
	address := b.idle(w, "Look around")
	b.startHelper()
	b.untilText(".card .why", "asked by the sub-agent")
	other.goTo(w.base + "/")
	other.untilText(".group b", "Needs you")
	if n := eval[int](other, "document.querySelectorAll('.inbox a.row').length"); n != 1 {
		t.Errorf("the inbox lists %d sessions", n)
	}
	other.goTo(address)
	other.until("the sub-agent's row", "document.querySelector('.sub-agent')")
	child := eval[string](other, "document.querySelector('.sub-agent').href")
	other.goTo(child)
	other.until("the sub-agent's own card", "document.querySelector('.card form')")
	if eval[bool](other, "Boolean(document.querySelector('.send'))") {
		t.Error("a sub-agent can be written to")
	}
	b.click(".card .approve:not(.more-than-once)")
	b.until("the end of the turn", "document.querySelector('.send button')")
	if at := eval[string](b, "location.href.replace(/#.*/, '')"); at != address {
		t.Errorf("the answer led to %s", at)
	}
	b.until("the sub-agent is done", "document.querySelector('.sub-agent .st')?.textContent.includes('done')")
	other.untilText("#turns", "That is all I was asked.")
	other.until("no card", "!document.querySelector('.card form')")
	b.sameAfterReload()
	for _, x := range []*browser{b, other} {
		if c := x.complaints(); len(c) > 0 {
			t.Errorf("the browser complains: %q", c)
		}
	}
}

// TestArchiveAndDelete puts a session away, brings it back, and deletes it.
func TestArchiveAndDelete(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	address := b.idle(w, "Old work")
	b.click(".keeping summary")
	b.click(".keeping button")
	b.untilText(".empty", "No sessions yet")
	b.untilText("main", "Archived sessions")
	b.goTo(w.base + "/archive")
	b.untilText(".row .t", "Old work")
	b.click("a.row")
	b.untilText(".notice", "This session is archived")
	b.fill("#text", "one more thing")
	b.click(".send button")
	b.until("the turn", "document.querySelector('.halt .stop')")
	b.goTo(w.base + "/")
	b.untilText(".row .t", "Old work")
	b.goTo(address)
	if eval[bool](b, "Boolean(document.querySelector('.keeping'))") {
		t.Error("a session at work can be deleted")
	}
	b.click(".halt .stop")
	b.until("the end", "document.querySelector('.send button')")
	b.goTo(address + "/delete")
	b.untilText("h2", "Delete this session?")
	b.click(".deny")
	b.untilText(".empty", "No sessions yet")
	b.goTo(address)
	b.untilText("h2", "There is no such session")
	if c := b.complaints(); len(c) > 1 || len(c) == 1 && !strings.Contains(c[0], "404") { // of the page that is gone
		t.Errorf("the browser complains: %q", c)
	}
}
