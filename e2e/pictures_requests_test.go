package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPicturesOfRequests draws the card of every kind of request, with much in it.
func TestPicturesOfRequests(t *testing.T) {
	dir := picturesFolder(t)
	w, p := puppetWorld(t)
	p.model = "gpt-5.2-codex"
	w.start()
	a := openAlbum(t, w, dir)
	c := w.observer()
	show := func(name, method string, params object, before ...object) string {
		path, s := w.newSession(c, p, "Publish the new version of the shop, and tell the customers about it.")
		s.say("say", "I have built it, and all tests pass. To publish it I need something of you.")
		for _, item := range before {
			s.begin(item)
		}
		s.ask(method, params)
		w.untilPage(c, path, `class="card"`)
		at := func(b *browser) {
			b.goTo("about:blank")
			b.goTo(w.base + path)
		}
		a.all("request-"+name, at)
		a.all("request-"+name+"-end", func(b *browser) {
			at(b)
			b.do(chromedp.Evaluate[chromedp.Void]("for (const d of document.querySelectorAll('.card details')) d.open = true; document.querySelector('.aside').scrollTo(0, 1e6)"))
		})
		return path
	}
	line := "/bin/bash -lc 'rsync -az --delete --exclude=.git --exclude=node_modules ./dist/ deploy@shop.example.org:/srv/www/shop-2026-11-30/ && ssh deploy@shop.example.org sudo systemctl reload shop.service'"
	rule := show("rule", "item/commandExecution/requestApproval", object{
		"itemId": "c", "command": line, "cwd": "/home/ada/projects/shop", "reason": "The release has to be copied to the server; the sandbox has no network.",
		"proposedExecpolicyAmendment": []string{"/bin/bash", "-lc", strings.TrimSuffix(strings.TrimPrefix(line, "/bin/bash -lc '"), "'")},
	}, command("c", line, "inProgress"))
	a.all("request-rule-confirm", func(b *browser) {
		b.goTo("about:blank")
		b.goTo(w.base + rule)
		b.until("the card", "document.querySelector('.card form')")
		b.click(".card [value=amendment-0]")
		b.until("the page", "document.querySelector('main.narrow .acts')")
	})
	show("rights", "item/commandExecution/requestApproval", object{
		"itemId": "c", "command": "make publish", "cwd": "/home/ada/projects/shop", "environmentId": "build-box-eu-7", "skillMetadata": object{"pathToSkillsMd": "/home/ada/.codex/skills/publish/SKILL.md"},
		"additionalPermissions": object{"network": object{"enabled": true}, "fileSystem": object{"read": []string{"/home/ada/.ssh/known_hosts", "/etc/ssl"}, "write": []string{"/srv/www/releases"}}},
	}, command("c", "make publish", "inProgress"))
	show("long", "item/commandExecution/requestApproval", object{"itemId": "c", "cwd": "/home/ada/projects/shop", "command": "make " + strings.Repeat("x", 17<<20)})
	show("network", "item/commandExecution/requestApproval", object{
		"itemId": "c", "networkApprovalContext": object{"host": "a-registry-with-a-long-name.packages.example.org", "protocol": "https"},
		"proposedNetworkPolicyAmendments": []object{{"host": "a-registry-with-a-long-name.packages.example.org", "action": "allow"}, {"host": "a-registry-with-a-long-name.packages.example.org", "action": "deny"}},
	})
	show("stdin", "item/commandExecution/requestApproval", object{"itemId": "c", "kind": "writeStdin", "command": "write_stdin 7 'yes, delete all 1204 carts\n'", "cwd": "/home/ada/projects/shop"})
	show("permissions", "item/permissions/requestApproval", object{
		"itemId": "p", "cwd": "/home/ada/projects/shop", "reason": "To write the release notes beside the releases and to fetch the list of customers.",
		"permissions": object{"network": object{"enabled": true}, "fileSystem": object{"entries": []object{
			{"access": "write", "path": object{"type": "path", "path": "/srv/www/releases"}}, {"access": "read", "path": object{"type": "special", "value": object{"kind": "root"}}},
			{"access": "deny", "path": object{"type": "glob_pattern", "pattern": "**/.env"}},
		}}},
	})
	show("questions", "item/tool/requestUserInput", object{"itemId": "q", "isBlocking": true, "autoResolutionMs": 60000, "questions": []object{
		{"id": "db", "header": "Database", "question": "Which database should the new version use, when the old one is no longer there?", "isOther": true, "options": []object{
			{"label": "SQLite (Recommended)", "description": "A single file beside the program; enough for a shop of this size."}, {"label": "Postgres", "description": "A server of its own, which has to be run and backed up."},
		}},
		{"id": "key", "header": "Key", "question": "The key for the mail service", "isSecret": true},
		{"id": "note", "header": "Note", "question": "Anything else?"},
	}})
	form := object{"type": "object", "required": []string{"mail", "topics"}, "properties": object{
		"name":   object{"type": "string", "title": "Your name", "minLength": 2, "maxLength": 40, "default": "Ada"},
		"mail":   object{"type": "string", "format": "email", "title": "E-mail address", "description": "The customers see it as the sender."},
		"home":   object{"type": "string", "format": "uri", "title": "Home page"},
		"day":    object{"type": "string", "format": "date", "title": "Day of the release", "default": "2026-12-01"},
		"at":     object{"type": "string", "format": "date-time", "title": "When to send"},
		"count":  object{"type": "integer", "title": "How many at once", "minimum": 1, "maximum": 500, "default": 50},
		"rate":   object{"type": "number", "title": "Discount", "maximum": 1},
		"now":    object{"type": "boolean", "title": "Begin at once?", "default": false},
		"lang":   object{"type": "string", "title": "Language", "oneOf": []object{{"const": "de", "title": "Deutsch"}, {"const": "en", "title": "English"}}, "default": "en"},
		"topics": object{"type": "array", "title": "Topics", "minItems": 1, "maxItems": 2, "items": object{"type": "string", "enum": []string{"news", "prices", "a topic with a name that is much longer than the others are"}}},
	}}
	path := show("form", "mcpServer/elicitation/request", object{"serverName": "newsletter", "mode": "form", "message": "Before the letter goes out, I need to know who sends it, and when.", "requestedSchema": form})
	a.all("request-form-wrong", func(b *browser) {
		b.goTo("about:blank")
		b.goTo(w.base + path)
		b.until("the card", "document.querySelector('.card form')")
		b.do(chromedp.Evaluate[chromedp.Void]("{const f = document.querySelector('.card form'); f.noValidate = true; f.elements['t.mail'].value = 'ada at example'; f.elements['t.at'].value = 'tomorrow'; f.elements['t.name'].value = 'Ada Lovelace'}"))
		b.click(".card .approve")
		b.until("the page", "document.querySelector('.narrow .problem')")
	})
	a.all("request-form-wrong-end", func(b *browser) {
		b.do(chromedp.Evaluate[chromedp.Void]("scrollTo(0, 1e6)"))
	})
	show("address", "mcpServer/elicitation/request", object{"serverName": "calendar", "mode": "url", "message": "Log in to your calendar and allow the shop to read it.", "elicitationId": "e",
		"url": "https://accounts.example.org@login.calendar.example.com:8443/oauth/authorize?client_id=shop-2026&scope=calendar.readonly&state=4f9c0d2e8b7a6c5d&redirect_uri=https%3A%2F%2Fshop.example.org%2Fback"})
	show("tool", "mcpServer/elicitation/request", object{"serverName": "newsletter", "mode": "form", "message": "Allow the newsletter MCP server to run tool \"send_letter\"?", "requestedSchema": object{"type": "object", "properties": object{}},
		"_meta": object{"codex_approval_kind": "mcp_tool_call", "persist": []string{"session", "always"}, "tool_name": "send_letter", "tool_description": "Sends a letter to all who have asked for it. It cannot be taken back.",
			"tool_annotations": object{"destructiveHint": true, "openWorldHint": true}, "tool_params": object{"subject": "The shop has a new version", "to": []string{"customers", "press"}, "count": 1204, "body": "Dear customers,\n\nthe shop has a new version.\nIt is faster, and nothing of what you have put aside is lost.\n\nAda"}}})
	show("elsewhere", "item/tool/call", object{"callId": "d", "tool": "take_photo", "namespace": "camera", "arguments": object{"of": "the shelf", "count": 3}})
	show("login", "account/chatgptAuthTokens/refresh", object{"reason": "unauthorized"})
	edit := object{"type": "fileChange", "id": "edit", "status": "inProgress", "changes": someChanges()[:1]}
	denied := show("grant", "item/fileChange/requestApproval", object{"itemId": "edit", "grantRoot": "/srv/www/releases", "reason": "The notes go there as well."}, edit)
	b := a.tabs["1440x900"]
	b.goTo("about:blank")
	b.goTo(w.base + denied)
	b.until("the card", "document.querySelector('.card form')")
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.card [name=reason]').closest('details').open = true; document.querySelector('.card [name=reason]').value = 'Not into the folder of the releases: put the notes into docs/notes and leave the rest as it is.'"))
	b.click(".card .edit .deny")
	a.all("request-denied", func(b *browser) {
		b.goTo("about:blank")
		b.goTo(w.base + denied)
		b.until("the session", "document.querySelector('.tool')")
	})
}
