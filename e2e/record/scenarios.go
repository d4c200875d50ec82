package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// scenario is what a client does. Codex is 0.122.0 if it is old, and listens on
// a socket if it is shared, where the client does not say hello by itself.
type scenario struct {
	name        string
	play        func(*client)
	old, shared bool
}

// Requests of Codex.
const (
	askCommand = "item/commandExecution/requestApproval"
	askFile    = "item/fileChange/requestApproval"
	askInput   = "item/tool/requestUserInput"
	askForm    = "mcpServer/elicitation/request"
)

func decision(word string) object { return object{"decision": word} }

var (
	ask    = object{} // as start does by itself
	never  = object{"approvalPolicy": "never"}
	onNeed = object{"approvalPolicy": "on-request"}
	// planMode is the mode in which Codex has questions. The model is one that it knows.
	planMode = func(model string) object {
		return object{"collaborationMode": object{"mode": "plan", "settings": object{"model": model, "reasoning_effort": nil, "developer_instructions": nil}}}
	}
	filled = object{"action": "accept", "content": object{
		"name": "blue", "email": "me@example.com", "site": "https://example.com", "day": "2026-12-01", "at": "2026-12-01T10:00:00Z", "load": 0.75, "cores": 4,
		"public": true, "region": "south", "size": "l", "disk": "ssd", "ports": []string{"80", "443"}, "backups": []string{"d", "w"},
	}, "_meta": nil}
)

// turns prompts a new thread, and answers each request of a method in its order.
func turns(thread object, prompt, method string, results ...object) func(*client) {
	return func(c *client) {
		c.start(thread)
		c.prompt(prompt, nil)
		for _, r := range results {
			c.answer(c.until(method), r)
		}
		c.until("turn/completed")
	}
}

var scenarios = []scenario{
	{name: "hello", play: turns(ask, "script:hello", "")},
	{name: "messages", play: turns(ask, "script:messages", "")},
	{name: "reasoning", play: turns(ask, "script:reason", "")},
	{name: "plan", play: turns(ask, "script:plan", "")},
	{name: "search", play: turns(ask, "script:search", "")},
	{name: "command-approved", play: turns(ask, "script:command", askCommand, decision("accept"))},
	{name: "command-declined", play: turns(ask, "script:command", askCommand, decision("decline"))},
	{name: "command-cancelled", play: turns(ask, "script:command", askCommand, decision("cancel"))},
	{name: "command-session", play: func(c *client) {
		turns(ask, "script:fail", askCommand, decision("acceptForSession"))(c)
		c.prompt("again: script:fail", nil) // is not asked for
		c.until("turn/completed")
	}},
	{name: "command-always", play: func(c *client) {
		c.start(ask)
		c.prompt("script:fail", nil)
		request := c.until(askCommand)
		var p struct {
			Amendment []string `json:"proposedExecpolicyAmendment"`
		}
		c.read(askCommand, request.Params, &p)
		c.answer(request, object{"decision": object{"acceptWithExecpolicyAmendment": object{"execpolicy_amendment": p.Amendment}}})
		c.until("turn/completed")
		c.prompt("again: script:fail", nil) // is not asked for
		c.until("turn/completed")
	}},
	{name: "command-escalated", play: turns(onNeed, "script:escalate", askCommand, decision("accept"))},
	{name: "parallel", play: func(c *client) {
		c.start(ask)
		c.prompt("script:parallel", nil)
		first, second := c.until(askCommand), c.until(askCommand)
		c.answer(second, decision("decline"))
		c.answer(first, decision("accept"))
		c.until("turn/completed")
	}},
	{name: "file-approved", play: turns(ask, "script:patch", askFile, decision("accept"), decision("accept"))},
	{name: "file-declined", play: turns(ask, "script:patch", askFile, decision("decline"))},
	{name: "file-kinds", play: turns(never, "script:files", "")},
	{name: "question", play: func(c *client) { question(c, "gpt-5.5") }},
	{name: "mcp-form", play: turns(ask, "script:form", askForm, filled)},
	{name: "mcp-url", play: turns(ask, "script:url", askForm, object{"action": "decline", "content": nil, "_meta": nil})},
	{name: "mcp-call", play: turns(ask, "script:count", "")},
	{name: "mcp-approval", play: turns(onNeed, "script:note", askForm, object{"action": "accept", "content": object{}, "_meta": nil})},
	{name: "mcp-session", play: func(c *client) {
		turns(onNeed, "script:note", askForm, object{"action": "accept", "content": object{}, "_meta": object{"persist": "session"}})(c)
		c.prompt("again: script:note", nil) // is not asked for
		c.until("turn/completed")
	}},
	{name: "client-tool", play: turns(object{"dynamicTools": []object{{
		"name": "lookup", "description": "looks a word up",
		"inputSchema": object{"type": "object", "properties": object{"word": object{"type": "string"}}, "required": []string{"word"}},
	}}}, "script:tool", "item/tool/call", object{"contentItems": []object{{"type": "inputText", "text": "nod: to agree"}}, "success": true})},
	{name: "permissions", play: permissions},
	{name: "background", play: func(c *client) {
		c.start(never)
		c.prompt("script:background", nil)
		c.until("turn/completed")
		c.untilItem("item/completed", "commandExecution")
	}},
	{name: "stdin", play: turns(onNeed, "script:stdin", askCommand, decision("accept"), decision("accept"))},
	{name: "interrupt-command", play: func(c *client) {
		c.start(never)
		c.prompt("script:slowcmd", nil)
		c.until("item/commandExecution/outputDelta")
		c.interrupt()
		c.until("turn/completed")
	}},
	{name: "interrupt-message", play: func(c *client) {
		c.start(never)
		c.prompt("script:slow", nil)
		for range 5 {
			c.until("item/agentMessage/delta")
		}
		c.interrupt()
		c.until("turn/completed")
	}},
	{name: "interrupt-request", play: func(c *client) {
		c.start(ask)
		c.prompt("script:command", nil)
		c.until(askCommand)
		c.interrupt()
		c.until("turn/completed")
		c.prompt("script:hello", nil)
		c.until("turn/completed")
	}},
	{name: "steer", play: steer},
	{name: "error-401", play: turns(ask, "script:err401", "")},
	{name: "error-429", play: turns(ask, "script:err429", "")},
	{name: "error-500", play: turns(ask, "script:err500", "")},
	{name: "error-cut", play: turns(ask, "script:cut", "")},
	{name: "compaction", play: func(c *client) {
		turns(ask, "script:hello", "")(c)
		c.call("thread/compact/start", object{"threadId": c.thread})
		c.until("turn/completed")
	}},
	{name: "review", play: func(c *client) {
		c.start(ask)
		c.call("review/start", object{"threadId": c.thread, "target": object{"type": "custom", "instructions": "script:review"}})
		c.until("turn/completed")
	}},
	{name: "attached", shared: true, play: func(c *client) {
		first := c.another()
		first.start(ask)
		first.prompt("script:command", nil)
		first.until(askCommand)
		c.hello()
		c.call("thread/loaded/list", object{})
		c.call("thread/resume", object{"threadId": first.thread, "excludeTurns": true, "initialTurnsPage": object{"limit": 10, "itemsView": "full"}})
		c.answer(c.until(askCommand), decision("accept"))
		c.until("turn/completed")
		first.until("turn/completed")
		c.call("thread/read", object{"threadId": first.thread, "includeTurns": true})
		first.end(c)
	}},

	{name: "old-command-approved", old: true, play: turns(ask, "script:command", askCommand, decision("accept"))},
	{name: "old-command-declined", old: true, play: turns(ask, "script:command", askCommand, decision("decline"))},
	{name: "old-file-approved", old: true, play: turns(ask, "script:patch", askFile, decision("accept"), decision("accept"))},
	{name: "old-question", old: true, play: func(c *client) { question(c, "gpt-5.4") }},
	{name: "old-mcp-form", old: true, play: turns(ask, "script:form", askForm, filled)},
	{name: "old-permissions", old: true, play: permissions},
	{name: "old-steer", old: true, play: steer},
	{name: "old-error-500", old: true, play: turns(ask, "script:err500", "")},
}

// permissions switches a tool on that Codex has, but offers to nobody yet.
var permissions = turns(object{"approvalPolicy": "on-request", "config": object{"features.request_permissions_tool": true}}, "script:permissions",
	"item/permissions/requestApproval", object{"permissions": object{"network": object{"enabled": true}}, "scope": "turn"})

func question(c *client, model string) {
	c.start(ask)
	c.prompt("script:ask", planMode(model))
	c.answer(c.until(askInput), object{"answers": object{"db": object{"answers": []string{"PostgreSQL"}}}})
	c.until("turn/completed")
}

func steer(c *client) {
	c.start(never)
	c.prompt("script:steer", nil)
	c.untilItem("item/started", "commandExecution")
	c.call("turn/steer", object{"threadId": c.thread, "expectedTurnId": c.turn, "input": []object{{"type": "text", "text": "also mind the widget"}}})
	c.until("turn/completed")
}

// another connects to the same Codex; what it hears is not recorded.
func (c *client) another() *client {
	w, err := c.server.dial()
	if err != nil {
		return &client{link: &link{err: err}, server: c.server}
	}
	return newClient(c.server, w)
}

// end closes a connection that another opened. Its failure is the other's too.
func (c *client) end(other *client) {
	if other.err == nil {
		other.err = c.err
	}
	if c.wire != nil {
		_ = c.wire.close() // nothing is waited for any more
	}
}

// record plays a scenario with a Codex of its own.
func (s scenario) record(ctx context.Context, work string) ([]byte, error) {
	program := newCodex
	if s.old {
		program = oldCodex
	}
	codex, err := installed(program)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	place, err := os.MkdirTemp(work, s.name+"-")
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	srv := &server{
		codex: codex, ctx: ctx,
		home: filepath.Join(place, "me", ".codex"), folder: filepath.Join(place, "w"), socket: filepath.Join(place, "s"),
		scrubber: scrubber{host: host, paths: strings.NewReplacer(
			filepath.Join(place, "me"), "/home/me", filepath.Join(place, "w"), "/w", place, "/home/me/tmp", work, "/home/me/tmp", root, "/home/me/nod")},
	}
	// So that Codex looks for a project no higher, where others have their files.
	if err := os.MkdirAll(filepath.Join(srv.folder, ".git"), 0o755); err != nil {
		return nil, err
	}
	_, stop, err := model(ctx, work, "-codex-home", srv.home, "-mcp", filepath.Join(work, "fakemcp"))
	if err != nil {
		return nil, err
	}
	defer stop()

	var w wire
	if s.shared {
		if err := srv.startSocket(); err != nil {
			return nil, err
		}
		w, err = srv.dial()
	} else {
		w, err = srv.startPipes()
	}
	if err != nil {
		return nil, err
	}
	c := newClient(srv, w)
	s.play(c)
	// What still comes belongs to the recording, as far as it comes soon.
	time.Sleep(300 * time.Millisecond)
	_ = w.close() // Codex ends, or is killed below
	cancel()
	_ = srv.cmd.Wait() // says that it was killed
	if c.err != nil {
		fmt.Fprintf(os.Stderr, "%s", c.tape.bytes())
		return nil, c.err
	}
	return c.tape.bytes(), nil
}
