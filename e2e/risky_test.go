package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// halfProved is a page of a session on which somebody is about to prove that they want
// something risky of it.
func halfProved(t *testing.T, prepare func(*world, *browser)) (w *world, c *http.Client, path string, b *browser) {
	t.Helper()
	w = copilotWorld(t)
	w.start()
	c = w.client()
	path = w.beginWith(c, "copilot", "script:hello")
	w.untilPage(c, path, ">Send<")
	w.login = w.mintLogin()
	b = newBrowser(t, desk)
	prepare(w, b)
	b.goTo(w.base + path)
	b.click("#next summary")
	b.fill("#text", "script:hello")
	b.click("#next input[value=allow-all]")
	b.click("#write button.primary")
	b.until("the box and the proof", "document.querySelector('#next .proof #code') && document.readyState === 'complete'")
	b.click("#next input[type=checkbox]")
	return w, c, path, b
}

// TestR12ProofWhileThePageMoves: what a person fills in to allow something risky is left
// alone while the page is brought up to date around it; while a turn runs, which takes no
// settings, it waits out of sight.
func TestR12ProofWhileThePageMoves(t *testing.T) {
	t.Parallel()
	w, c, path, b := halfProved(t, func(w *world, b *browser) { b.loggedIn(w, false) })
	b.fill("#code", "ABCD")
	w.post(c, path+"/messages", url.Values{"text": {"script:wait"}, "set.next.effort": {"high"}})
	b.until("that another's turn runs", "document.querySelector('#halt')")
	if !eval[bool](b, "(code => code?.value === 'ABCD' && code.matches(':disabled') && !code.checkVisibility())(document.querySelector('#code'))") {
		t.Error("settings are asked for that a turn does not take, or they are gone")
	}
	w.post(c, path+"/stop", url.Values{})
	b.until("that it is over", "document.querySelector('#write button.primary')")
	b.untilText("#head", "Reasoning effort: high")
	if !eval[bool](b, `(([tick], code) => tick?.checked && code?.value === 'ABCD' && code.checkVisibility() && !code.matches(':disabled'))
		(document.getElementsByName('sure.next.permissions'), document.getElementById('code'))`) {
		t.Errorf("what was filled in is gone:\n%s", b.text())
	}
	b.fill("#code", w.code())
	b.click("#write button.primary")
	b.untilText("#head", "When it asks you: Never")
}

// TestR12NoPasskeyForAQueuedMessage, though one was asked for before a turn began: with
// the settings that it was for nothing is sent.
func TestR12NoPasskeyForAQueuedMessage(t *testing.T) {
	t.Parallel()
	w, c, path, b := halfProved(t, func(w *world, b *browser) {
		w.base, w.login = strings.Replace(w.base, "127.0.0.1", "localhost", 1), strings.Replace(w.login, "127.0.0.1", "localhost", 1)
		id := b.key()
		b.loggedIn(w, false)
		b.goTo(w.base + "/passkeys/new")
		b.click("main form button")
		b.untilText(".row .t", "Passkey")
		if _, err := chromedp.Call(b.ctx, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: id, IsUserVerified: false}); err != nil {
			t.Fatal(err)
		}
	})
	b.click("#write button.primary")
	b.until("that the passkey was not used", "!document.querySelector('[data-passkey-problem]').hidden")
	w.base = strings.Replace(w.base, "localhost", "127.0.0.1", 1) // where the other one is logged in
	w.post(c, path+"/messages", url.Values{"text": {"script:wait"}})
	b.until("that another's turn runs", "document.querySelector('#halt')")
	b.click("#halt button[value=queue]")
	b.untilText(".pending", "script:hello")
}
