package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// onPath returns a PATH on which the given script is codex, beside the system's
// programs.
func onPath(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "codex"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir + string(os.PathListSeparator) + "/usr/bin" + string(os.PathListSeparator) + "/bin"
}

// TestWrongAgents: what is wrong with an agent stands on the page and in the
// log, with what to do; what was typed is kept, and no session is left behind.
func TestWrongAgents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, says string }{
		"dies at once":     {"echo 'licence expired' >&2; exit 3", "licence expired"},
		"prints rubbish":   {"while echo 'Hello, I am another codex'; do :; done", "printed something that is not Codex"},
		"another protocol": {`read l; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown method"}}'; cat`, "did not come up as nod expects it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBareWorld(t, onPath(t, c.script))
			client := w.client()
			status, page := w.post(client, "/new", url.Values{"provider": {"codex"}, "folder": {w.folder}, "prompt": {"my long prompt"}})
			if status != http.StatusBadGateway || !strings.Contains(page, c.says) || !strings.Contains(page, "my long prompt") {
				t.Errorf("%d, without %q or without the prompt:\n%s", status, c.says, page)
			}
			w.nod.untilSaid(t, c.says)
			if _, inbox := w.get(client, "/"); !strings.Contains(inbox, "No sessions yet") || !strings.Contains(inbox, "link lost") {
				t.Error("the inbox does not show a lost link and no session")
			}
		})
	}
}

// TestNoAgent offers the demo, which plays to its end in the browser: every kind
// of card there is.
func TestNoAgent(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	b.untilText(".row .m", "npm install -g @openai/codex")
	b.untilText(".empty", "demo agent")
	b.startSession(w, "show me")
	// Whatever is asked is approved, in the order it comes; a question is answered.
	for range 20 {
		b.until("a card or the end", "document.querySelector('.card form') || document.querySelector('.send button')")
		if eval[bool](b, "!document.querySelector('.card form')") {
			break
		}
		id := eval[string](b, "document.querySelector('.card').id")
		b.approve(".card .approve:not(.more-than-once)")
		b.until("the next thing", "!document.getElementById('"+id+"')?.querySelector('form')")
		if eval[bool](b, "Boolean(document.querySelector('.halt .stop')) && document.querySelectorAll('.prose table').length > 0") {
			b.click(".halt .stop") // the long tail
		}
	}
	b.until("edits as diffs", "document.querySelector('.tool .diff .a')")
	b.until("a failing command", "document.querySelector('.tool.bad')")
	b.sameAfterReload()
	if c := b.complaints(); len(c) > 0 {
		t.Errorf("the browser complains: %q", c)
	}
}

// TestR2RebindingInTheBrowser: a name of somebody else's that points here gets
// nothing.
func TestR2RebindingInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	b := newBrowser(t, desk)
	b.goTo(strings.Replace(w.base, "127.0.0.1", "evil.test", 1) + "/login")
	b.untilText("body", "nod does not answer to this name")
}

// TestUnknownSession is a page with a way home.
func TestUnknownSession(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	b := newBrowser(t, phone)
	b.loggedIn(w, false)
	b.goTo(w.base + "/s/none")
	b.untilText("h2", "There is no such session")
	b.click("main .button")
	b.until("the inbox", "document.querySelector('.inbox')")
}

// TestR3AnotherPort: a page of another program on this machine, to which the browser
// sends nod's cookie along, knows all of a request, and can neither answer it, nor read
// a page, nor open a stream.
func TestR3AnotherPort(t *testing.T) {
	t.Parallel()
	w := newBareWorld(t, "/usr/bin:/bin")
	b := newBrowser(t, desk)
	b.loggedIn(w, false)
	b.startSession(w, "show me")
	b.until("a card", "document.querySelector('.card form.acts-form')")
	b.provoked = true // by a frame
	card := eval[string](b, "document.querySelector('.card').id")
	path := eval[string](b, "location.pathname")
	fields := eval[string](b, `(() => {
		const f = document.querySelector('.card form.acts-form'), d = new FormData(f);
		d.set('seen', 'yes'); d.set('confirmed', 'yes'); d.set('option', f.querySelector('.approve').value);
		return [...d].map(([k, v]) => '<input name="' + k + '" value="' + v.replaceAll('&', '&amp;').replaceAll('"', '&quot;') + '">').join('');
	})()`)
	action := eval[string](b, "document.querySelector('.card form.acts-form').action")
	other := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(out, `<!DOCTYPE html><title>other</title><form method="post" action="%s">%s<button id="go">go</button></form>
			<img src="%s%s"><iframe src="%s%s"></iframe><script>
			window.got = {};
			const note = (name, p) => p.then(v => got[name] = v, () => got[name] = 'refused');
			const form = () => new URLSearchParams(new FormData(document.forms[0]));
			note('read', fetch('%[5]s%[6]s', {credentials: 'include'}).then(r => r.text()));
			note('blind', fetch('%[1]s', {method: 'POST', mode: 'no-cors', credentials: 'include', body: form()}).then(r => r.type));
			note('post', fetch('%[1]s', {method: 'POST', credentials: 'include', body: form()}).then(r => r.text()));
			note('json', fetch('%[1]s', {method: 'POST', credentials: 'include', headers: {'Content-Type': 'application/json'}, body: '{}'}).then(r => r.text()));
			note('stream', new Promise((ok, no) => { const s = new EventSource('%[5]s%[6]s/live', {withCredentials: true}); s.onopen = () => ok('open'); s.onerror = no; }));
			note('frame', new Promise(ok => onload = () => { try { ok(frames[0].document.body.innerText); } catch { ok('refused'); } }));
			note('window', new Promise(ok => { try { ok(open('%[5]s%[6]s').document.body.innerText); } catch { ok('refused'); } }));
			</script>`, action, fields, w.base, path, w.base, path)
	}))
	defer other.Close()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		b.goTo(strings.Replace(other.URL, "127.0.0.1", host, 1))
		b.until("all that it tries", "Object.keys(window.got).length === 7")
		for _, what := range []string{"read", "post", "json", "stream", "frame"} {
			if got := eval[string](b, "got."+what); got != "refused" && got != "" {
				t.Errorf("%s from %s: %.100q", what, host, got)
			}
		}
		if got := eval[string](b, "got.window"); strings.Contains(got, "show me") {
			t.Errorf("a window of %s: %q", host, got)
		}
		b.click("#go") // a form that is sent as a person would
		b.untilText("body", "This request came from another site")
	}
	b.goTo(w.base + path)
	b.until("the card, unanswered", "document.getElementById('"+card+"')?.querySelector('form.acts-form')")
}
