package e2e

import (
	"testing"
)

// aKey is a secret, in pieces so that nobody takes this file for a leak.
const aKey = "gh" + "p_Vb3kQ9xT2mLp8RzWn4Hc7YdJ6fGs1AeU9Kq2"

// sharedFor fills the form that shares a session, and goes to its preview.
func (b *browser) sharedFor(w *world, session, label string) {
	b.t.Helper()
	b.goTo(session + "/share")
	b.until("the form", "document.querySelector('#label')")
	b.fill("#label", label)
	b.click("main form button.primary")
	b.until("the preview", "document.querySelector('.seen')")
}

// madeLink makes the link of a preview, and returns it.
func (b *browser) madeLink(w *world) string {
	b.t.Helper()
	b.fill("#code", w.code())
	b.click("form:has(.proof) button.primary")
	b.until("the link", "document.querySelector('#link')")
	link := eval[string](b, "document.querySelector('#link').value")
	w.secret("a link to a session", link[len(link)-43:])
	return link
}

// TestPicturesShares draws the pages of sharing.
func TestPicturesShares(t *testing.T) {
	dir := picturesFolder(t)
	w := newBareWorld(t, "/usr/bin:/bin")
	a := openAlbum(t, w, dir)
	b := a.tabs["1440x900"]
	b.startSession(w, "The LRU in cache.go grows without limit. Bound it to 10,000 entries and add a test.")
	session := eval[string](b, "location.href.replace(/#.*/, '')")
	for range 12 {
		b.until("a card or the tail", "document.querySelector('.card form') || document.querySelectorAll('.prose table').length > 0")
		if !eval[bool](b, "Boolean(document.querySelector('.card form'))") {
			break
		}
		id := eval[string](b, "document.querySelector('.card').id")
		b.approve(".card .approve:not(.more-than-once)")
		b.until("the next thing", "!document.getElementById('"+id+"')?.querySelector('form')")
	}
	b.until("the end", "document.querySelector('.send button')")
	b.fill("#text", "Deploy it to ada@build-7.internal.example with TOKEN="+aKey+", from "+w.folder+" as in /root/.config/deploy.toml.")
	b.click(".send button")
	b.until("a card or the end", "document.querySelector('.card form') || document.querySelector('.send button')")

	a.all("share-form", func(tab *browser) {
		tab.goTo(session + "/share")
		tab.until("the form", "document.querySelector('#label')")
	})
	a.all("share-preview", func(tab *browser) { tab.sharedFor(w, session, "For Grace") })
	a.all("share-preview-seen", func(tab *browser) { tab.run("document.querySelector('.seen').scrollIntoView()") })
	link := ""
	a.all("share-made", func(tab *browser) { tab.sharedFor(w, session, "For Grace"); link = tab.madeLink(w) })
	a.all("shares", func(tab *browser) {
		tab.goTo(w.base + "/shares")
		tab.until("the list", "document.querySelector('.row')")
	})
	a.all("share", func(tab *browser) { tab.click(".row a"); tab.until("the share", "document.querySelector('.findings')") })
	a.all("guest", func(tab *browser) { tab.goTo(link); tab.until("the page", "document.querySelector('.guest')") })
	a.all("guest-top", func(tab *browser) {
		tab.run("document.querySelector('.contents').open = true; scrollTo(0, 0)")
	})
	b.goTo(session + "/share")
	b.until("the form", "document.querySelector('#passphrase')")
	b.fill("#passphrase", "open sesame")
	b.click("main form button.primary")
	b.until("the preview", "document.querySelector('.seen')")
	link = b.madeLink(w)
	a.all("share-lock", func(tab *browser) { tab.goTo(link); tab.until("the question", "document.querySelector('#passphrase')") })
}
