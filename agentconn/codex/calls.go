package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"nod/agentconn/plain"
	"nod/state"
)

// row is an item as a tool call shows it.
type row struct {
	tool, name string
	does       string // one line
	did        string // the same when it is done; "" for the same words
	input      string
	meta       state.Meta
	result     string  // text
	agents     []agent // sub-agents that it is about
	failure    string
	failed     bool
}

// agent is a sub-agent that a call is about.
type agent struct{ thread, title string }

// shows reports whether two rows of one call look alike before it is done.
func (r row) shows(other row) bool { return r.does == other.does && r.input == other.input }

// ready is the action that describes a call that runs.
func (it *item) ready() state.Action {
	return &state.SessionToolCallReady{
		TurnID: it.turn, ToolCallID: it.id, InvocationMessage: state.Plain(it.row.does), ToolInput: state.Optional(it.row.input), Confirmed: state.ConfirmedNotNeeded,
	}
}

func (c *conn) startCall(ctx context.Context, th *thread, it *item, r row) {
	it.row = r
	it.terminal = th.terminal(it)
	c.applyOnce(ctx, th, th.started(it.turn, it.id), &state.SessionToolCallStart{
		TurnID: it.turn, ToolCallID: it.id, ToolName: r.tool, DisplayName: r.name, Meta: r.meta,
	}, it.ready())
	c.showAgents(ctx, th, it)
}

// describe brings a call up to date with what its item says by now.
func (c *conn) describe(ctx context.Context, th *thread, it *item) {
	k := kindOf(it.kind)
	if k.row == nil {
		return
	}
	was := it.row
	it.row = k.row(it.wire)
	if !it.row.shows(was) {
		actions := []state.Action{it.ready()}
		if len(it.content) > 0 { // which a call loses when it is described
			actions = append(actions, it.contentAction())
		}
		c.apply(ctx, th, actions...)
	}
	c.showAgents(ctx, th, it)
}

func (it *item) contentAction() state.Action {
	return &state.SessionToolCallContentChanged{TurnID: it.turn, ToolCallID: it.id, Content: it.content}
}

// showAgents puts the sub-agents into the call that is about them: with that their
// sessions begin.
func (c *conn) showAgents(ctx context.Context, th *thread, it *item) {
	shown := len(it.content)
	for _, a := range it.row.agents {
		uri := uriScheme + a.thread
		if known := c.threads[a.thread]; known != nil {
			uri = known.uri
		}
		if uri != th.uri && !slices.ContainsFunc(it.content, func(x state.ToolResultContent) bool { return state.Value(x.Resource) == uri }) {
			it.content = append(it.content, state.SubagentContent(uri, a.title))
		}
	}
	if len(it.content) == shown {
		return
	}
	c.apply(ctx, th, it.contentAction())
	for _, a := range it.row.agents {
		c.knowChild(th, a.thread)
	}
}

// output adds to the terminal of a call, and shows it.
func (c *conn) output(ctx context.Context, th *thread, it *item, data string) {
	if it.written >= 0 {
		it.written += len(data)
		if it.kind == "commandExecution" {
			it.kept = append(it.kept, data[:min(len(data), maxKept-len(it.kept))]...)
		}
	}
	c.send(ctx, th, state.Source{}, append(c.show(th, it), state.Envelope{Channel: it.terminal, Action: &state.TerminalData{Data: data}})...)
}

// show puts a call's terminal into it, once something is written or the command
// runs.
func (c *conn) show(th *thread, it *item) []state.Envelope {
	terminal := state.TerminalContent(it.terminal, "Output")
	if slices.ContainsFunc(it.content, func(x state.ToolResultContent) bool { return state.Value(x.Resource) == it.terminal }) {
		return nil
	}
	it.content = append(it.content, terminal)
	out := []state.Envelope{{Channel: th.uri, Action: it.contentAction()}}
	if it.kind == "commandExecution" {
		out = append(out, state.Envelope{Channel: it.terminal, Action: &state.TerminalCommandExecuted{CommandID: it.id, CommandLine: it.wire.Command, Timestamp: it.wire.StartedAtMs}})
	}
	return out
}

// finishCall ends a call that only its item tells of.
func (c *conn) finishCall(ctx context.Context, th *thread, it *item, _ wireItem) {
	r := it.row
	result := state.ToolCallResult{Success: !r.failed, PastTenseMessage: state.Plain(r.does), Content: slices.Clip(it.content)}
	if r.did != "" {
		result.PastTenseMessage = state.Plain(r.did)
	}
	if r.result != "" {
		result.Content = append(result.Content, state.TextContent(r.result))
	}
	if r.failure != "" {
		result.Error = &state.ToolError{Message: r.failure}
	}
	c.applyOnce(ctx, th, th.finished(it.turn, it.id), &state.SessionToolCallComplete{TurnID: it.turn, ToolCallID: it.id, Result: result})
}

func (c *conn) progress(ctx context.Context, th *thread, p params) {
	it := c.start(ctx, th, p.TurnID, p.ItemID, "mcpToolCall", wireItem{})
	c.output(ctx, th, it, p.Message+"\n")
}

// ---- commands ----

func commandRow(w wireItem) row {
	r := row{tool: "shell", name: "Run a command", does: w.summary(), input: w.Command, meta: state.Meta{"nod.input": plain.Value("command")}}
	if w.Source == "userShell" {
		r.name = "A command that a person ran"
	}
	if w.Cwd != "" {
		r.meta["nod.cwd"] = plain.Value(w.Cwd)
	}
	var about []string
	for _, a := range w.CommandActions {
		switch a.Type {
		case "read":
			about = append(about, plain.Joined(" ", "reads", cmp.Or(a.Path, a.Name)))
		case "listFiles":
			about = append(about, plain.Joined(" in ", "lists files", a.Path))
		case "search":
			about = append(about, plain.Joined(" in ", plain.Joined(" for ", "searches", a.Query), a.Path))
		}
	}
	if len(about) > 0 {
		r.meta["nod.about"] = plain.Value(plain.Shorten(strings.Join(about, ", "), plain.MaxNote))
	}
	return r
}

// summary is the command without the shell around it, where Codex tells it.
func (w wireItem) summary() string {
	if len(w.CommandActions) == 1 && w.CommandActions[0].Command != "" {
		return w.CommandActions[0].Command
	}
	return w.Command
}

func (c *conn) outputDelta(ctx context.Context, th *thread, p params) {
	c.output(ctx, th, c.start(ctx, th, p.TurnID, p.ItemID, "commandExecution", wireItem{}), p.Delta)
}

// typed shows what was typed into a command that runs. Codex also says when it
// only waits for output.
func (c *conn) typed(ctx context.Context, th *thread, p params) {
	if p.Stdin == "" {
		return
	}
	c.admit(ctx, th, p.TurnID, "")
	into := ""
	if it := th.items[p.ItemID]; it != nil {
		into = it.row.does
	}
	th.typed++
	id := fmt.Sprintf("%s/typed/%d", p.ItemID, th.typed)
	call := item{id: id, turn: p.TurnID, row: row{does: plain.Joined(": ", "Typed into a command", into), input: plain.Cut(p.Stdin, plain.MaxInput)}}
	c.applyOnce(ctx, th, th.started(p.TurnID, id),
		&state.SessionToolCallStart{TurnID: p.TurnID, ToolCallID: id, ToolName: "write_stdin", DisplayName: "Type into a command"}, call.ready(),
		&state.SessionToolCallComplete{TurnID: p.TurnID, ToolCallID: id, Result: state.ToolCallResult{Success: true, PastTenseMessage: state.Plain(call.row.does)}})
}

func (c *conn) finishCommand(ctx context.Context, th *thread, it *item, w wireItem) {
	complete := func(r state.ToolCallResult) state.Action {
		return &state.SessionToolCallComplete{TurnID: it.turn, ToolCallID: it.id, Result: r}
	}
	if w.Status == "declined" { // by a person, whose answer has ended the call, or by Codex itself
		c.applyOnce(ctx, th, th.finished(it.turn, it.id), complete(state.ToolCallResult{PastTenseMessage: state.Plain("Codex declined to run " + w.summary())}))
		return
	}
	actions := c.show(th, it)
	// What is whole takes the place of what is not: Codex does not stream what a
	// command writes at once, and nod may not have listened.
	whole := w.AggregatedOutput
	if len(whole) >= maxAggregated {
		whole = it.completed(whole)
	}
	if n := len(whole); it.written != 0 && n != 0 && n != it.written {
		actions = append(actions, state.Envelope{Channel: it.terminal, Action: &state.TerminalCleared{}},
			state.Envelope{Channel: it.terminal, Action: &state.TerminalCommandExecuted{CommandID: it.id, CommandLine: w.Command, Timestamp: w.StartedAtMs}})
		it.written = 0
	}
	if it.written == 0 && whole != "" {
		actions = append(actions, state.Envelope{Channel: it.terminal, Action: &state.TerminalData{Data: whole}})
	}
	result := state.ToolCallResult{
		Success:          w.Status == "completed" && (w.ExitCode == nil || *w.ExitCode == 0),
		PastTenseMessage: state.Plain(pastTense(w.Status, "Ran ") + w.summary()),
		Content:          it.content,
	}
	if w.Status == "failed" && w.ExitCode != nil {
		result.PastTenseMessage = state.Plain("Ran " + w.summary())
	}
	actions = append(actions,
		state.Envelope{Channel: it.terminal, Action: &state.TerminalCommandFinished{CommandID: it.id, ExitCode: w.ExitCode, DurationMs: w.DurationMs}},
		state.Envelope{Channel: th.uri, Action: complete(result)},
	)
	c.send(ctx, th, th.finished(it.turn, it.id), actions...)
}

const (
	// maxAggregated is from where on Codex leaves out the middle of what a command
	// has written.
	maxAggregated = 1 << 20
	// maxKept bounds, in bytes, what of a command's output is kept until it ends, to
	// put before it what was not streamed.
	maxKept = 4 << 20
	// maxOverlap is by how many bytes the two are put together.
	maxOverlap = 16 << 10
)

// completed returns all that a command has written, of which Codex has told the
// begin and the end in one piece, and all but perhaps the begin in a stream; "" if
// it cannot be put together.
func (it *item) completed(aggregated string) string {
	if it.written == 0 {
		return aggregated
	}
	if len(it.kept) != it.written {
		return ""
	}
	begin := strings.Index(aggregated, string(it.kept[:min(len(it.kept), maxOverlap)]))
	if begin <= 0 {
		return ""
	}
	return aggregated[:begin] + string(it.kept)
}

func pastTense(status, done string) string {
	if status == "completed" {
		return done
	}
	return "Not done (" + plain.Shorten(status, 20) + "): "
}

// ---- file changes ----

func changeRow(w wireItem) row {
	return row{tool: "apply_patch", name: "Edit files", does: "Edit " + fileNames(w.Changes), input: unified(w.Changes), meta: state.Meta{"nod.input": plain.Value("diff")}}
}

func (c *conn) patchUpdated(ctx context.Context, th *thread, p params) {
	if it := th.items[p.ItemID]; it != nil && !it.done && it.kind == "fileChange" {
		it.wire.Changes = p.Changes
		c.describe(ctx, th, it)
	}
}

// patchOutput shows what applying a patch says; it says something if it fails.
func (c *conn) patchOutput(ctx context.Context, th *thread, p params) {
	if it := th.items[p.ItemID]; it != nil && !it.done && it.kind == "fileChange" {
		c.output(ctx, th, it, p.Delta)
	}
}

func (c *conn) finishChange(ctx context.Context, th *thread, it *item, w wireItem) {
	c.applyOnce(ctx, th, th.finished(it.turn, it.id), &state.SessionToolCallComplete{TurnID: it.turn, ToolCallID: it.id, Result: state.ToolCallResult{
		Success: w.Status == "completed", PastTenseMessage: state.Plain(pastTense(w.Status, "Edited ") + fileNames(w.Changes)),
		Content: append(fileEdits(w.Changes), it.content...),
	}})
}

// ---- tools ----

func mcpRow(w wireItem) row {
	r := row{
		tool: w.Tool, name: "Tool of an MCP server", does: plain.Joined(" · ", w.Server, w.Tool), input: plain.Indented(w.Arguments), meta: asJSON, failed: w.Status == "failed",
	}
	var result struct {
		Content           []block         `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	_ = json.Unmarshal(w.Result, &result) // of what is odd there is none
	r.result = texts(result.Content)
	if r.result == "" {
		r.result = plain.Indented(result.StructuredContent)
	}
	if w.Error != nil {
		r.failure = w.Error.Message
	}
	return r
}

// block is a piece of a result, as MCP and the model's API have it.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	MimeType string `json:"mimeType"`
	Name     string `json:"name"`
	URI      string `json:"uri"`
	Resource struct {
		URI  string `json:"uri"`
		Text string `json:"text"`
	} `json:"resource"`
}

// texts is what blocks say. Of what is no text they have the name: nod loads
// nothing.
func texts(blocks []block) string {
	var out []string
	for _, b := range blocks {
		if t := plain.Joined("", b.Text, b.Resource.Text); t != "" {
			out = append(out, t)
		} else {
			out = append(out, plain.Shorten("["+plain.Joined(" ", b.Type, b.MimeType, b.Name, b.URI, b.Resource.URI)+"]", 300))
		}
	}
	return plain.Cut(strings.Join(out, "\n"), plain.MaxInput)
}

func dynamicRow(w wireItem) row {
	r := row{
		tool: w.Tool, name: "Tool of another client", does: plain.Joined(" · ", w.Namespace, w.Tool), input: plain.Indented(w.Arguments), meta: asJSON,
		failed: w.Status == "failed" || w.Success != nil && !*w.Success,
	}
	var blocks []block
	_ = json.Unmarshal(w.ContentItems, &blocks) // of what is odd there is none
	r.result = texts(blocks)
	return r
}

// finishTool also ends the request to run the tool: of the answer to that Codex tells
// nobody else.
func (c *conn) finishTool(ctx context.Context, th *thread, it *item, w wireItem) {
	c.finishCall(ctx, th, it, w)
	if id, asked := th.tools[w.ID]; asked {
		delete(th.tools, w.ID)
		c.sink.Resolved(ctx, th.uri, c.epoch, id, state.EndedAnswered)
	}
}

func outputRow(w wireItem) row {
	r := row{tool: w.Name, name: "Result of a tool", does: plain.Joined(" · ", w.Namespace, w.Name)}
	var blocks []block
	if json.Unmarshal(w.Output, &r.result) != nil && json.Unmarshal(w.Output, &blocks) == nil {
		r.result = texts(blocks)
	}
	r.result = plain.Cut(r.result, plain.MaxInput)
	return r
}

func searchRow(w wireItem) row {
	r := row{tool: "web_search", name: "Search the web"}
	switch a := w.Action; a.Type {
	case "openPage":
		r.does = plain.Joined(" ", "Open the page", a.URL)
	case "findInPage":
		r.does = plain.Joined(" in ", "Look for “"+a.Pattern+"”", a.URL)
	default:
		words := cmp.Or(w.Query, a.Query, strings.Join(a.Queries, ", "))
		r.does = plain.Joined(" for ", "Search the web", plain.Shorten(words, plain.MaxNote))
	}
	var results []struct {
		Title string `json:"title"`
		URL   string `json:"url"`
	}
	if json.Unmarshal(w.Results, &results) != nil || len(results) == 0 {
		return r
	}
	var lines []string
	for _, x := range results {
		lines = append(lines, plain.Joined(" — ", x.Title, x.URL))
	}
	r.result = plain.Cut(plain.Joined("\n", lines...), plain.MaxInput)
	return r
}

// imageRow names an image; nod does not show it.
func imageRow(w wireItem) row {
	if w.Type == "imageView" {
		return row{tool: "view_image", name: "Look at an image", does: "Look at " + w.Path}
	}
	r := row{tool: "image_generation", name: "Make an image", does: plain.Joined(": ", "Make an image", plain.Shorten(w.RevisedPrompt, plain.MaxNote)), failed: w.Status == "failed"}
	if w.SavedPath != "" {
		r.result = "Saved as " + w.SavedPath
	}
	return r
}

func sleepRow(w wireItem) row {
	r := row{tool: "sleep", name: "Wait", does: "Wait"}
	if w.DurationMs != nil {
		r.does = "Wait for " + (time.Duration(*w.DurationMs) * time.Millisecond).String()
	}
	return r
}

func compactionRow(wireItem) row {
	return row{
		tool: "compact", name: "Make room", does: "Make room: sum up what was said",
		did: "What was said so far is summed up: from here on the agent remembers the summary.",
	}
}

func unknownRow(w wireItem) row {
	return row{tool: w.Type, name: w.Type, does: "Codex: " + plain.Shorten(w.Type, 80), input: plain.Indented(w.raw), meta: asJSON, failed: w.Status == "failed"}
}

// ---- sub-agents ----

// collabVerbs says what the tools for sub-agents do.
var collabVerbs = map[string]string{
	"spawnAgent": "Start a sub-agent", "sendInput": "Write to a sub-agent", "sendMessage": "Write to a sub-agent",
	"followupTask": "Give a sub-agent another task", "resumeAgent": "Resume a sub-agent", "wait": "Wait for sub-agents",
	"closeAgent": "End a sub-agent", "interruptAgent": "Interrupt a sub-agent", "listAgents": "List the sub-agents",
}

func collabRow(w wireItem) row {
	does := collabVerbs[w.Tool]
	if does == "" {
		does = "Sub-agents: " + plain.Shorten(w.Tool, 80)
	}
	task, _, _ := strings.Cut(strings.TrimSpace(w.Prompt), "\n")
	r := row{
		tool: w.Tool, name: "Sub-agent", does: plain.Joined(": ", does, plain.Shorten(task, 200)), input: plain.Cut(w.Prompt, plain.MaxInput),
		failed: w.Status == "failed" || w.Status == "interrupted",
	}
	for _, id := range w.Receivers {
		r.addAgent(id, cmp.Or(task, "Sub-agent"))
	}
	var states []string
	for _, id := range slices.Sorted(maps.Keys(w.AgentsStates)) {
		s := w.AgentsStates[id]
		states = append(states, plain.Joined(": ", s.Status, s.Message))
	}
	r.result = plain.Cut(strings.Join(states, "\n"), plain.MaxInput)
	return r
}

func activityRow(w wireItem) row {
	r := row{tool: "sub_agent", name: "Sub-agent", does: plain.Joined(" ", "Sub-agent", w.AgentPath, w.ActivityKind)}
	r.addAgent(w.AgentThreadID, plain.Joined(" ", "Sub-agent", w.AgentPath))
	return r
}

// addAgent adds a sub-agent whose thread id can be part of an address, as every
// UUID can.
func (r *row) addAgent(thread, title string) {
	if thread != "" && len(thread) <= 64 && strings.Trim(thread, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" {
		r.agents = append(r.agents, agent{thread, plain.Shorten(title, 200)})
	}
}

// asJSON says that the input of a call is JSON for reading.
var asJSON = state.Meta{"nod.input": plain.Value("json")}
