package e2e

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"nod/state/journal"
)

// key is a passkey's holder that the browser believes to be a part of itself.
func (b *browser) key() webauthn.AuthenticatorID {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		b.t.Fatal(err)
	}
	r, err := chromedp.Call(b.ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: "ctap2", Transport: "internal", HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	return r.AuthenticatorID
}

// long makes it long ago that anybody has shown to be there.
func (w *world) long() {
	w.t.Helper()
	store, err := journal.Open(w.t.Context(), w.data, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	all, err := store.Devices(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range all {
		if err := store.VerifyDevice(w.t.Context(), d.ID, time.Now().Add(-24*time.Hour).UnixMilli()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// answerPage leads from a card to the page that asks for a proof.
func (b *browser) answerPage() {
	b.t.Helper()
	b.until("a card", "document.querySelector('.card form .approve')")
	b.click(".card .approve:not(.more-than-once)")
	b.until("the page that asks for a proof", "document.querySelector('.proof')")
}

// TestR12Passkey: made once, a passkey logs in and answers for a person, who must
// have shown themselves to it; what it signs is good for one answer on one card.
func TestR12Passkey(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	w.base, w.login = strings.Replace(w.base, "127.0.0.1", "localhost", 1), strings.Replace(w.login, "127.0.0.1", "localhost", 1)
	b := newBrowser(t, desk)
	id := b.key()
	b.loggedIn(w, false)
	b.goTo(w.base + "/passkeys/new")
	b.fill("#name", "This test")
	b.click("main form button")
	b.untilText(".row .t", "This test")

	b.startSession(w, "Rename the package.")
	session := eval[string](b, "location.href.replace(/#.*/, '')")
	w.long()
	b.answerPage()
	first := eval[string](b, "document.querySelector('[data-assert]').dataset.assert")

	// Who does not show themselves to it gets no signature, and can try again.
	verified := func(is bool) {
		if _, err := chromedp.Call(b.ctx, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: id, IsUserVerified: is}); err != nil {
			t.Fatal(err)
		}
	}
	verified(false)
	b.click("main form button.approve")
	b.until("that it was not used", "!document.querySelector('[data-passkey-problem]').hidden")
	// A page that asks for less than nod does gets a signature that nod does not take.
	post := func(assertion string) int {
		v, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](`(async () => {
			const options = PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(`+assertion+`));
			const made = await navigator.credentials.get({publicKey: options});
			const f = new URLSearchParams(new FormData(document.querySelector('main form')));
			f.set('assertion', JSON.stringify(made));
			f.set('option', document.querySelector('main form button.approve').value);
			return (await fetch(document.querySelector('main form').action, {method: 'POST', body: f, redirect: 'manual'})).status;
		})()`, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if status := post("document.querySelector('[data-assert]').dataset.assert.replace('required', 'discouraged')"); status != 403 {
		t.Errorf("without showing oneself: %d", status)
	}
	verified(true)
	b.click("main form button.approve")
	b.until("the session again", "location.pathname.startsWith('/s/')")

	// What was signed for one card does not answer the next.
	b.goTo(session)
	w.long()
	b.answerPage()
	if next := eval[string](b, "document.querySelector('[data-assert]').dataset.assert"); next == first {
		t.Error("two cards have one challenge")
	}
	if status := post(strconv.Quote(first)); status != 403 {
		t.Errorf("with what was signed for another card: %d", status)
	}
	// It logs in as well.
	b.goTo(w.base + "/devices")
	b.click("form[action='/logout'] button")
	b.untilText("button", "Log in with your passkey")
	b.click("main form button")
	b.untilText("h2.group", "Agents")
}

// shownNumber reads the number of a page that loads itself again and again.
func (b *browser) shownNumber() string {
	b.t.Helper()
	for {
		b.until("the number", "document.querySelector('.bignumber')")
		if n := b.read("document.querySelector('.bignumber').textContent"); len(n) == 2 { // not what went wrong meanwhile
			return n
		}
	}
}

// TestR32Phone pairs two browsers with each other.
func TestR32Phone(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	screen, mobile := newBrowser(t, desk), newBrowser(t, phone)
	screen.loggedIn(w, false)
	screen.goTo(w.base + "/devices")
	screen.click("form[action='/pair'] button")
	screen.untilText("main", "knows no address yet")

	w.nod.kill(15)
	w.config = filepath.Join(t.TempDir(), "nod.toml")
	if err := os.WriteFile(w.config, []byte("public_hosts = [\"nod.example\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	screen.loggedIn(w, false)
	screen.goTo(w.base + "/devices")
	screen.click("form[action='/pair'] button")
	screen.until("the code", "document.querySelector('svg.qr')")
	link := eval[string](screen, "document.querySelector('main pre').textContent")
	mobile.goTo(w.base + link[strings.Index(link, "/join"):])
	mobile.until("the number", "document.querySelector('.bignumber')")
	if eval[bool](mobile, "location.href.includes('#')") {
		t.Error("the key is still in the address")
	}
	number := mobile.shownNumber()
	screen.until("who wants to come in", "document.querySelector('#number')")
	screen.fill("#number", number)
	screen.click("main form button")
	mobile.untilText(".view-only", "may look and not touch")
	screen.goTo(w.base + "/")
	screen.untilText(".notices", "A new device is in")

	screen.goTo(w.base + "/devices")
	screen.click(".device:not(:has(.ok)) summary")
	screen.click(".device:not(:has(.ok)) form[action$=operate] button")
	mobile.until("that it may operate", "!document.querySelector('.view-only')")
	mobile.untilText("header", "New session")
}

// TestPicturesOfTheDoor draws the pages by which people and devices come in.
func TestPicturesOfTheDoor(t *testing.T) {
	dir := picturesFolder(t)
	w := newBareWorld(t, "/usr/bin:/bin")
	w.nod.kill(15)
	w.config = filepath.Join(t.TempDir(), "nod.toml")
	if err := os.WriteFile(w.config, []byte("public_hosts = [\"nod.tail1234.example\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	a := openAlbum(t, w, dir)
	b := a.tabs["1440x900"]
	for _, page := range []string{"devices", "password", "passkeys/new", "verify?next=/devices", "login", "join"} {
		a.all("door-"+strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(page), func(tab *browser) { tab.goTo(w.base + "/" + page) })
	}
	a.all("door-pair", func(tab *browser) {
		tab.goTo(w.base + "/devices")
		tab.click("form[action='/pair'] button")
		tab.until("the code", "document.querySelector('svg.qr')")
	})
	mobile := newBrowser(t, phone)
	b.goTo(w.base + "/devices")
	b.click("form[action='/pair'] button")
	b.until("the code", "document.querySelector('svg.qr')")
	link := eval[string](b, "document.querySelector('main pre').textContent")
	mobile.goTo(w.base + link[strings.Index(link, "/join"):])
	mobile.until("the number", "document.querySelector('.bignumber')")
	mobile.shot(filepath.Join(dir, "door-wait-390x844.png"))
	b.until("who wants to come in", "document.querySelector('#number')")
	b.shot(filepath.Join(dir, "door-number-1440x900.png"))
	b.fill("#number", mobile.shownNumber())
	b.click("main form button")
	mobile.untilText(".view-only", "may look and not touch")
	mobile.shot(filepath.Join(dir, "door-looks-390x844.png"))
	a.all("door-notice", func(tab *browser) { tab.goTo(w.base + "/") })
	b.startSession(w, "Rename the package.")
	session := eval[string](b, "location.href.replace(/#.*/, '')")
	b.until("a card", "document.querySelector('.card form .approve')")
	mobile.goTo(session + "#now")
	mobile.shot(filepath.Join(dir, "door-looks-session-390x844.png"))
	w.long()
	a.all("door-proof", func(tab *browser) {
		tab.goTo(session)
		tab.answerPage()
		eval[bool](tab, "document.querySelector('.proof').scrollIntoView() === undefined")
	})
}
