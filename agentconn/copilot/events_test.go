package copilot

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"nod/agentconn"
	"nod/state"
	"nod/state/snapshot"
)

const said = `{"messageId":"m1","content":"hello","delivery":"idle"}`

// inTurn has a session with a turn in it.
func inTurn(t *testing.T) *stage {
	s := newStage(t)
	s.join()
	s.tell(event1(1, "user.message", said), event1(1, "assistant.turn_start", `{"turnId":"0"}`))
	return s
}

// join opens the session "s" on the stage's link.
func (s *stage) join() {
	s.t.Helper()
	s.id = "s"
	s.conn.enter(s.id)
	if err := s.conn.begin(s.id, &state.SessionSummary{Resource: uriOf(s.id), Provider: s.conn.room.provider, Status: state.StatusIdle}, []byte(`{}`)); err != nil {
		s.t.Fatal(err)
	}
	s.conn.sessions[s.id].caughtUp(s.t.Context())
}

// tell has the server say events of the session.
func (s *stage) tell(events ...string) {
	s.t.Helper()
	for _, e := range events {
		s.in(json.RawMessage(`{"method":"session.event","params":{"sessionId":"s","event":` + e + `}}`))
	}
}

// of makes an event one of a sub-agent.
func of(agent, e string) string { return `{"agentId":"` + agent + `",` + e[1:] }

// parts are those of all turns that nothing stands for.
func parts(v snapshot.Session) (out []state.ResponsePart) {
	for n := range snapshot.TurnCount(v.State) {
		for i := range snapshot.PartCount(v.State, n) {
			if !snapshot.Superseded(v.State, n, i) {
				out = append(out, snapshot.PartAt(v.State, n, i))
			}
		}
	}
	return out
}

// notes are the sentences of a session; a warning has a mark.
func notes(v snapshot.Session) string {
	var out []string
	for _, p := range parts(v) {
		if n, ok := p.(*state.NotificationPart); ok {
			mark := ""
			if n.Meta["nod.level"] != nil {
				mark = "! "
			}
			out = append(out, mark+n.Content.Text)
		}
	}
	return strings.Join(out, " | ")
}

// call returns a call of a session.
func (s *stage) call(v snapshot.Session, id string) (c state.ToolCall) {
	s.t.Helper()
	for _, p := range parts(v) {
		if p, ok := p.(*state.ToolCallPart); ok && p.ToolCall.ToolCallID == id {
			return p.ToolCall
		}
	}
	s.t.Fatalf("there is no call %s", id)
	return c
}

// command is what the terminal of a call shows.
func (s *stage) command(v snapshot.Session, id string) string {
	s.t.Helper()
	for _, x := range s.call(v, id).Content {
		if x.Type == state.ContentTerminal {
			cmd, exit := v.Terminals.Get(*x.Resource).Command(), "?"
			if cmd.ExitCode != nil {
				exit = fmt.Sprint(*cmd.ExitCode)
			}
			return fmt.Sprintf("%s%v %s", cmd.Output.String(), cmd.IsComplete, exit)
		}
	}
	return "none"
}

// TestNews says what each event is told as. "" is nothing.
func TestNews(t *testing.T) {
	for _, c := range []struct{ event, data, want string }{
		{"session.info", `{"infoType":"mcp","message":"a server is there","tip":"use it","url":"https://x"}`, "a server is there\nuse it\nhttps://x"},
		{"session.info", `{"infoType":"warning","message":"mind the gap"}`, "! mind the gap"},
		{"session.info", `{"infoType":"file_created","message":"/w/a"}`, ""},
		{"session.info", `{"infoType":"model_retry","message":"again"}`, ""},
		{"session.warning", `{"warningType":"policy","message":"not allowed","url":"https://y"}`, "! not allowed\nhttps://y"},
		{"session.truncation", `{"tokenLimit":1,"messagesRemovedDuringTruncation":4}`, "! The conversation is longer than the model can read, so it does not read 4 of the oldest messages."},
		{"session.truncation", `{"tokenLimit":1,"messagesRemovedDuringTruncation":0}`, ""},
		{"session.context_cleared", `{"messagesCleared":3}`, "The conversation was cleared: the model does not know what is above this."},
		{"session.snapshot_rewind", `{"upToEventId":"e","eventsRemoved":3}`, "! This session was taken back to an earlier point in another client. What is shown here still has what was taken back."},
		{"session.compaction_complete", `{"success":true,"preCompactionTokens":9000,"postCompactionTokens":200}`, "Copilot has summed up the conversation: 200 tokens were 9000."},
		{"session.compaction_complete", `{"success":true}`, "Copilot has summed up the conversation."},
		{"session.compaction_complete", `{"success":false,"error":"no model"}`, "! Copilot could not sum up the conversation: no model"},
		{"session.handoff", `{"handoffTime":"2026-01-01T00:00:00Z","sourceType":"remote","repository":{"owner":"o","name":"n","branch":"b"},"summary":"half done"}`, "This session goes on with one that was remote (o/n, b).\nhalf done"},
		{"session.remote_steerable_changed", `{"remoteSteerable":true}`, "! This session can be steered from GitHub, too."},
		{"session.remote_steerable_changed", `{"remoteSteerable":false}`, "This session can no longer be steered from GitHub."},
		{"session.plan_changed", `{"operation":"create"}`, "Copilot has made the plan of this session."},
		{"session.workspace_file_changed", `{"path":"files/a.md","operation":"update"}`, "Copilot has changed a file of the session's own: files/a.md"},
		{"session.session_limits_changed", `{"sessionLimits":{"maxAiCredits":12.5}}`, "This session may use 12.5 AI credits."},
		{"session.session_limits_changed", `{"sessionLimits":null}`, "This session has no limit of AI credits."},
		{"session.schedule_created", `{"id":3,"intervalMs":300000,"prompt":"look again"}`, "Scheduled (number 3), every 5m0s: look again"},
		{"session.schedule_created", `{"id":4,"cron":"0 9 * * *","prompt":"x","displayPrompt":"the news"}`, "Scheduled (number 4), at “0 9 * * *”: the news"},
		{"session.schedule_created", `{"id":5,"at":1767225600000,"prompt":"wake up"}`, "Scheduled (number 5), on 1 January at 00:00 UTC: wake up"},
		{"session.schedule_created", `{"id":6,"selfPaced":true,"prompt":"x"}`, "Scheduled (number 6), when Copilot thinks that it is time: x"},
		{"session.schedule_cancelled", `{"id":3}`, "What was scheduled as number 3 is cancelled."},
		{"session.autopilot_objective_changed", `{"operation":"update","status":"paused"}`, "The objective of autopilot was changed (paused)."},
		{"session.autopilot_objective_changed", `{"operation":"update","status":"cap_reached"}`, "! Autopilot has reached the limit of its objective."},
		{"session.autopilot_stopped", `{"reason":"background_timeout"}`, "! Autopilot has stopped (background timeout)."},
		{"session.autopilot_stopped", `{"reason":"task_complete"}`, ""},
		{"session.task_complete", `{"success":false,"outcome":"blocked","reason":"no_access"}`, "! Copilot says that the task is not done (blocked): no access"},
		{"session.permission_recovery", `{"episodeId":"e","status":"blocked","reason":"responder_unavailable"}`, "! Autopilot cannot go on without an approval (responder unavailable)."},
		{"session.permission_recovery", `{"episodeId":"e","status":"resolved","reason":"permission_approved"}`, ""},
		{"session.managed_settings_enforced", `{"action":"bypass_permissions_blocked","message":"Your company says no."}`, "! Your company says no."},
		{"session.model_deselected", `{"previousModel":"m-1","reason":"provider_withdrawn"}`, "! The model “m-1” is not there any more. Copilot chooses another one for the next turn."},
		{"session.model_change", `{"previousModel":"a","newModel":"b","cause":"rate_limit_auto_switch"}`, "! Another model answers: b in place of a (rate limit auto switch)."},
		{"session.model_change", `{"previousModel":"a","newModel":"b"}`, ""},
		{"session.auto_mode_resolved", `{"chosenModel":"b","fallback":true,"fallbackReason":"no_answer"}`, "Auto could not choose a model (no answer), so b answers."},
		{"session.auto_mode_resolved", `{"chosenModel":"b"}`, ""},
		{"session.auto_tier_switch_failed", `{"reason":"not_available","requestedAutoTier":"x"}`, "! Copilot could not change what Auto prefers (not available). It stays as it was."},
		{"session.fusion_route_failed", `{"reason":"timeout","fallbackModel":"b"}`, "! Copilot could not choose models for this (timeout), so b answers."},
		{"session.fusion_completed", `{"degradedReason":"one_failed"}`, "! Not all models have taken part in this answer (one failed)."},
		{"session.fusion_completed", `{"degradedReason":null}`, ""},
		{"assistant.fusion_phase_failed", `{"role":"judge","model":"b","reason":"timeout"}`, "! b could not do its part (judge): timeout"},
		{"session.custom_agents_updated", `{"agents":[],"errors":["a.md has no name"],"warnings":["b.md is long"]}`, "! A custom agent: a.md has no name | ! A custom agent: b.md is long"},
		{"session.mcp_servers_loaded", `{"servers":[{"name":"a","status":"connected"},{"name":"b","status":"failed","error":"no such file"},{"name":"c","status":"needs-auth"}]}`, "! The MCP server “b” did not start: no such file | ! The MCP server “c” wants a login. Log in to it in a terminal: copilot, then /mcp."},
		{"session.mcp_server_status_changed", `{"serverName":"b","status":"failed"}`, "! The MCP server “b” did not start"},
		{"session.mcp_server_status_changed", `{"serverName":"b","status":"pending"}`, ""},
		{"session.mcp_server_needs_reconnect", `{"serverName":"b"}`, "! The connection to the MCP server “b” is lost. Copilot makes it anew when it needs it."},
		{"session.mcp_server_removed", `{"serverName":"b"}`, "The MCP server “b” was removed."},
		{"mcp.oauth_recovery_completed", `{"serverName":"b","outcome":"failed"}`, "! The login to the MCP server “b” has ended without success (failed)."},
		{"mcp.oauth_recovery_completed", `{"serverName":"b","outcome":"succeeded"}`, ""},
		{"session.extensions_loaded", `{"extensions":[{"id":"x","name":"x","status":"failed"},{"id":"y","name":"y","status":"running"}]}`, "! The extension “x” did not start."},
		{"session.extensions.attachments_pushed", `{"attachments":[{"type":"file","path":"/w/a.txt"}]}`, "An extension adds to the next message in its own client: a.txt"},
		{"session.canvas.opened", `{"canvasId":"c","title":"A board","url":"http://127.0.0.1:1/"}`, "Copilot has opened “A board” in its own client, which nod does not show.\nhttp://127.0.0.1:1/"},
		{"mcp_app.tool_call_complete", `{"serverName":"a","toolName":"t","success":true}`, "An app of the MCP server “a” has called its tool “t”."},
		{"mcp_app.tool_call_complete", `{"serverName":"a","toolName":"t","success":false,"error":{"message":"broken"}}`, "! An app of the MCP server “a” has called its tool “t”, which failed: broken"},
		{"subagent.selected", `{"agentName":"r","agentDisplayName":"Reviewer","tools":null}`, "The agent “Reviewer” answers from here on."},
		{"subagent.deselected", `{}`, "Copilot's own agent answers again."},
		{"skill.invoked", `{"name":"pdf","path":"/p","content":"SECRET","trigger":"user-invoked"}`, "The skill “pdf” is used."},
		{"skill.invoked", `{"name":"pdf","path":"/p","content":"SECRET","trigger":"agent-invoked"}`, ""},
		{"hook.end", `{"hookInvocationId":"h","hookType":"preToolUse","success":true}`, ""},
		{"hook.end", `{"hookInvocationId":"h","hookType":"preToolUse","success":true,"output":{"permissionDecision":"deny","permissionDecisionReason":"not on Fridays"}}`, "Hook pre tool use: deny\nnot on Fridays"},
		{"hook.end", `{"hookInvocationId":"h","hookType":"agentStop","success":true,"output":{"decision":"block","reason":"tests fail"}}`, "Hook agent stop: block\ntests fail"},
		{"hook.end", `{"hookInvocationId":"h","hookType":"preToolUse","success":false,"error":{"message":"exit 1","source":"lint"}}`, "! Hook pre tool use failed (lint): exit 1"},
		{"sandbox.decision", `{"kind":"enforcement_state","control":"process","outcome":"inactive"}`, ""},
		{"sandbox.decision", `{"kind":"access_denied","control":"process","denialClass":"file_write"}`, "! The sandbox has denied something (process, file write)."},
		{"factory.run_started", `{"runId":"1","factoryName":"build","attempt":1}`, "“build” has begun to run."},
		{"factory.run_settled", `{"runId":"1","status":"completed"}`, "The run has ended (completed)."},
		{"workflow.run_started", `{"runId":"1","workflowName":"ship","attempt":1}`, "“ship” has begun to run."},
		{"workflow.run_settled", `{"runId":"1","status":"error","failureType":"limit"}`, "! The run has ended (error, limit)."},
		{"system.notification", `{"content":"x","kind":{"type":"new_inbox_message","senderName":"a hook","summary":"read this"}}`, "A message of “a hook” has come: read this"},
		{"system.notification", `{"content":"x","kind":{"type":"instruction_discovered","sourcePath":"a/AGENTS.md"}}`, "Copilot follows the instructions that it has found: a/AGENTS.md"},
		{"system.notification", `{"content":"x","kind":{"type":"agent_completed","agentId":"z","status":"failed","description":"look"}}`, "! A sub-agent in the background has failed: look"},
		{"system.notification", `{"content":"x","kind":{"type":"unclassified"}}`, ""},
		{"session.permissions_changed", `{"previousMode":"manual","mode":"allow-all"}`, "! From here on Copilot asks for no approval in this session: somebody has allowed everything."},
		{"session.permissions_changed", `{"previousAllowAllPermissions":false,"allowAllPermissions":true}`, "! From here on Copilot asks for no approval in this session: somebody has allowed everything."},
		{"session.permissions_changed", `{"previousMode":"manual","mode":"assisted"}`, ""},
		{"abort", `{"reason":"autopilot_credit_limit"}`, "! Copilot has stopped this turn: autopilot credit limit."},
	} {
		s := inTurn(t)
		s.tell(event1(9, c.event, c.data))
		if got := notes(s.view()); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.event, c.data, got, c.want)
		}
	}
}

// TestToldOnce: what Copilot says whenever it loads something is told once, and waits
// for a turn.
func TestToldOnce(t *testing.T) {
	s := newStage(t)
	s.join()
	const failed = `{"servers":[{"name":"b","status":"failed"}]}`
	s.tell(event1(1, "session.mcp_servers_loaded", failed), event1(2, "session.mcp_servers_loaded", failed), event1(1, "user.message", said),
		event1(3, "session.mcp_servers_loaded", failed))
	if got := notes(s.view()); got != "! The MCP server “b” did not start" {
		t.Errorf("%q", got)
	}
}

// TestActivity says what is shown while something goes on.
func TestActivity(t *testing.T) {
	for _, c := range []struct{ event, data, want string }{
		{"assistant.intent", `{"intent":"Reading the code"}`, "Reading the code"},
		{"assistant.turn_retry", `{"turnId":"0","reason":"server_error"}`, "The answer broke off (server error), so Copilot asks the model again"},
		{"assistant.tool_call_delta", `{"toolCallId":"c","toolName":"create","inputDelta":"{"}`, "The model writes a call of create"},
		{"assistant.server_tool_progress", `{"outputIndex":0,"kind":"web_search","status":"searching"}`, "The model's provider runs a tool: web search, searching"},
		{"session.compaction_start", `{"currentTokens":1}`, "Copilot sums up the conversation to make room"},
		{"session.fusion_route_started", `{"attemptId":"a"}`, "Copilot chooses the models that answer"},
		{"assistant.fusion_phase_started", `{"model":"b","role":"judge"}`, "b works on this (judge)"},
		{"hook.progress", `{"message":"linting"}`, "linting"},
		{"session.managed_plugin_progress", `{"phase":"installing","pluginSpecs":["a","b"]}`, "Prepares plugins of the organization: a, b"},
	} {
		s := inTurn(t)
		s.tell(event1(9, c.event, c.data))
		if got := state.Value(s.view().State.Summary.Activity); got != c.want {
			t.Errorf("%s: %q", c.event, got)
		}
		s.tell(event1(9, "assistant.turn_start", `{"turnId":"1"}`))
		if got := s.view().State.Summary.Activity; got != nil {
			t.Errorf("%s: %q is shown after it", c.event, *got)
		}
	}
}

// TestInForce: what is in force shows in the session.
func TestInForce(t *testing.T) {
	s := inTurn(t)
	now := func() (string, map[string]string) {
		st := s.view().State
		return state.Value(st.Summary.Model).ID, s.conn.sessions["s"].config
	}
	s.tell(event1(1, "session.start", `{"selectedModel":"a","reasoningEffort":"low","context":{"cwd":"/w","branch":"main"}}`))
	if model, config := now(); model != "a" || config[settingEffort] != "low" {
		t.Errorf("%s %v", model, config)
	}
	s.tell(event1(1, "session.model_change", `{"previousModel":"a","newModel":"b","reasoningEffort":"high"}`), event1(1, "session.mode_changed", `{"previousMode":"interactive","newMode":"plan"}`),
		event1(1, "session.permissions_changed", `{"previousMode":"manual","mode":"assisted"}`))
	if model, config := now(); model != "b" || config[settingEffort] != "high" || config[settingMode] != "plan" || config[settingPermissions] != "assisted" {
		t.Errorf("%s %v", model, config)
	}
	s.tell(event1(1, "session.context_changed", `{"cwd":"/w","branch":"main"}`), event1(2, "session.context_changed", `{"cwd":"/x","branch":"fix"}`))
	if got, want := notes(s.view()), "Copilot works in /x from here on. | The folder is on the branch “fix” from here on."; got != want {
		t.Errorf("%q", got)
	}
}

// TestTitles: Copilot's first title is made of the first message, as nod's is; a later
// one is a title that somebody has chosen. One that a person has given stays when the
// same is told again.
func TestTitles(t *testing.T) {
	s := inTurn(t)
	title := func() string { return s.view().State.Summary.Title }
	s.tell(event1(1, "session.title_changed", `{"title":"hello, you"}`))
	if title() != "hello" {
		t.Errorf("%q", title())
	}
	s.tell(event1(2, "session.title_changed", `{"title":"A name"}`))
	if title() != "A name" {
		t.Errorf("%q", title())
	}
	if err := s.hub.Rename(t.Context(), "s", "Mine"); err != nil {
		t.Fatal(err)
	}
	s.tell(event1(3, "session.title_changed", `{"title":"A name"}`))
	s.join() // as after a restart
	if title() != "Mine" {
		t.Errorf("%q", title())
	}
	s.tell(event1(5, "session.title_changed", `{"title":"Another"}`))
	if title() != "Another" {
		t.Errorf("%q", title())
	}
}

// TestQuota is told when it is nearly used up, and once.
func TestQuota(t *testing.T) {
	usage := func(left float64) string {
		return fmt.Sprintf(`{"model":"m","inputTokens":1,"quotaSnapshots":{"premium_interactions":{"isUnlimitedEntitlement":false,"entitlementRequests":300,"usedRequests":1,"remainingPercentage":%v,"resetDate":"2026-02-01T00:00:00Z"},"chat":{"isUnlimitedEntitlement":true,"entitlementRequests":-1,"remainingPercentage":0}}}`, left)
	}
	s := inTurn(t)
	s.tell(event1(1, "assistant.usage", usage(50)))
	if got := notes(s.view()); got != "" {
		t.Errorf("%q", got)
	}
	s.tell(event1(2, "assistant.usage", usage(9)), event1(3, "assistant.usage", usage(8)), event1(4, "assistant.usage", usage(0)))
	const want = "! 90 % or more is used of the quota of premium interactions. It begins anew on 1 February at 00:00 UTC. | ! All is used of the quota of premium interactions. It begins anew on 1 February at 00:00 UTC."
	if got := notes(s.view()); got != want {
		t.Errorf("%q", got)
	}
	s.tell(event1(5, "session.quota_observation", `{"observation":{"quotaId":"credits","capacityState":"exhausted"}}`),
		event1(6, "session.quota_observation", `{"observation":{"quotaId":"tokens","capacityState":"available","budgetMetadata":{"unlimited":false,"entitlement":10,"remainingPercentage":0,"usageAllowedWhenExhausted":true}}}`))
	if got := strings.TrimPrefix(notes(s.view()), want); got != " | ! All is used of the quota of credits. | ! All is used of the quota of tokens, and what comes is paid for." {
		t.Errorf("%q", got)
	}
}

// TestTodos are asked for when they have changed.
func TestTodos(t *testing.T) {
	s := inTurn(t)
	var asked []string
	s.conn.room.todos = func(id string) { asked = append(asked, id) }
	s.tell(event1(1, "session.todos_changed", `{}`))
	s.conn.sessions["s"].catchUp()
	s.conn.sessions["s"].take(t.Context(), event{ID: "x", Type: "session.todos_changed"})
	s.conn.sessions["s"].take(t.Context(), event{ID: "y", Type: "session.todos_changed"})
	s.conn.sessions["s"].caughtUp(t.Context())
	if strings.Join(asked, " ") != "s s" {
		t.Errorf("asked for %q", asked)
	}
	if err := s.conn.planned("s", []byte(`{"rows":[{"id":"a","title":"Read","status":"done"},{"id":"b","description":"Write","status":"in_progress"},{"id":"c","status":"blocked"}]}`)); err != nil {
		t.Fatal(err)
	}
	const want = `[{"step":"Read","status":"completed"},{"step":"Write","status":"inProgress"},{"step":"c","status":"pending"}]`
	if got := string(s.view().State.Meta["nod.plan"]); got != want {
		t.Error(got)
	}
}

// TestShutdown: what a session has come to is kept, and what runs is dropped, unless
// it waits for a person.
func TestShutdown(t *testing.T) {
	const totals = `{"shutdownType":"error","errorReason":"out of memory","totalPremiumRequests":2,"codeChanges":{"linesAdded":7,"linesRemoved":1,"filesModified":["a","b"]}}`
	s := inTurn(t)
	s.tell(event1(1, "session.shutdown", totals))
	v := s.view()
	if got := string(v.State.Meta["nod.totals"]); got != `{"added":7,"removed":1,"files":2,"requests":2}` {
		t.Error(got)
	}
	if v.State.ActiveTurn != nil || v.State.Turns[0].State != state.TurnCancelled || !strings.HasPrefix(notes(v), "! Copilot has closed this session because of an error: out of memory | ! Copilot was left by its last client in the middle of this, and has dropped it.") {
		t.Errorf("%q", notes(v))
	}
	s = inTurn(t)
	s.tell(event1(1, "assistant.turn_end", `{"turnId":"0"}`), event1(1, "session.shutdown", totals))
	if v := s.view(); v.State.ActiveTurn != nil || v.State.Turns[0].State != state.TurnComplete {
		t.Errorf("%+v", v.State)
	}
	s = inTurn(t)
	s.tell(event1(1, "permission.requested", asksToRun), event1(1, "session.shutdown", totals))
	if v := s.view(); v.State.ActiveTurn == nil || !v.Approvals[0].Open() {
		t.Errorf("%+v", v.State)
	}
}

// ---- streams ----

func delta(n int, id, text string) string {
	return event1(n, "assistant.message_delta", fmt.Sprintf(`{"messageId":%q,"deltaContent":%q}`, id, text))
}

func message1(n int, id, text string) string {
	return event1(n, "assistant.message", fmt.Sprintf(`{"messageId":%q,"content":%q}`, id, text))
}

// TestStream: deltas grow, the whole message is the truth, a retry makes what was
// streamed void, and the end of a turn closes what is open.
func TestStream(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"whole":         {[]string{delta(1, "a", "one "), delta(2, "a", "two"), message1(3, "a", "one two")}, "one two|"},
		"longer":        {[]string{delta(1, "a", "one "), message1(3, "a", "one two")}, "one two|"},
		"another":       {[]string{delta(1, "a", "one "), message1(3, "a", "two")}, "two|"},
		"shorter":       {[]string{delta(1, "a", "one two"), message1(3, "a", "one")}, "one|"},
		"empty":         {[]string{message1(3, "a", "")}, ""},
		"told twice":    {[]string{delta(1, "a", "one "), delta(1, "a", "one "), message1(3, "a", "one "), message1(3, "a", "one ")}, "one |"},
		"late delta":    {[]string{message1(3, "a", "one"), delta(1, "a", " two")}, "one|"},
		"retry":         {[]string{delta(1, "a", "half"), event1(1, "assistant.turn_retry", `{"turnId":"0","reason":"x"}`), delta(2, "b", "who"), message1(3, "b", "whole")}, "whole|"},
		"retry, whole":  {[]string{message1(1, "a", "kept"), event1(1, "assistant.turn_retry", `{"turnId":"0"}`), message1(3, "b", "and this")}, "kept|and this|"},
		"chunks":        {[]string{event1(1, "assistant.message", `{"messageId":"a","content":"one","chunkIndex":0,"chunkCount":2}`), event1(2, "assistant.message", `{"messageId":"a","content":"two","chunkIndex":1,"chunkCount":2}`)}, "one|two|"},
		"own chunks":    {[]string{delta(1, "a", "onetwo"), event1(1, "assistant.message", `{"messageId":"a","content":"one","chunkIndex":0,"chunkCount":2}`), event1(2, "assistant.message", `{"messageId":"b","content":"two","chunkIndex":1,"chunkCount":2}`)}, "one|two|"},
		"abort":         {[]string{delta(1, "a", "half"), event1(1, "abort", `{"reason":"user_initiated"}`), event1(1, "session.idle", `{"aborted":true}`)}, "half|"},
		"after the end": {[]string{event1(1, "session.idle", `{}`), delta(1, "a", "lost")}, ""},
	} {
		s := inTurn(t)
		s.tell(c.events...)
		if got := shown(s.view()); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestPhase of an answer is known before it is streamed.
func TestPhase(t *testing.T) {
	s := inTurn(t)
	s.tell(event1(1, "assistant.message_start", `{"messageId":"a","phase":"commentary"}`), delta(1, "a", "I look."), message1(1, "a", "I look."),
		event1(2, "assistant.message", `{"messageId":"b","content":"Done.","phase":"final_answer"}`))
	ps := parts(s.view())
	if got := string(ps[0].(*state.MarkdownPart).Meta["nod.phase"]) + string(ps[1].(*state.MarkdownPart).Meta["nod.phase"]); got != `"commentary""final_answer"` {
		t.Error(got)
	}
}

// TestResent: of more than ten thousand events of a turn the CLI sends some again, in
// any distance. Nothing shows twice.
func TestResent(t *testing.T) {
	s := inTurn(t)
	var want strings.Builder
	var events []string
	for n := range 12_000 {
		word := fmt.Sprintf("w%d ", n)
		want.WriteString(word)
		events = append(events, delta(n, "a", word), event1(n, "assistant.streaming_delta", `{"totalResponseSizeBytes":1}`))
	}
	told := 0
	for i, e := range events {
		s.tell(e)
		told++
		for _, distance := range []int{1, 700, 10_000, 20_001} { // an even one is of a delta
			if i%5 == 0 && i >= distance {
				s.tell(events[i-distance])
				told++
			}
		}
	}
	if told < 30_000 {
		t.Fatalf("only %d events", told)
	}
	if got := shown(s.view()); got != want.String()+"|" {
		t.Errorf("%d bytes are shown, %d were said", len(got)-1, want.Len())
	}
	s.tell(message1(1, "a", want.String()), event1(1, "session.idle", `{}`))
	if got := shown(s.view()); got != want.String()+"|" {
		t.Errorf("%d bytes are shown at the end", len(got)-1)
	}
}

// TestByItself: a message that Copilot says by itself begins a turn; an autopilot goes
// on by a message that nobody has written; a skill's is for the model.
func TestByItself(t *testing.T) {
	s := inTurn(t)
	s.tell(event1(1, "session.idle", `{}`),
		event1(1, "assistant.message", `{"messageId":"a","content":"","toolRequests":[{"toolCallId":"c","name":"read_bash"}]}`),
		event1(1, "tool.execution_start", `{"toolCallId":"c","toolName":"read_bash","arguments":{"shellId":"0"}}`),
		event1(1, "tool.execution_complete", `{"toolCallId":"c","success":true,"result":{"content":"x"}}`),
		event1(2, "session.idle", `{}`),
		event1(2, "user.message", `{"messageId":"m2","content":"go on","delivery":"idle","isAutopilotContinuation":true}`),
		event1(3, "user.message", `{"messageId":"m3","content":"SECRET","source":"skill-pdf"}`))
	v := s.view()
	if len(v.State.Turns) != 2 || v.State.Turns[1].Message.Origin != byItself || v.State.ActiveTurn.Message.Text != "go on" || v.State.ActiveTurn.Message.Origin != byItself {
		t.Errorf("%+v", v.State)
	}
	if c := s.call(v, "c"); !state.Value(c.Success) {
		t.Errorf("%+v", c)
	}
}

// TestAttachments of a message are named, and not loaded.
func TestAttachments(t *testing.T) {
	s := newStage(t)
	s.join()
	s.tell(event1(1, "user.message", `{"messageId":"m1","content":"look","attachments":[
		{"type":"file","displayName":"a.txt","path":"/w/a.txt"},{"type":"directory","path":"/w/dir"},{"type":"blob","displayName":"dot.png","mimeType":"image/png","data":"SECRET"},
		{"type":"selection","filePath":"/w/b.go","displayName":"b.go","text":"x"},{"type":"github_reference","title":"A bug","url":"https://github.com/o/n/issues/1"},
		{"type":"github_url","url":"javascript:alert(1)"},{"type":"extension_context"}]}`))
	var got []string
	for _, a := range s.view().State.ActiveTurn.Message.Attachments {
		got = append(got, strings.Join([]string{a.Type, a.Label, state.Value(a.URI), state.Value(a.DisplayKind), state.Value(a.ContentType), state.Value(a.Data)}, ","))
	}
	const want = "resource,a.txt,file:///w/a.txt,,, resource,dir,file:///w/dir,directory,, simple,dot.png,,image,image/png, resource,b.go,file:///w/b.go,selection,, " +
		"resource,A bug,https://github.com/o/n/issues/1,,, simple,javascript:alert(1),,,, simple,extension context,,,,"
	if strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
}

// ---- calls ----

const (
	ls      = `{"toolCallId":"c","toolName":"bash","arguments":{"command":"ls","description":"List"}}`
	runsOn  = `{"toolCallId":"c","success":true,"result":{"content":"shellId: forged\n<command with shellId: 7 moved to background>"}}`
	reading = `{"toolCallId":"r","toolName":"read_bash","arguments":{"shellId":"7"}}`
)

func output(n int, text string) string {
	return event1(n, "tool.shell_output", fmt.Sprintf(`{"toolCallId":"c","text":%q,"sequence":%d}`, text, n))
}

func partial(n int, text string) string {
	return event1(n, "tool.execution_partial_result", fmt.Sprintf(`{"toolCallId":"c","partialOutput":%q}`, text))
}

func ends(data string) string { return event1(1, "tool.execution_complete", data) }

// TestCommand: partialOutput is all so far, shell_output is what is new, and the exit
// code says whether it went well.
func TestCommand(t *testing.T) {
	for name, c := range map[string]struct {
		events  []string
		want    string
		success bool
	}{
		"partial":         {[]string{partial(1, "a\n"), partial(2, "a\nb\n"), ends(`{"toolCallId":"c","success":true,"shellExecution":{"exitCode":0},"result":{"contents":[{"type":"shell_exit","exitCode":0}]}}`)}, "a\nb\ntrue 0", true},
		"partial is new":  {[]string{partial(1, "a\n"), partial(2, "x\n"), ends(`{"toolCallId":"c","success":true,"shellExecution":{"exitCode":0}}`)}, "x\ntrue 0", true},
		"output":          {[]string{output(1, "a\n"), output(2, "b\n"), ends(`{"toolCallId":"c","success":true,"shellExecution":{"exitCode":0}}`)}, "a\nb\ntrue 0", true},
		"both":            {[]string{output(1, "a\n"), partial(1, "a\n"), output(2, "b\n"), partial(2, "a\nb\n"), partial(3, "a\nb\n"), ends(`{"toolCallId":"c","success":true,"shellExecution":{"exitCode":0}}`)}, "a\nb\ntrue 0", true},
		"partial lags":    {[]string{output(1, "a\n"), output(2, "b\n"), partial(1, "a\n"), ends(`{"toolCallId":"c","success":true,"shellExecution":{"exitCode":0}}`)}, "a\nb\ntrue 0", true},
		"fails":           {[]string{output(1, "no\n"), ends(`{"toolCallId":"c","success":true,"shellExecution":{"exitCode":3}}`)}, "no\ntrue 3", false},
		"only a preview":  {[]string{ends(`{"toolCallId":"c","success":true,"result":{"content":"a note","contents":[{"type":"shell_exit","shellId":"0","exitCode":2,"outputPreview":"seen\n"}]}}`)}, "seen\ntrue 2", false},
		"killed":          {[]string{output(1, "a\n"), ends(`{"toolCallId":"c","success":true,"shellExecution":{}}`)}, "a\ntrue ?", true},
		"never ran":       {[]string{ends(`{"toolCallId":"c","success":false,"error":{"message":"no","code":"denied"}}`)}, "none", false},
		"in background":   {[]string{output(1, "a\n"), ends(runsOn), output(2, "b\n")}, "a\nb\nfalse ?", true},
		"ends later":      {[]string{output(1, "a\n"), ends(runsOn), output(2, "b\n"), event1(1, "system.notification", `{"kind":{"type":"shell_completed","shellId":"7","exitCode":4}}`)}, "a\nb\ntrue 4", true},
		"ends detached":   {[]string{ends(runsOn), event1(1, "system.notification", `{"kind":{"type":"shell_detached_completed","shellId":"7"}}`)}, "true ?", true},
		"is another one":  {[]string{ends(runsOn), event1(1, "system.notification", `{"kind":{"type":"shell_completed","shellId":"8","exitCode":4}}`)}, "false ?", true},
		"is read":         {[]string{ends(runsOn), event1(2, "tool.execution_start", reading), event1(2, "tool.execution_complete", `{"toolCallId":"r","success":true,"result":{"content":"x","contents":[{"type":"shell_exit","shellId":"7","exitCode":5}]}}`)}, "true 5", true},
		"is stopped":      {[]string{ends(runsOn), event1(2, "tool.execution_start", strings.Replace(reading, "read_bash", "stop_bash", 1)), event1(2, "tool.execution_complete", `{"toolCallId":"r","success":true,"result":{"content":"<command with id: 7 stopped>"}}`)}, "true ?", true},
		"after its turn":  {[]string{output(1, "a\n"), ends(runsOn), event1(1, "session.idle", `{}`), event1(2, "user.message", `{"messageId":"m2","content":"x"}`), output(2, "b\n"), event1(1, "system.notification", `{"kind":{"type":"shell_completed","shellId":"7","exitCode":0}}`)}, "a\nb\ntrue 0", true},
		"cut by an abort": {[]string{output(1, "a\n"), event1(1, "abort", `{"reason":"user_initiated"}`)}, "a\ntrue ?", false},
	} {
		s := inTurn(t)
		s.tell(event1(1, "tool.execution_start", ls))
		s.tell(c.events...)
		v := s.view()
		if got := s.command(v, "c"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
		if got := state.Value(s.call(v, "c").Success); got != c.success {
			t.Errorf("%s: success is %v", name, got)
		}
	}
}

// TestResults: what is no text has a name, and a diff is shown as what was changed.
func TestResults(t *testing.T) {
	const start = `{"toolCallId":"c","toolName":%q,"arguments":%s}`
	for name, c := range map[string]struct{ tool, arguments, result, input, content string }{
		"text":       {"lookup", `{"a":1}`, `{"content":"short","detailedContent":"long"}`, "{\n  \"a\": 1\n}", "long"},
		"blocks":     {"lookup", `{}`, `{"content":"","contents":[{"type":"text","text":"hi"},{"type":"image","mimeType":"image/png","data":"SECRET"},{"type":"resource_link","name":"n","title":"A page","uri":"x://y"},{"type":"resource","resource":{"uri":"x://z","mimeType":"text/plain","text":"inside"}},{"type":"resource","resource":{"uri":"x://b","blob":"SECRET"}}]}`, "", "hi\n[image image/png]\n[resource_link A page x://y]\ninside\n[resource x://b]"},
		"image":      {"view", `{"path":"/w/a.png"}`, `{"content":"Viewed an image","binaryResultsForLlm":[{"type":"image","mimeType":"image/png","data":"SECRET","description":"a.png"}]}`, "", "Viewed an image\n[image image/png a.png]"},
		"no changes": {"view", `{"path":"/w/a"}`, `{"content":"it\n","detailedContent":"\ndiff --git a/w/a b/w/a\n--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n it\n"}`, "", "it\n"},
		"an edit":    {"edit", `{"path":"/w/a","old_str":"a\nb","new_str":"c"}`, `{"content":"ok"}`, "--- /w/a\n+++ /w/a\n@@\n-a\n-b\n+c\n", "ok"},
		"inserted":   {"insert", `{"path":"/w/a","insert_line":4,"new_str":"c\n"}`, `{"content":"ok"}`, "--- /w/a\n+++ /w/a\n@@ -4,0 +5,1 @@\n+c\n", "ok"},
		"a new file": {"create", `{"path":"/w/a\n+++ /w/b","file_text":"a\nb\n"}`, `{"content":"ok"}`, "--- /dev/null\n+++ /w/a␊+++ /w/b\n@@ -0,0 +1,2 @@\n+a\n+b\n", "ok"},
		"what it was": {"edit", `{"path":"/w/a","old_str":"a","new_str":"c"}`, `{"content":"ok","detailedContent":"\ndiff --git a/w/a b/w/a\n--- a/w/a\n+++ b/dev/null\n@@ -9 +0,0 @@\n-a\n"}`,
			"diff --git a/w/a b/w/a\n--- a/w/a\n+++ /dev/null\n@@ -9 +0,0 @@\n-a\n", ""},
		"a quote": {"lookup", `{"a":1}`, `{"content":"--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n"}`, "{\n  \"a\": 1\n}", "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n"},
	} {
		s := inTurn(t)
		s.tell(event1(1, "tool.execution_start", fmt.Sprintf(start, c.tool, c.arguments)), ends(`{"toolCallId":"c","success":true,"result":`+c.result+`}`))
		got := s.call(s.view(), "c")
		content := ""
		if len(got.Content) > 0 {
			content = state.Value(got.Content[0].Text)
		}
		if state.Value(got.ToolInput) != c.input || content != c.content {
			t.Errorf("%s: %q and %q", name, state.Value(got.ToolInput), content)
		}
	}
}

// TestUserRan: a command that a person runs in another client is a turn of its own, or
// part of the one in progress.
func TestUserRan(t *testing.T) {
	s := newStage(t)
	s.join()
	run := []string{event1(1, "tool.user_requested", ls), event1(1, "tool.execution_start", ls), ends(`{"toolCallId":"c","success":true,"isUserRequested":true,"shellExecution":{"exitCode":0}}`)}
	s.tell(run...)
	if v := s.view(); len(v.State.Turns) != 1 || v.State.ActiveTurn != nil || v.State.Turns[0].Message.Text != "ls" || s.command(v, "c") != "true 0" {
		t.Errorf("%+v", v.State)
	}
	s = inTurn(t)
	s.tell(run...)
	if v := s.view(); v.State.ActiveTurn == nil || s.command(v, "c") != "true 0" {
		t.Errorf("%+v", v.State)
	}
}

// TestTaskDone: what the model says at the end of a task is said.
func TestTaskDone(t *testing.T) {
	s := inTurn(t)
	s.tell(event1(1, "session.task_complete", `{"summary":"It is **there**.","success":true}`))
	if v := s.view(); shown(v) != "It is **there**.|" || notes(v) != "" {
		t.Errorf("%q %q", shown(v), notes(v))
	}
}

// TestErrors end a turn with a sentence, or are told in the next one.
func TestErrors(t *testing.T) {
	s := inTurn(t)
	s.tell(event1(1, "session.error", `{"errorType":"authentication","message":"Not allowed","statusCode":401,"url":"https://x","remediation":"sign_in"}`), event1(1, "session.idle", `{}`),
		event1(2, "session.error", `{"errorType":"persistence","message":"The disk is full"}`), event1(2, "user.message", `{"messageId":"m2","content":"x"}`))
	v := s.view()
	if e := v.State.Turns[0].Error; e == nil || e.Message != "Not allowed (HTTP 401) https://x "+whatToDo || e.ErrorType != "copilot.authentication" {
		t.Errorf("%+v", e)
	}
	if notes(v) != "! The disk is full" {
		t.Errorf("%q", notes(v))
	}
}

// ---- sub-agents ----

const (
	task    = `{"toolCallId":"t","toolName":"task","arguments":{"description":"Look","prompt":"look around","name":"looker"}}`
	started = `{"toolCallId":"t","agentName":"explore","agentDisplayName":"looker","agentDescription":"Looks"}`
)

// sub is the session of a sub-agent, nil if there is none.
func (s *stage) sub(id string) *snapshot.Session {
	v, err := s.hub.Session("s" + subOf + id)
	if err != nil {
		return nil
	}
	return &v
}

// TestSubagents are sessions of their own, with their own model, errors and calls, and
// their own sub-agents.
func TestSubagents(t *testing.T) {
	s := inTurn(t)
	s.tell(event1(1, "tool.execution_start", task), of("a1", event1(1, "subagent.started", started)), of("a1", event1(1, "subagent.configured", `{"model":"small","multiTurn":true}`)),
		of("a1", event1(1, "subagent.selected", `{"agentName":"explore","agentDisplayName":"Explore","tools":null}`)),
		of("a1", event1(2, "user.message", `{"messageId":"n1","content":"look around","source":"agent-s"}`)),
		of("a1", delta(1, "x", "I look.")), of("a1", message1(1, "x", "I look.")),
		of("a1", event1(2, "tool.execution_start", strings.Replace(task, `"t"`, `"t2"`, 1))),
		of("a2", event1(2, "subagent.started", strings.Replace(started, `"t"`, `"t2"`, 1))), of("a2", event1(3, "user.message", `{"messageId":"n2","content":"deeper"}`)),
		of("a2", message1(2, "y", "Deep.")), of("a2", event1(2, "session.error", `{"errorType":"query","message":"no model"}`)),
		of("a2", event1(2, "subagent.failed", `{"toolCallId":"t2","agentName":"explore","agentDisplayName":"looker","error":"It broke"}`)))
	if model := state.Value(s.sub("a1").State.Summary.Model).ID; model != "small" {
		t.Errorf("configured for %q", model)
	}
	s.tell(of("a1", event1(3, "session.model_change", `{"newModel":"large"}`)))
	one, two := s.sub("a1"), s.sub("a2")
	if one == nil || two == nil {
		t.Fatal("a sub-agent has no session")
	}
	if shown(*one) != "I look.|" || state.Value(one.State.Summary.Model).ID != "large" || one.State.ActiveTurn == nil || notes(*one) != "" {
		t.Errorf("%q %+v", shown(*one), one.State)
	}
	if shown(*two) != "Deep.|" || two.State.ActiveTurn != nil || two.State.Turns[0].Error == nil || two.State.Turns[0].Error.Message != "It broke" {
		t.Errorf("%q %+v", shown(*two), two.State)
	}
	if c := s.call(*one, "t2"); len(c.Content) != 1 || state.Value(c.Content[0].Resource) != "ahp-session:/s-sub-a2" {
		t.Errorf("%+v", c)
	}
	if v := s.view(); shown(v) != "" || notes(v) != "" || state.Value(v.State.Summary.Model).ID != "" || s.conn.sessions["s"].config[settingModel] != "" {
		t.Errorf("the main agent shows %q %q, %v", shown(v), notes(v), s.conn.sessions["s"].config)
	}
	s.tell(of("a1", event1(4, "subagent.completed", `{"toolCallId":"t","agentName":"explore","agentDisplayName":"looker"}`)), event1(5, "tool.execution_complete", `{"toolCallId":"t","success":true,"result":{"content":"seen"}}`))
	if one := s.sub("a1"); one.State.ActiveTurn != nil || one.State.Turns[0].State != state.TurnComplete {
		t.Errorf("%+v", one.State)
	}
}

// TestBackgroundAgent: a sub-agent whose call has ended, or that no call has started,
// has a row of its own; that it has ended is said beside the turn.
func TestBackgroundAgent(t *testing.T) {
	for name, c := range map[string]struct {
		end     string
		want    state.TurnState
		success bool
	}{
		"done":      {of("a1", event1(1, "subagent.completed", `{"toolCallId":"t","agentName":"e","agentDisplayName":"looker"}`)), state.TurnComplete, true},
		"cancelled": {of("a1", event1(1, "subagent.completed", `{"toolCallId":"t","agentName":"e","agentDisplayName":"looker","cancelled":true}`)), state.TurnCancelled, true},
		"failed":    {of("a1", event1(1, "subagent.failed", `{"toolCallId":"t","agentName":"e","agentDisplayName":"looker","error":"broke"}`)), state.TurnError, false},
		"by id":     {event1(1, "system.notification", `{"kind":{"type":"agent_idle","agentId":"a1"}}`), state.TurnComplete, true},
		"by name":   {event1(1, "system.notification", `{"kind":{"type":"agent_completed","agentId":"looker","status":"failed"}}`), state.TurnError, false},
	} {
		s := inTurn(t)
		s.tell(event1(1, "tool.execution_start", task), event1(1, "tool.execution_complete", `{"toolCallId":"t","success":true,"result":{"content":"started"}}`),
			of("a1", event1(1, "subagent.started", started)), of("a1", event1(2, "user.message", `{"messageId":"n1","content":"look around"}`)), of("a1", message1(1, "x", "I look.")),
			event1(1, "assistant.idle", `{}`))
		v := s.view()
		if one := s.sub("a1"); one == nil || shown(*one) != "I look.|" || s.call(v, "agent-a1").Status != state.ToolRunning || state.Value(v.State.Summary.Activity) != "Waits for its sub-agents" {
			t.Fatalf("%s: %+v", name, v.State)
		}
		s.tell(c.end)
		if one := s.sub("a1"); one.State.ActiveTurn != nil || one.State.Turns[0].State != c.want || state.Value(s.call(s.view(), "agent-a1").Success) != c.success {
			t.Errorf("%s: %+v", name, one.State)
		}
	}
	s := newStage(t) // without a turn
	s.join()
	s.tell(of("a1", event1(1, "subagent.started", started)), of("a1", event1(2, "user.message", `{"messageId":"n1","content":"look"}`)))
	if s.sub("a1") == nil {
		t.Error("a sub-agent without a turn is not shown")
	}
	s.tell(event1(1, "session.idle", `{"aborted":true}`))
	if one := s.sub("a1"); one.State.ActiveTurn != nil || one.State.Turns[0].State != state.TurnCancelled {
		t.Errorf("%+v", one.State)
	}
}

// TestSubagentAgain: what nod has seen of a sub-agent is not shown again when the log
// tells it after a restart.
func TestSubagentAgain(t *testing.T) {
	s := inTurn(t)
	log := []string{event1(1, "user.message", said), event1(1, "tool.execution_start", task), of("a1", event1(1, "subagent.started", started)),
		of("a1", event1(2, "user.message", `{"messageId":"n1","content":"look around"}`)), of("a1", delta(1, "x", "I ")), of("a1", delta(2, "x", "look"))}
	s.tell(log...)
	s.conn.enter("s")
	if err := s.conn.begin("s", &state.SessionSummary{Resource: uriOf("s"), Provider: s.conn.room.provider}, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	known := s.conn.sessions["s"]
	for _, raw := range append(log, of("a1", delta(3, "x", " further"))) {
		e, err := readEvent(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		known.take(t.Context(), e)
	}
	known.caughtUp(t.Context())
	if one := s.sub("a1"); shown(*one) != "I look further|" {
		t.Errorf("%q", shown(*one))
	}
}

// ---- what is never kept ----

// opaque is a sink that remembers what is kept as it came.
type opaque struct {
	agentconn.Sink
	kept []string
}

func (o *opaque) Opaque(_ context.Context, _ string, raw json.RawMessage) {
	o.kept = append(o.kept, string(raw))
}

// TestPrompts: the vendor's prompts reach neither the state of a session nor what is
// kept as it came, however they are said; what is only new does.
func TestPrompts(t *testing.T) {
	s := inTurn(t)
	sink := &opaque{Sink: s.conn.room.sink}
	s.conn.room.sink = sink
	for i, typ := range append([]string{"system.message", "session.mode_notice_delivered", "skill.context_delivered", "session.fusion_handoff", "skill.invoked", "user.message", "system.notification"}, nowhere...) {
		s.tell(event1(i+10, typ, `{"content":"SECRET","transformedContent":"SECRET","kind":"SECRET","messageId":"m1","name":"SECRET"}`), event1(i+100, typ, `"SECRET"`),
			`{"id":7,"type":"`+typ+`","data":"SECRET"}`, `{"id":7,"type":["`+typ+`"],"data":"SECRET"}`)
	}
	s.tell(`"SECRET"`, event1(1, "brand.new", `{"x":"shown"}`), `{"id":7,"type":"brand.new"}`, event1(1, "assistant.message", `{"messageId":7}`))
	raw, err := state.Marshal(s.view().State)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "SECRET") || strings.Contains(strings.Join(sink.kept, ""), "SECRET") || strings.Contains(s.errors.String(), "SECRET") {
		t.Errorf("a prompt is kept: %q\n%s", sink.kept, raw)
	}
	if len(sink.kept) != 3 {
		t.Errorf("kept: %q", sink.kept)
	}
	if got := notes(s.view()); got != "Copilot says something that this nod does not understand: brand.new | Copilot says something that this nod does not understand: assistant.message" {
		t.Errorf("%q", got)
	}
}

// TestUnknownIsBounded: a new kind of event may come by the thousand.
func TestUnknownIsBounded(t *testing.T) {
	s := inTurn(t)
	sink := &opaque{Sink: s.conn.room.sink}
	s.conn.room.sink = sink
	for n := range maxOdd + 50 {
		s.tell(event1(n, "brand.new", `{}`))
	}
	if len(sink.kept) != maxOdd || len(parts(s.view())) != maxUnknown {
		t.Errorf("%d are kept, %d shown", len(sink.kept), len(parts(s.view())))
	}
}

// TestToldOncePerFile: the files of a session's own change again and again.
func TestToldOncePerFile(t *testing.T) {
	s := inTurn(t)
	for n := range 3 {
		s.tell(event1(n, "session.plan_changed", `{"operation":"update"}`), event1(n, "session.workspace_file_changed", `{"path":"files/a.md","operation":"update"}`))
	}
	if got, want := notes(s.view()), "Copilot has changed the plan of this session. | Copilot has changed a file of the session's own: files/a.md"; got != want {
		t.Errorf("%q", got)
	}
}
