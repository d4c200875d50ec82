package e2e

import (
	"net/url"

	"testing"
)

// TestControlPictures draws the pages by which a person controls Codex.
func TestControlPictures(t *testing.T) {
	t.Parallel()
	dir := picturesFolder(t)
	w := newWorld(t)
	a := openAlbum(t, w, dir)
	c := w.client()
	done := w.begin(c, "script:hello Find out why the invoice of a customer who has moved is sent to the old address, and mend it")
	w.untilPage(c, done, ">Send<")
	w.post(c, done+"/messages", url.Values{"text": {"script:messages"}})
	w.untilPage(c, done, "all in order")
	w.untilPage(c, done, ">Send<")
	busy := w.begin(c, "script:wait", "set.codex.sandbox", "danger-full-access", "sure.codex.sandbox", "danger-full-access", "code", w.code())
	w.untilPage(c, busy, "Queue<")
	w.post(c, busy+"/messages", url.Values{"text": {"Then run the tests of the whole module, and not only those of the package that you have changed; write what fails into a table.\nAnd be quick."}, "how": {"queue"}})
	w.post(c, busy+"/messages", url.Values{"text": {"Then commit it."}, "how": {"queue"}})
	w.post(c, busy+"/messages", url.Values{"text": {"Leave the old addresses where they are."}, "how": {"steer"}})
	a.all("busy", func(tab *browser) { tab.goTo(w.base + busy + "#now") })
	w.post(c, busy+"/stop", url.Values{})
	w.untilPage(c, busy, ">Send<")
	a.all("stopped", func(tab *browser) {
		tab.goTo(w.base + busy + "#now")
		tab.click("#next summary")
		tab.click(".joins summary")
		tab.click(".keeping summary")
	})
	a.all("new-more", func(tab *browser) {
		tab.goTo(w.base + "/new")
		tab.click(".more-settings summary")
	})
	a.all("new-sure", func(tab *browser) {
		tab.goTo(w.base + "/new")
		tab.click(".more-settings summary")
		tab.fill("#folder", w.folder)
		tab.fill("#prompt", "x")
		tab.click("input[value=danger-full-access]")
		tab.click("main form button.primary")
		tab.untilText(".problem", "Tick the box")
		eval[bool](tab, "document.querySelector('.problem').scrollIntoView({block: 'center'}) === undefined")
	})
	for _, name := range []string{"fork", "review", "compact"} {
		a.all("do-"+name, func(tab *browser) { tab.goTo(w.base + done + "/do/" + name) })
	}
	a.all("rename", func(tab *browser) { tab.goTo(w.base + done + "/rename") })
	a.all("older", func(tab *browser) { tab.goTo(w.base + "/older?agent=codex") })
}
