package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPicturesOfItems draws what Codex can do and say besides text, commands and
// diffs.
func TestPicturesOfItems(t *testing.T) {
	dir := picturesFolder(t)
	w, p := puppetWorld(t)
	p.model = "gpt-5.2-codex"
	w.start()
	a := openAlbum(t, w, dir)
	c := w.observer()
	path, s := w.newSession(c, p, "Why does the cart lose its discount when somebody logs in?")
	s.notify("configWarning", object{"summary": "Codex could not find bubblewrap on PATH. It will use the bundled one in the meantime."})
	s.notify("item/agentMessage/delta", object{"itemId": "late", "delta": "…and then the session is thrown away, **with** what was in it."})
	s.done(object{"type": "agentMessage", "id": "plan", "phase": "commentary", "text": "I look at the open pull requests first, then at the code that merges two carts."})
	s.begin(object{"type": "mcpToolCall", "id": "mcp", "server": "tracker", "tool": "list_issues", "status": "inProgress", "arguments": object{"state": "open", "labels": []string{"cart", "discount"}}})
	s.notify("item/mcpToolCall/progress", object{"itemId": "mcp", "message": "page 1 of 2"})
	s.done(object{"type": "mcpToolCall", "id": "mcp", "server": "tracker", "tool": "list_issues", "status": "completed", "arguments": object{"state": "open", "labels": []string{"cart", "discount"}},
		"result": object{"content": []object{{"type": "text", "text": "#211 Discount is lost after login\n#198 Merge carts"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"}}}})
	s.done(object{"type": "mcpToolCall", "id": "mcp2", "server": "tracker", "tool": "close_issue", "status": "failed", "arguments": object{"id": 211}, "error": object{"message": "The tracker says: 403 Forbidden"}})
	s.done(object{"type": "webSearch", "id": "web", "query": "session fixation and carts", "action": object{"type": "search", "query": "session fixation and carts"}})
	s.done(object{"type": "userMessage", "id": "steer", "content": []object{{"type": "text", "text": "Leave the tracker alone, please. The merge is in cart/merge.go."}, {"type": "localImage", "path": "/tmp/shop/screenshot.png"}}})
	read := command("read", "sed -n 1,80p cart/merge.go", "completed")
	read["cwd"], read["exitCode"], read["durationMs"], read["aggregatedOutput"] = w.folder+"/cart", 0, 12, "func Merge(a, b *Cart) *Cart {\n"
	read["commandActions"] = []object{{"type": "read", "command": "sed -n 1,80p merge.go", "name": "merge.go", "path": "cart/merge.go"}}
	s.done(read)
	s.run("install", "npm init")
	s.write("install", "package name: (shop)\n")
	s.notify("item/commandExecution/terminalInteraction", object{"itemId": "install", "processId": "1", "stdin": "yes\n"})
	s.ran("install", "npm init")
	s.done(object{"type": "contextCompaction", "id": "compact"})
	s.done(object{"type": "enteredReviewMode", "id": "review", "review": "current changes"})
	s.done(object{"type": "exitedReviewMode", "id": "reviewed", "review": "Nothing in `cart/merge.go` is wrong but the order: the discount is read **after** the old session is gone."})
	s.notify("account/rateLimits/updated", object{"rateLimits": object{"limitId": "codex", "primary": object{"usedPercent": 93, "windowDurationMins": 300, "resetsAt": 1796005200}}})
	s.notify("thread/somethingNew", object{"value": 7})
	s.notify("thread/tokenUsage/updated", object{"tokenUsage": object{"last": object{"totalTokens": 118_000, "inputTokens": 117_000, "outputTokens": 1000}, "modelContextWindow": 258_400}})
	s.notify("turn/plan/updated", object{"explanation": "The tracker is out of it now.", "plan": []object{{"step": "Find the merge", "status": "completed"}, {"step": "Read the discount first", "status": "inProgress"}}})
	s.done(object{"type": "agentMessage", "id": "asks", "phase": "final_answer", "text": "The merge reads the discount too late. Two things are yours to decide:", "delivery": "async", "questions": []object{
		{"title": "Which discount wins if both carts have one?", "options": []string{"The higher one", "That of the session"}},
		{"title": "Should an expired discount be kept?"},
	}})
	w.untilPage(c, path, "expired discount")
	at := func(selector string) func(*browser) {
		return func(b *browser) {
			b.goTo("about:blank")
			b.goTo(w.base + path)
			b.until("the scene", "document.querySelector('"+selector+"')")
			b.do(chromedp.Evaluate[chromedp.Void](strings.ReplaceAll("for (const d of document.querySelectorAll('.tool')) d.open = true; document.querySelector('SELECTOR').scrollIntoView()", "SELECTOR", selector)))
		}
	}
	a.all("items-head", at(".head"))
	a.all("items", at(".turn"))
	a.all("items-steered", at(".said"))
	a.all("items-review", at(".divide"))
	a.all("items-questions", at(".asks"))
}
