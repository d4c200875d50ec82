package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// copilotScenario is what a client of Copilot does.
type copilotScenario struct {
	name string
	play func(*guest)
	// before is done by another client of another Copilot, and not recorded.
	before func(*guest)
	shared bool // Copilot listens, and more clients than one may connect
}

// Decisions about a permission.
var (
	once   = object{"kind": "approve-once", "approvedInteractively": true}
	reject = object{"kind": "reject", "feedback": "use ./out instead"}
)

// session prompts in a new session, and decides on each permission in its order.
func session(like object, prompt string, decisions ...object) func(*guest) {
	return func(g *guest) {
		g.create(like)
		g.prompt(prompt)
		for _, d := range decisions {
			g.decide(d)
		}
		g.idle()
	}
}

// Sessions of different kinds.
var (
	plain  = object{}
	claude = object{"model": "claude-sonnet-4.5"} // has no patches, but create and edit
	asking = object{"requestUserInput": true, "requestExitPlanMode": true, "requestElicitation": true}
	lookup = object{"tools": []object{{
		"name": "lookup", "description": "looks a word up",
		"parameters": object{"type": "object", "properties": object{"word": object{"type": "string"}}, "required": []string{"word"}},
	}}}
)

// withMCP is a session that has the server of e2e/fakemcp, and answers its forms.
func (g *guest) withMCP() object {
	return object{"requestElicitation": true, "mcpServers": object{"fakemcp": object{"type": "stdio", "tools": []string{"*"}, "command": g.stage.mcp, "args": []string{}}}}
}

// forSession allows the commands of a kind that a question for permission names.
func forSession(kind string, identifiers []string) object {
	approval := object{"kind": kind}
	if identifiers != nil {
		approval["commandIdentifiers"] = identifiers
	}
	return object{"kind": "approve-for-session", "approval": approval}
}

var copilotScenarios = []copilotScenario{
	{name: "plain", play: session(plain, "script:hello")},
	{name: "markdown", play: session(plain, "script:command", once)},
	{name: "shell-approved", play: session(plain, "script:shell", once)},
	{name: "shell-denied", play: session(plain, "script:shell", reject)},
	{name: "shell-session", play: func(g *guest) {
		g.create(plain)
		g.ask("options.update", object{"enableScriptSafety": true})
		g.prompt("script:twice")
		g.decideForSession() // git
		g.decideForSession() // touch, which is not asked for again
		g.idle()
	}},
	{name: "shell-location", play: func(g *guest) {
		g.create(plain)
		g.ask("options.update", object{"enableScriptSafety": true})
		var r struct {
			LocationKey string `json:"locationKey"`
		}
		g.read("the location", g.ask("permissions.locations.resolve", object{"workingDirectory": g.stage.folder}), &r)
		g.prompt("script:twice")
		g.decide(once)
		id, identifiers := g.commands()
		g.decided(id, object{"kind": "approve-for-location", "locationKey": r.LocationKey, "approval": object{"kind": "commands", "commandIdentifiers": identifiers}})
		g.idle()
	}},
	{name: "shell-failed", play: session(plain, "script:fail", once)},
	{name: "shell-slow", play: session(plain, "script:steer", once)},
	{name: "shell-background", play: session(plain, "script:async", once)},
	{name: "write-approved", play: session(claude, "script:create", once, once)},
	{name: "write-session", play: session(claude, "script:create", forSession("write", nil))},
	{name: "write-denied", play: session(claude, "script:create", reject)},
	{name: "patch", play: session(plain, "script:files", once, once, once, once)},
	{name: "read", play: session(plain, "script:read", once, once, once)},
	{name: "url-approved", play: session(plain, "script:fetch", once)}, // and not fetched, as it is of this machine
	{name: "url-denied", play: session(plain, "script:fetch", reject)},
	{name: "parallel", play: session(plain, "script:mixed", once, reject, once, once)},
	{name: "ask-choices", play: func(g *guest) { answered(g, "script:choose", object{"answer": "blue", "wasFreeform": false}) }},
	{name: "ask-text", play: func(g *guest) { answered(g, "script:tell", object{"answer": "Go on", "wasFreeform": true}) }},
	{name: "elicitation", play: func(g *guest) {
		form(g, "script:form", object{"action": "accept", "content": filled["content"]})
	}},
	{name: "elicitation-url", play: func(g *guest) { form(g, "script:url", object{"action": "decline"}) }},
	{name: "mcp-tool", play: func(g *guest) { session(g.withMCP(), "script:note", once)(g) }},
	{name: "mcp-progress", play: func(g *guest) { session(g.withMCP(), "script:count")(g) }},
	{name: "plan-approved", play: func(g *guest) { planned(g, object{"approved": true, "selectedAction": "interactive"}) }},
	{name: "plan-denied", play: func(g *guest) { planned(g, object{"approved": false, "feedback": "write the tests first"}) }},
	{name: "autopilot", play: func(g *guest) {
		g.create(plain)
		g.ask("mode.set", object{"mode": "autopilot"})
		g.prompt("script:autopilot")
		g.decide(once)
		g.event("session.task_complete")
		g.idle()
	}},
	{name: "steer-queue", play: func(g *guest) {
		g.create(plain)
		g.prompt("script:steer")
		id := g.asked("permission.requested")
		g.ask("send", object{"prompt": "also mind the widget", "mode": "immediate"})
		g.decided(id, once)
		g.ask("send", object{"prompt": "script:hello one", "mode": "enqueue"})
		g.ask("send", object{"prompt": "script:hello two"})
		g.ask("queue.pendingItems", object{})
		g.idle()
	}},
	{name: "queue-edit", play: func(g *guest) {
		g.create(plain)
		g.prompt("script:steer")
		id := g.asked("permission.requested")
		for _, text := range []string{"script:hello one", "script:hello two", "script:hello three"} {
			g.ask("send", object{"prompt": text, "mode": "enqueue"})
		}
		items := g.queued()
		if len(items) != 3 {
			g.fail("%d items are queued", len(items))
			return
		}
		g.ask("queue.updateText", object{"id": items[0], "prompt": "script:hello changed"})
		g.ask("queue.removeAt", object{"id": items[1]})
		g.ask("queue.moveItem", object{"id": items[2], "toPosition": 0})
		g.queued()
		g.decided(id, once)
		g.event("tool.execution_partial_result")
		g.ask("queue.sendNow", object{"id": items[2]})
		g.queued()
		g.idle()
	}},
	{name: "abort-stream", play: func(g *guest) {
		g.create(plain)
		g.prompt("script:slow")
		for range 5 {
			g.event("assistant.message_delta")
		}
		g.ask("abort", object{})
		g.idle()
		g.prompt("script:hello")
		g.idle()
	}},
	{name: "abort-permission", play: func(g *guest) {
		g.create(plain)
		g.prompt("script:shell")
		g.asked("permission.requested")
		g.ask("abort", object{})
		g.idle()
	}},
	{name: "abort-command", play: func(g *guest) {
		g.create(plain)
		g.prompt("script:slowcmd")
		g.decide(once)
		g.event("tool.execution_partial_result")
		g.ask("abort", object{})
		g.idle()
	}},
	{name: "interrupt-keeps-queue", play: func(g *guest) {
		g.create(plain)
		g.prompt("script:slow")
		g.event("assistant.message_delta")
		g.ask("send", object{"prompt": "script:hello next", "mode": "enqueue"})
		g.ask("interruptMainTurn", object{"flushQueued": true}) // what is queued comes next
		g.event("user.message")
		g.idle()
	}},
	{name: "error-400", play: session(plain, "script:err400")},
	{name: "error-401", play: session(plain, "script:err401")},
	{name: "error-429", play: session(plain, "script:err429")},
	{name: "error-500", play: session(plain, "script:err500")},
	{name: "error-cut", play: session(plain, "script:cut")},
	{name: "subagent", play: session(plain, "script:delegate", once)},
	{name: "subagent-background", play: session(plain, "script:aside", once)},
	{name: "todo", play: func(g *guest) {
		session(plain, "script:todo")(g)
		g.ask("plan.readSqlTodos", object{})
	}},
	{name: "big-output", play: session(plain, "script:lines", once)},
	{name: "unknown-tool", play: session(plain, "script:unknown")},
	{name: "external-tool", play: func(g *guest) {
		g.create(lookup)
		g.prompt("script:tool")
		g.decide(once)
		g.asked("external_tool.requested") // is not answered
		g.ask("abort", object{})
		g.idle()
	}},
	{name: "external-tool-answered", play: func(g *guest) {
		g.create(lookup)
		g.prompt("script:tool")
		g.decide(once)
		g.ask("tools.handlePendingToolCall", object{"requestId": g.asked("external_tool.requested"), "result": object{"resultType": "success", "textResultForLlm": "nod: to agree"}})
		g.idle()
	}},
	{name: "model-switch", play: func(g *guest) {
		session(plain, "script:hello one")(g)
		g.ask("model.list", object{})
		g.ask("model.switchTo", object{"modelId": "claude-sonnet-4.5"})
		g.ask("model.setReasoningEffort", object{"reasoningEffort": "high"})
		g.ask("model.getCurrent", object{})
		g.prompt("script:hello two")
		g.idle()
	}},
	{name: "modes", play: func(g *guest) {
		g.create(plain)
		for _, mode := range []string{"plan", "autopilot", "interactive"} {
			g.ask("mode.set", object{"mode": mode})
		}
		g.ask("permissions.setMode", object{"mode": "allow-all"})
		g.prompt("script:shell")
		g.idle()
		g.ask("permissions.setMode", object{"mode": "manual"})
		g.ask("name.set", object{"name": "A name of its own"})
		g.ask("name.get", object{})
		g.ask("usage.getMetrics", object{})
		g.ask("metadata.snapshot", object{})
	}},
	{name: "attachments", play: func(g *guest) {
		g.create(plain)
		g.ask("send", object{"prompt": "script:hello look", "displayPrompt": "look", "attachments": []object{
			{"type": "file", "displayName": "README.md", "path": filepath.Join(g.stage.folder, "README.md")},
			{"type": "blob", "displayName": "dot.png", "mimeType": "image/png", "data": dot},
		}})
		g.idle()
	}},
	{name: "compaction", play: func(g *guest) {
		session(plain, "script:hello")(g)
		g.ask("history.compact", object{})
	}},
	{name: "hooks", play: func(g *guest) {
		g.create(object{"hooks": true})
		g.prompt("script:shell")
		for range 4 { // start, prompt, prompt as it is sent, before the tool
			g.answer(g.until("hooks.invoke"), object{})
		}
		g.decide(once)
		for range 2 { // after the tool, stop
			g.answer(g.until("hooks.invoke"), object{})
		}
		g.idle()
	}},
	{name: "two-clients", shared: true, play: func(g *guest) {
		g.create(asking)
		second := g.stage.join(2)
		second.resume(asking)
		g.prompt("script:shell")
		id := g.asked("permission.requested")
		second.decide(once)
		g.decided(id, reject) // is too late
		g.idle()
		second.prompt("script:choose")
		id = g.asked("user_input.requested")
		second.ask("ui.handlePendingUserInput", object{"requestId": id, "response": object{"answer": "red", "wasFreeform": false}})
		g.idle()
		second.idle()
		second.ask("eventLog.read", object{"max": 1000})
		second.leave()
		g.err = errors.Join(g.err, second.err)
	}},
	{name: "resume-1", play: pending},
	{name: "resume-2", before: pending, play: func(g *guest) {
		g.call("session.list", object{})
		g.call("sessions.checkInUse", object{"sessionIds": []string{g.session}})
		g.call("sessions.readPersistedEvents", object{"sessionId": g.session})
		g.resume(object{"continuePendingWork": true})
		var r struct {
			Events []struct {
				Type string
				Data struct {
					RequestID string `json:"requestId"`
				}
			}
		}
		g.read("the history", g.ask("getMessages", object{}), &r)
		id := ""
		for _, e := range r.Events {
			if e.Type == "permission.requested" {
				id = e.Data.RequestID
			}
		}
		g.ask("eventLog.read", object{"max": 1000})
		g.decided(id, once)
		g.idle()
		g.ask("eventLog.tail", object{})
	}},
}

// pending leaves a question for permission open.
func pending(g *guest) {
	g.create(plain)
	g.prompt("script:shell")
	g.asked("permission.requested")
}

// commands waits for a question for permission to run commands, and returns its
// id and what the commands are called.
func (g *guest) commands() (id string, identifiers []string) {
	var p struct {
		RequestID string `json:"requestId"`
		Prompt    struct {
			Identifiers []string `json:"commandIdentifiers"`
		} `json:"promptRequest"`
	}
	g.read("the question", g.event("permission.requested"), &p)
	return p.RequestID, p.Prompt.Identifiers
}

func (g *guest) decideForSession() {
	id, identifiers := g.commands()
	g.decided(id, forSession("commands", identifiers))
}

// answered answers a question of ask_user.
func answered(g *guest, prompt string, answer object) {
	g.create(asking)
	g.prompt(prompt)
	g.ask("ui.handlePendingUserInput", object{"requestId": g.asked("user_input.requested"), "response": answer})
	g.idle()
}

// form answers a form of the MCP server.
func form(g *guest, prompt string, answer object) {
	g.create(g.withMCP())
	g.prompt(prompt)
	g.ask("ui.handlePendingElicitation", object{"requestId": g.asked("elicitation.requested"), "result": answer})
	g.idle()
}

// planned answers a plan.
func planned(g *guest, answer object) {
	g.create(asking)
	g.ask("mode.set", object{"mode": "plan"})
	g.prompt("script:exitplan")
	g.ask("ui.handlePendingExitPlanMode", object{"requestId": g.asked("exit_plan_mode.requested"), "response": answer})
	g.idle()
	g.ask("mode.get", object{})
}

// queued are the ids of what waits.
func (g *guest) queued() (ids []string) {
	var r struct{ Items []struct{ ID string } }
	g.read("the queue", g.ask("queue.pendingItems", object{}), &r)
	for _, i := range r.Items {
		ids = append(ids, i.ID)
	}
	return ids
}

// dot is a picture.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// record plays a scenario.
func (s copilotScenario) record(ctx context.Context, work string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	program, err := unpacked(ctx)
	if err != nil {
		return nil, err
	}
	place, err := os.MkdirTemp(work, s.name+"-")
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	base, stop, err := model(ctx, work)
	if err != nil {
		return nil, err
	}
	defer stop()
	st := &stage{
		copilot: program, ctx: ctx, tape: &tape{}, model: base, mcp: filepath.Join(work, "fakemcp"),
		home: filepath.Join(place, "me", ".copilot"), folder: filepath.Join(place, "w"),
		scrubber: scrubber{paths: strings.NewReplacer(
			filepath.Join(place, "me"), "/home/me", filepath.Join(place, "w"), "/w", place, "/srv", work, "/opt", filepath.Join(root, copilotCache), "/home/me/.cache/copilot", root, "/home/me/nod",
			base, "http://127.0.0.1:18765/v1")},
	}
	for _, folder := range []string{st.home, st.folder, filepath.Join(place, "me", "scratch")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	for file, text := range map[string]string{filepath.Join(st.folder, "README.md"): "# A folder\n\nThere is not much in it.\n", filepath.Join(place, "outside.txt"): "not in the folder\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if s.shared {
		if err := st.listen(); err != nil {
			return nil, err
		}
	}
	if s.before != nil {
		g := st.join(1)
		s.before(g)
		g.leave()
		if g.err != nil {
			fmt.Fprintf(os.Stderr, "%s", st.tape.bytes())
			return nil, g.err
		}
		_ = st.cmd.Wait() // it ends when its client has
		st.tape = &tape{}
	}
	g := st.join(1)
	s.play(g)
	// What still comes belongs to the recording, as far as it comes soon.
	time.Sleep(300 * time.Millisecond)
	g.leave()
	cancel()
	if st.cmd != nil {
		_ = st.cmd.Wait() // says that it was killed
	}
	if g.err != nil {
		fmt.Fprintf(os.Stderr, "%s", st.tape.bytes())
		return nil, g.err
	}
	return st.tape.bytes(), nil
}
