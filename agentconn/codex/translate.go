package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
)

// thread is what the reader knows of one Codex thread.
type thread struct {
	id, uri string
	turn    string // of the turn in progress, "" if none
	foreign string // a turn that has started and that nod has not begun yet
	usage   tokens // of the turn in progress
	items   map[string]*item
	plan    json.RawMessage

	config   map[string]string                // settings in force
	steering []state.SessionPendingMessageSet // that Codex has not told yet

	untitled  bool              // its session has no title yet
	replaying bool              // what it waits for is being asked again
	asked     []json.RawMessage // ids of what was asked meanwhile
	rests     time.Time         // since when nothing runs; zero while something does
}

// item is one thread item that has started in the turn in progress.
type item struct {
	kind     string
	turn     string
	streamed bool   // something of it has come before its end
	text     []byte // of a message, what has been streamed of it
	section  int    // of a reasoning summary
	terminal string // URI; of a command
	shown    bool   // a command's terminal is part of its tool call
	holes    bool   // of a command, some of its output may not have been heard
	done     bool
	wire     wireItem
}

// wireItem holds the fields of every ThreadItem that nod shows.
type wireItem struct {
	Type             string          `json:"type"`
	ID               string          `json:"id"`
	Text             string          `json:"text"`    // agentMessage, plan
	Content          json.RawMessage `json:"content"` // userMessage, reasoning
	Summary          []string        `json:"summary"` // reasoning
	Command          string          `json:"command"`
	Cwd              string          `json:"cwd"`
	Status           string          `json:"status"` // inProgress, completed, failed, declined
	CommandActions   []commandAction `json:"commandActions"`
	AggregatedOutput string          `json:"aggregatedOutput"`
	ExitCode         *int64          `json:"exitCode"`
	DurationMs       *float64        `json:"durationMs"`
	Changes          []fileChange    `json:"changes"`
	StartedAtMs      int64           `json:"startedAtMs"`
}

type commandAction struct {
	Command string `json:"command"`
}

type fileChange struct {
	Path string `json:"path"`
	Kind struct {
		Type     string `json:"type"` // add, delete, update
		MovePath string `json:"move_path"`
	} `json:"kind"`
	Diff string `json:"diff"` // the whole text for add and delete, hunks for update
}

type tokens struct {
	InputTokens       int64 `json:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens"`
	OutputTokens      int64 `json:"outputTokens"`
}

type wireTurn struct {
	ID         string     `json:"id"`
	Status     string     `json:"status"` // completed, interrupted, failed, inProgress
	Error      *wireError `json:"error"`
	DurationMs *int64     `json:"durationMs"`
}

type wireError struct {
	Message           string          `json:"message"`
	CodexErrorInfo    json.RawMessage `json:"codexErrorInfo"` // a word, or an object of one key
	AdditionalDetails string          `json:"additionalDetails"`
}

// params holds the fields of every notification that nod understands.
type params struct {
	ThreadID   string          `json:"threadId"`
	TurnID     string          `json:"turnId"`
	ItemID     string          `json:"itemId"`
	Delta      string          `json:"delta"`
	Index      int             `json:"summaryIndex"`
	Item       wireItem        `json:"item"`
	Turn       wireTurn        `json:"turn"`
	Plan       json.RawMessage `json:"plan"`
	ThreadName string          `json:"threadName"`
	RequestID  json.RawMessage `json:"requestId"`
	Error      wireError       `json:"error"`
	WillRetry  bool            `json:"willRetry"`
	Message    string          `json:"message"`
	Changes    []fileChange    `json:"changes"`
	TokenUsage struct {
		Last tokens `json:"last"`
	} `json:"tokenUsage"`
}

// handlers are the notifications that change what a person sees.
var handlers = map[string]func(*conn, context.Context, *thread, params){
	"turn/started":                      (*conn).turnStarted,
	"turn/completed":                    (*conn).turnCompleted,
	"turn/plan/updated":                 (*conn).planUpdated,
	"item/started":                      (*conn).itemStarted,
	"item/completed":                    (*conn).itemCompleted,
	"item/agentMessage/delta":           (*conn).textDelta,
	"item/plan/delta":                   (*conn).textDelta,
	"item/reasoning/summaryTextDelta":   (*conn).reasoningDelta,
	"item/reasoning/textDelta":          (*conn).reasoningDelta,
	"item/commandExecution/outputDelta": (*conn).outputDelta,
	"item/fileChange/patchUpdated":      (*conn).patchUpdated,
	"serverRequest/resolved":            (*conn).resolved,
	"thread/name/updated":               (*conn).nameUpdated,
	"thread/tokenUsage/updated":         (*conn).tokenUsage,
	"error":                             (*conn).errorNote,
	"warning":                           (*conn).warning,
}

// ignored are notifications that say nothing a person needs: what they tell
// comes in another way, or concerns other clients.
var ignored = map[string]bool{
	"account/rateLimits/updated": true,
	"thread/readState/changed":   true, "thread/goal/cleared": true,
	"remoteControl/status/changed": true, "configWarning": true,
	"deprecationNotice": true, "mcpServer/startupStatus/updated": true, "turn/diff/updated": true,
	"item/reasoning/summaryPartAdded": true, "item/fileChange/outputDelta": true,
	"item/commandExecution/terminalInteraction": true,
}

func (c *conn) notification(ctx context.Context, m message, line []byte) {
	if told, ok := broadcasts[m.Method]; ok {
		var p broadcast
		if json.Unmarshal(m.Params, &p) == nil {
			told(c, ctx, p)
		}
		return
	}
	handle, known := handlers[m.Method]
	var p params
	if known && json.Unmarshal(m.Params, &p) == nil {
		if th := c.threads[p.ThreadID]; th != nil {
			handle(c, ctx, th, p)
			return
		}
		// Another client's thread, or a helper thread of Codex's own.
		return
	}
	if ignored[m.Method] {
		c.log.Debug("notification", "method", m.Method)
		return
	}
	c.log.Info("a notification that nod does not understand", "method", shorten(m.Method, 80))
	_ = json.Unmarshal(m.Params, &p) // for the thread, if it names one
	uri := ""
	if th := c.threads[p.ThreadID]; th != nil {
		uri = th.uri
	}
	c.sink.Opaque(ctx, uri, line)
}

// apply sends session actions that no replay repeats.
func (c *conn) apply(ctx context.Context, th *thread, actions ...state.Action) {
	c.sink.Apply(ctx, th.uri, state.Source{}, th.envelopes(actions)...)
}

// applyOnce sends session actions of a step in the life of a turn or an item.
// Codex tells these again when a thread is resumed.
func (c *conn) applyOnce(ctx context.Context, th *thread, from state.Source, actions ...state.Action) {
	c.sink.Apply(ctx, th.uri, from, th.envelopes(actions)...)
}

func (th *thread) envelopes(actions []state.Action) []state.Envelope {
	es := make([]state.Envelope, len(actions))
	for i, a := range actions {
		es[i] = state.Envelope{Channel: th.uri, Action: a}
	}
	return es
}

// Steps in the life of a turn or an item. Codex numbers nothing, but turns, items
// and what happens to them are unique within a thread.
func (th *thread) began(turn string) state.Source {
	return state.Source{Epoch: th.id, ID: turn + "/begin"}
}
func (th *thread) ended(turn string) state.Source {
	return state.Source{Epoch: th.id, ID: turn + "/end"}
}
func (th *thread) started(turn, item string) state.Source {
	return state.Source{Epoch: th.id, ID: turn + "/" + item + "/start"}
}
func (th *thread) finished(turn, item string) state.Source {
	return state.Source{Epoch: th.id, ID: turn + "/" + item + "/done"}
}

func (th *thread) meta() state.Meta {
	m := state.Meta{}
	if th.plan != nil {
		m["nod.plan"] = jsontext.Value(th.plan)
	}
	return m
}

// begin starts a turn. The answer to turn/start comes before turn/started, so a
// message that nod sent is known by then.
func (th *thread) begin(ctx context.Context, c *conn, turn string, m state.Message) {
	if th.turn == turn { // turn/start while a turn runs steers it, and names it again
		return
	}
	th.turn, th.foreign, th.usage, th.steering = turn, "", tokens{}, nil
	// Items of an older turn stay only while they run: a background command may
	// end after its turn.
	maps.DeleteFunc(th.items, func(_ string, it *item) bool { return it.done })
	actions := []state.Action{&state.SessionTurnStarted{TurnID: turn, Message: m}}
	if title := titleOf(m.Text); th.untitled && title != "" {
		th.untitled = false
		actions = append(actions, &state.SessionTitleChanged{Title: title})
	}
	c.applyOnce(ctx, th, th.began(turn), actions...)
}

func (c *conn) turnStarted(ctx context.Context, th *thread, p params) {
	if th.turn != p.Turn.ID {
		th.foreign = p.Turn.ID
	}
}

// admit begins a turn that nod did not start, with its first item: that is its
// message, if it has one.
func (c *conn) admit(ctx context.Context, th *thread, turn, message string) {
	if turn != "" && th.foreign == turn {
		th.begin(ctx, c, turn, state.UserMessage(message))
	}
}

func (c *conn) turnCompleted(ctx context.Context, th *thread, p params) {
	c.admit(ctx, th, p.Turn.ID, "")
	var actions []state.Envelope
	add := func(a state.Action) { actions = append(actions, state.Envelope{Channel: th.uri, Action: a}) }
	// Interrupt and steer leave items open without a word. A command keeps its
	// output only if it completes.
	for _, id := range slices.Sorted(maps.Keys(th.items)) {
		it := th.items[id]
		if it.turn == p.Turn.ID && it.kind == "commandExecution" && it.shown && !it.done {
			add(&state.SessionToolCallComplete{TurnID: p.Turn.ID, ToolCallID: id, Result: state.ToolCallResult{
				PastTenseMessage: state.Plain("Was still running when the turn ended"), Content: it.content(),
			}})
		}
	}
	if p.Turn.DurationMs != nil {
		add(th.usageAction(p.Turn.ID, p.Turn.DurationMs))
	}
	switch p.Turn.Status {
	case "interrupted":
		add(&state.SessionTurnCancelled{TurnID: p.Turn.ID})
	case "failed":
		e := wireError{Message: "Codex gave no reason."}
		if p.Turn.Error != nil {
			e = *p.Turn.Error
		}
		add(&state.SessionError{TurnID: p.Turn.ID, Error: state.ErrorInfo{ErrorType: "codex." + e.kind(), Message: e.Message}})
	default:
		add(&state.SessionTurnComplete{TurnID: p.Turn.ID})
	}
	add(&state.SessionActivityChanged{})
	if th.turn == p.Turn.ID {
		th.turn = ""
	}
	c.sink.Apply(ctx, th.uri, th.ended(p.Turn.ID), actions...)
}

// kind names the error: codexErrorInfo is a word or an object of one key.
func (e wireError) kind() string {
	var word string
	if json.Unmarshal(e.CodexErrorInfo, &word) == nil && word != "" {
		return word
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(e.CodexErrorInfo, &object) == nil {
		for k := range object {
			return k
		}
	}
	return "error"
}

func (c *conn) planUpdated(ctx context.Context, th *thread, p params) {
	th.plan = p.Plan
	c.apply(ctx, th, &state.SessionMetaChanged{Meta: th.meta()})
}

func (c *conn) nameUpdated(ctx context.Context, th *thread, p params) {
	if p.ThreadName != "" {
		c.apply(ctx, th, &state.SessionTitleChanged{Title: shorten(p.ThreadName, 200)})
	}
}

func (c *conn) tokenUsage(ctx context.Context, th *thread, p params) {
	if p.TurnID != th.turn {
		return
	}
	l := p.TokenUsage.Last
	th.usage.InputTokens += l.InputTokens
	th.usage.CachedInputTokens += l.CachedInputTokens
	th.usage.OutputTokens += l.OutputTokens
	c.apply(ctx, th, th.usageAction(p.TurnID, nil))
}

// usageAction reports the tokens of the turn so far. AHP has no word for how
// long a turn took.
func (th *thread) usageAction(turn string, durationMs *int64) *state.SessionUsage {
	u := th.usage
	a := &state.SessionUsage{TurnID: turn, Usage: state.UsageInfo{
		InputTokens: &u.InputTokens, OutputTokens: &u.OutputTokens, CacheReadTokens: &u.CachedInputTokens,
	}}
	if durationMs != nil {
		a.Usage.Meta = state.Meta{"nod.durationMs": fmt.Append(nil, *durationMs)}
	}
	return a
}

func (c *conn) errorNote(ctx context.Context, th *thread, p params) {
	if p.WillRetry {
		c.apply(ctx, th, &state.SessionActivityChanged{Activity: new(shorten(p.Error.Message, 200))})
	}
	// Otherwise turn/completed says it again, as failed.
}

func (c *conn) warning(ctx context.Context, th *thread, p params) {
	if th.turn != "" && p.Message != "" {
		c.apply(ctx, th, &state.SessionResponsePart{TurnID: th.turn, Part: &state.NotificationPart{Content: state.Plain(p.Message)}})
	}
}

// ---- items ----

// start returns the item of that id and makes it, with the part that shows it,
// if it is new: a delta may be the first that is heard of an item.
func (c *conn) start(ctx context.Context, th *thread, turn, id, kind string, w wireItem) *item {
	if it := th.items[id]; it != nil {
		return it
	}
	c.admit(ctx, th, turn, "")
	it := &item{kind: kind, turn: turn, wire: w}
	th.items[id] = it
	switch kind {
	case "agentMessage", "plan":
		c.applyOnce(ctx, th, th.started(turn, id), &state.SessionResponsePart{TurnID: turn, Part: &state.MarkdownPart{ID: id}})
	case "reasoning":
		c.applyOnce(ctx, th, th.started(turn, id), &state.SessionResponsePart{TurnID: turn, Part: &state.ReasoningPart{ID: id}})
	case "commandExecution":
		it.terminal = th.terminal(id)
		c.applyOnce(ctx, th, th.started(turn, id), &state.SessionToolCallStart{
			TurnID: turn, ToolCallID: id, ToolName: "shell", DisplayName: "Run a command",
			Meta: state.Meta{"nod.input": []byte(`"command"`)},
		}, &state.SessionToolCallReady{
			TurnID: turn, ToolCallID: id, InvocationMessage: state.Plain(w.summary()), ToolInput: &w.Command, Confirmed: state.ConfirmedNotNeeded,
		})
	case "fileChange":
		c.applyOnce(ctx, th, th.started(turn, id), &state.SessionToolCallStart{
			TurnID: turn, ToolCallID: id, ToolName: "apply_patch", DisplayName: "Edit files",
			Meta: state.Meta{"nod.input": []byte(`"diff"`)},
		}, &state.SessionToolCallReady{
			TurnID: turn, ToolCallID: id, InvocationMessage: state.Plain("Edit " + fileNames(w.Changes)), ToolInput: new(unified(w.Changes)), Confirmed: state.ConfirmedNotNeeded,
		})
	}
	return it
}

// message is the text of a userMessage.
func (w wireItem) message() string {
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(w.Content, &parts) // images have no text
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// summary is the command without the shell around it, where Codex tells it.
func (w wireItem) summary() string {
	if len(w.CommandActions) == 1 && w.CommandActions[0].Command != "" {
		return w.CommandActions[0].Command
	}
	return w.Command
}

func (c *conn) itemStarted(ctx context.Context, th *thread, p params) {
	if p.Item.Type == "userMessage" {
		c.admit(ctx, th, p.TurnID, p.Item.message())
		c.taken(ctx, th, p.Item.message())
		return // a turn of ours has it already
	}
	c.admit(ctx, th, p.TurnID, "")
	switch p.Item.Type {
	case "agentMessage", "plan", "reasoning", "commandExecution", "fileChange":
		c.start(ctx, th, p.TurnID, p.Item.ID, p.Item.Type, p.Item)
	default:
		c.otherItem(ctx, th, p)
	}
}

// otherItem shows an item that nod has no form for, as one line.
func (c *conn) otherItem(ctx context.Context, th *thread, p params) {
	th.items[p.Item.ID] = &item{kind: "other", turn: p.TurnID}
	c.applyOnce(ctx, th, th.started(p.TurnID, p.Item.ID), &state.SessionToolCallStart{TurnID: p.TurnID, ToolCallID: p.Item.ID, ToolName: p.Item.Type, DisplayName: p.Item.Type},
		&state.SessionToolCallReady{TurnID: p.TurnID, ToolCallID: p.Item.ID, InvocationMessage: state.Plain("Codex: " + shorten(p.Item.Type, 80)), Confirmed: state.ConfirmedNotNeeded})
}

func (c *conn) itemCompleted(ctx context.Context, th *thread, p params) {
	w := p.Item
	if w.Type == "userMessage" {
		return
	}
	if th.items[w.ID] == nil {
		c.itemStarted(ctx, th, p)
	}
	it := th.items[w.ID]
	if it.done {
		return
	}
	it.done = true
	switch w.Type {
	case "agentMessage", "plan":
		c.finishText(ctx, th, w.ID, it, w.Text)
	case "reasoning":
		if !it.streamed && len(w.Summary) > 0 {
			c.reasoningDelta(ctx, th, params{TurnID: p.TurnID, ItemID: w.ID, Delta: strings.Join(w.Summary, "\n\n")})
		}
	case "commandExecution":
		c.finishCommand(ctx, th, p.TurnID, it, w)
	case "fileChange":
		c.applyOnce(ctx, th, th.finished(p.TurnID, w.ID), &state.SessionToolCallComplete{TurnID: p.TurnID, ToolCallID: w.ID, Result: state.ToolCallResult{
			Success: w.Status == "completed", PastTenseMessage: state.Plain(pastTense(w.Status, "Edited ") + fileNames(w.Changes)), Content: fileEdits(w.Changes),
		}})
	default:
		c.applyOnce(ctx, th, th.finished(p.TurnID, w.ID), &state.SessionToolCallComplete{TurnID: p.TurnID, ToolCallID: w.ID, Result: state.ToolCallResult{
			Success: w.Status != "failed", PastTenseMessage: state.Plain("Codex: " + shorten(w.Type, 80)),
		}})
	}
}

func pastTense(status, done string) string {
	if status == "completed" {
		return done
	}
	return "Not done (" + shorten(status, 20) + "): "
}

// finishText adds what the deltas have left out. The completed text is the
// truth; if it is another one, it is shown as well, below what was streamed.
func (c *conn) finishText(ctx context.Context, th *thread, id string, it *item, text string) {
	if rest, ok := strings.CutPrefix(text, string(it.text)); ok {
		if rest != "" {
			c.textDelta(ctx, th, params{TurnID: it.turn, ItemID: id, Delta: rest})
		}
		return
	}
	c.log.Warn("a completed message differs from what was streamed", "item", id)
	c.apply(ctx, th, &state.SessionResponsePart{TurnID: it.turn, Part: &state.MarkdownPart{ID: id + "/completed", Content: state.NewText(text)}})
}

func (c *conn) textDelta(ctx context.Context, th *thread, p params) {
	it := c.start(ctx, th, p.TurnID, p.ItemID, "agentMessage", wireItem{})
	it.text = append(it.text, p.Delta...)
	c.apply(ctx, th, &state.SessionDelta{TurnID: it.turn, PartID: p.ItemID, Content: p.Delta})
}

func (c *conn) reasoningDelta(ctx context.Context, th *thread, p params) {
	it := c.start(ctx, th, p.TurnID, p.ItemID, "reasoning", wireItem{})
	delta := p.Delta
	if it.streamed && p.Index != it.section {
		delta = "\n\n" + delta
	}
	it.section, it.streamed = p.Index, true
	c.apply(ctx, th, &state.SessionReasoning{TurnID: it.turn, PartID: p.ItemID, Content: delta})
}

// content refers to the terminal of a command.
func (it *item) content() []state.ToolResultContent {
	return []state.ToolResultContent{state.TerminalContent(it.terminal, "Output")}
}

// show puts a command's terminal into its tool call, once the command runs.
func (c *conn) show(th *thread, id string, it *item) []state.Envelope {
	if it.shown {
		return nil
	}
	it.shown = true
	return []state.Envelope{
		{Channel: th.uri, Action: &state.SessionToolCallContentChanged{TurnID: it.turn, ToolCallID: id, Content: it.content()}},
		{Channel: it.terminal, Action: &state.TerminalCommandExecuted{CommandID: id, CommandLine: it.wire.Command, Timestamp: it.wire.StartedAtMs}},
	}
}

func (c *conn) outputDelta(ctx context.Context, th *thread, p params) {
	it := c.start(ctx, th, p.TurnID, p.ItemID, "commandExecution", wireItem{})
	data := state.Envelope{Channel: it.terminal, Action: &state.TerminalData{Data: p.Delta}}
	it.streamed = true
	c.sink.Apply(ctx, th.uri, state.Source{}, append(c.show(th, p.ItemID, it), data)...)
}

func (c *conn) finishCommand(ctx context.Context, th *thread, turn string, it *item, w wireItem) {
	if w.Status == "declined" { // by a person, whose answer has ended the call, or by Codex itself
		c.applyOnce(ctx, th, th.finished(turn, w.ID), &state.SessionToolCallComplete{TurnID: turn, ToolCallID: w.ID, Result: state.ToolCallResult{
			PastTenseMessage: state.Plain("Codex declined to run " + w.summary()),
		}})
		return
	}
	actions := c.show(th, w.ID, it)
	if it.holes && it.streamed && w.AggregatedOutput != "" { // what is whole takes the place of what is not
		actions = append(actions, state.Envelope{Channel: it.terminal, Action: &state.TerminalCleared{}},
			state.Envelope{Channel: it.terminal, Action: &state.TerminalCommandExecuted{CommandID: w.ID, CommandLine: w.Command, Timestamp: w.StartedAtMs}})
		it.streamed = false
	}
	if !it.streamed && w.AggregatedOutput != "" {
		actions = append(actions, state.Envelope{Channel: it.terminal, Action: &state.TerminalData{Data: w.AggregatedOutput}})
	}
	result := state.ToolCallResult{
		Success:          w.Status == "completed" && (w.ExitCode == nil || *w.ExitCode == 0),
		PastTenseMessage: state.Plain(pastTense(w.Status, "Ran ") + w.summary()),
		Content:          it.content(),
	}
	if w.Status == "failed" && w.ExitCode != nil {
		result.PastTenseMessage = state.Plain("Ran " + w.summary())
	}
	actions = append(actions,
		state.Envelope{Channel: it.terminal, Action: &state.TerminalCommandFinished{CommandID: w.ID, ExitCode: w.ExitCode, DurationMs: w.DurationMs}},
		state.Envelope{Channel: th.uri, Action: &state.SessionToolCallComplete{TurnID: turn, ToolCallID: w.ID, Result: result}},
	)
	c.sink.Apply(ctx, th.uri, th.finished(turn, w.ID), actions...)
}

func (c *conn) patchUpdated(ctx context.Context, th *thread, p params) {
	it := th.items[p.ItemID]
	if it == nil || it.done || it.kind != "fileChange" {
		return
	}
	it.wire.Changes = p.Changes
	c.apply(ctx, th, &state.SessionToolCallReady{TurnID: it.turn, ToolCallID: p.ItemID,
		InvocationMessage: state.Plain("Edit " + fileNames(p.Changes)), ToolInput: new(unified(p.Changes)), Confirmed: state.ConfirmedNotNeeded})
}

// ---- file changes ----

func fileNames(cs []fileChange) string {
	const most = 3
	var names []string
	for i, f := range cs {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(cs)-most))
			break
		}
		names = append(names, f.Path)
	}
	return strings.Join(names, ", ")
}

// unified makes one unified diff of Codex's changes: it sends hunks for an
// update, but the bare text of a file that is added or deleted.
func unified(cs []fileChange) string {
	var b strings.Builder
	for _, f := range cs {
		from, to := f.Path, f.Path
		if f.Kind.MovePath != "" {
			to = f.Kind.MovePath
		}
		switch f.Kind.Type {
		case "add":
			from = "/dev/null"
		case "delete":
			to = "/dev/null"
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", headerName(from), headerName(to))
		switch f.Kind.Type {
		case "add":
			whole(&b, "+", f.Diff)
		case "delete":
			whole(&b, "-", f.Diff)
		default:
			b.WriteString(f.Diff)
			if !strings.HasSuffix(f.Diff, "\n") {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// headerName quotes a name that could be taken for more than a name.
func headerName(path string) string {
	if strings.ContainsFunc(path, unicode.IsControl) || strings.HasPrefix(path, `"`) {
		return strconv.Quote(path)
	}
	return path
}

func whole(b *strings.Builder, sign, text string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if sign == "+" {
		fmt.Fprintf(b, "@@ -0,0 +1,%d @@\n", len(lines))
	} else {
		fmt.Fprintf(b, "@@ -1,%d +0,0 @@\n", len(lines))
	}
	for _, l := range lines {
		b.WriteString(sign + l + "\n")
	}
}

func fileEdits(cs []fileChange) []state.ToolResultContent {
	var out []state.ToolResultContent
	for _, f := range cs {
		e := state.ToolResultContent{Type: "fileEdit", Diff: diffSize(f)}
		side := func(path string) *state.FileSide {
			uri := state.FileURI(path)
			ref, _ := json.Marshal(map[string]string{"uri": uri}) // strings always encode
			return &state.FileSide{URI: uri, Content: ref}
		}
		if f.Kind.Type != "add" {
			e.Before = side(f.Path)
		}
		switch {
		case f.Kind.MovePath != "":
			e.After = side(f.Kind.MovePath)
		case f.Kind.Type != "delete":
			e.After = side(f.Path)
		}
		out = append(out, e)
	}
	return out
}

func diffSize(f fileChange) *state.DiffSize {
	n := int64(0)
	for range strings.Lines(f.Diff) {
		n++
	}
	switch f.Kind.Type {
	case "add":
		return &state.DiffSize{Added: &n}
	case "delete":
		return &state.DiffSize{Removed: &n}
	}
	var added, removed int64
	for l := range strings.Lines(f.Diff) {
		switch l[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return &state.DiffSize{Added: &added, Removed: &removed}
}
