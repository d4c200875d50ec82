package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestR19SVGOpenedDirectly: a picture with a script in it, which an agent wants to write,
// is text at the address where it stands as it came.
func TestR19SVGOpenedDirectly(t *testing.T) {
	t.Parallel()
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script><image href="http://evil.test/x.png"/></svg>`
	w, p := newPuppetWorld(t)
	c := w.observer()
	b := newBrowser(t, desk)
	g := b.guarded()
	b.loggedIn(w, false)
	path, s := w.newSession(c, p, "A picture")
	s.begin(object{"type": "fileChange", "id": "edit", "status": "inProgress", "changes": []any{object{"path": "/tmp/x.svg", "kind": object{"type": "add"}, "diff": svg}}})
	s.ask("item/fileChange/requestApproval", object{"itemId": "edit"})
	b.goTo(w.base + path)
	b.until("the card", "document.querySelector('.card')")
	raw := w.base + "/approvals/" + eval[string](b, "document.querySelector('.card').id.replace('card-', '')") + "/raw"
	b.goTo(raw)
	b.untilText("pre", "<svg")
	if kind := eval[string](b, "document.contentType"); kind != "text/plain" {
		t.Errorf("it is %s", kind)
	}
	// Nor is it one for whoever has it loaded as a picture or a page.
	b.goTo(w.base + "/")
	b.untilText("h2.group", "Agents")
	b.do(chromedp.Evaluate[chromedp.Void](`
		window.done = 0;
		for (const name of ['img', 'iframe']) {
			const e = document.createElement(name);
			e.onload = e.onerror = () => done++;
			e.src = '` + raw + `';
			document.body.append(e);
		}`))
	b.provoked = true // by the frames
	b.until("the picture's end", "window.done >= 1")
	if w := eval[int](b, "document.querySelector('img').naturalWidth"); w != 0 {
		t.Error("it is a picture")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.dialogs) > 0 {
		t.Errorf("dialogs: %q", g.dialogs)
	}
	for _, r := range g.requests {
		if r == "http://evil.test/x.png" {
			t.Error("it has loaded another picture")
		}
	}
}
