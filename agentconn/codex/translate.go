package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"nod/agentconn/plain"
	"nod/state"
)

// thread is what the reader knows of one Codex thread.
type thread struct {
	id, uri string
	turn    string          // of the turn in progress, "" if none
	foreign string          // a turn that has started and that nod has not begun yet
	past    map[string]bool // turns that have ended
	review  string          // what the newest review found
	reviews bool            // a review runs, and nobody can say anything to it
	message string          // that the turn in progress began with
	heard   bool            // Codex has told of that message as an item
	failure string          // why the turn in progress is going to fail
	usage   tokens          // of the turn in progress
	items   map[string]*item
	tools   map[string]json.RawMessage // ids of the requests to run a tool, by call
	plan    []planStep
	planWhy string
	context fullness
	model   string
	goal    string
	active  bool                 // the page shows an activity that ends with the next item
	waiting []state.ResponsePart // notes that came while there was no turn to show them in
	unknown int                  // of the turn in progress, messages that nod does not understand
	typed   int                  // of the turn in progress, how often something was typed into a command

	config   map[string]string                // settings in force
	steering []state.SessionPendingMessageSet // that Codex has not told yet

	untitled  bool              // its session has no title yet
	replaying bool              // what it waits for is being asked again
	asked     []json.RawMessage // ids of what was asked meanwhile
	rests     time.Time         // since when nothing runs; zero while something does
}

type tokens struct {
	InputTokens       int64 `json:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens"`
	OutputTokens      int64 `json:"outputTokens"`
	TotalTokens       int64 `json:"totalTokens"`
}

// fullness is how much of what a model can read at once is in use.
type fullness struct {
	Tokens int64 `json:"tokens"`
	Window int64 `json:"window"` // what Codex lets be used of it; 0: not known
}

type wireTurn struct {
	ID         string     `json:"id"`
	RootTurnID string     `json:"rootTurnId"`
	Status     string     `json:"status"` // completed, interrupted, failed, inProgress
	Error      *wireError `json:"error"`
	DurationMs *int64     `json:"durationMs"`
}

type wireError struct {
	Message           string          `json:"message"`
	CodexErrorInfo    json.RawMessage `json:"codexErrorInfo"` // a word, or an object of one key
	AdditionalDetails string          `json:"additionalDetails"`
}

// params holds the fields of the notifications about turns and items.
type params struct {
	ThreadID     string          `json:"threadId"`
	TurnID       string          `json:"turnId"`
	ItemID       string          `json:"itemId"`
	Delta        string          `json:"delta"`
	SummaryIndex int             `json:"summaryIndex"`
	ContentIndex int             `json:"contentIndex"`
	Item         wireItem        `json:"item"`
	Turn         wireTurn        `json:"turn"`
	Plan         []planStep      `json:"plan"`
	Explanation  string          `json:"explanation"` // of a plan
	RequestID    json.RawMessage `json:"requestId"`
	Message      string          `json:"message"` // of a call's progress
	Stdin        string          `json:"stdin"`
	Changes      []fileChange    `json:"changes"`
	TokenUsage   struct {
		Last               tokens `json:"last"`
		ModelContextWindow int64  `json:"modelContextWindow"`
	} `json:"tokenUsage"`
}

func (p params) thread() string { return p.ThreadID }

// handler takes the parameters of a notification. It reports false if it cannot
// read them.
type handler func(*conn, context.Context, json.RawMessage) bool

// on handles a notification about a thread. A thread that nod does not have is
// another client's, or a helper thread of Codex's own.
func on[P interface{ thread() string }](f func(*conn, context.Context, *thread, P)) handler {
	return func(c *conn, ctx context.Context, raw json.RawMessage) bool {
		var p P
		if json.Unmarshal(raw, &p) != nil {
			return false
		}
		if th := c.threads[p.thread()]; th != nil {
			f(c, ctx, th, p)
		}
		return true
	}
}

// handlers are the notifications that change what a person sees.
var handlers = map[string]handler{
	"thread/started":        broadcast((*conn).threadStarted),
	"thread/status/changed": broadcast((*conn).statusChanged),
	"thread/closed":         broadcast((*conn).threadClosed),
	"thread/deleted":        broadcast((*conn).threadClosed), // what nod has seen of it stays
	"thread/archived":       broadcast((*conn).threadArchived),
	"thread/unarchived":     broadcast((*conn).threadUnarchived),

	"thread/settings/updated": broadcast((*conn).settingsUpdated),

	"turn/started":                              on((*conn).turnStarted),
	"turn/completed":                            on((*conn).turnCompleted),
	"turn/plan/updated":                         on((*conn).planUpdated),
	"item/started":                              on((*conn).itemStarted),
	"item/completed":                            on((*conn).itemCompleted),
	"item/agentMessage/delta":                   on((*conn).messageDelta),
	"item/plan/delta":                           on((*conn).planDelta),
	"item/reasoning/summaryTextDelta":           on((*conn).summaryDelta),
	"item/reasoning/textDelta":                  on((*conn).thoughtDelta),
	"item/commandExecution/outputDelta":         on((*conn).outputDelta),
	"item/commandExecution/terminalInteraction": on((*conn).typed),
	"item/fileChange/outputDelta":               on((*conn).patchOutput),
	"item/fileChange/patchUpdated":              on((*conn).patchUpdated),
	"item/mcpToolCall/progress":                 on((*conn).progress),
	"serverRequest/resolved":                    on((*conn).resolved),
	"thread/name/updated":                       on((*conn).nameUpdated),
	"thread/tokenUsage/updated":                 on((*conn).tokenUsage),
	"thread/goal/updated":                       on((*conn).goalUpdated),
	"thread/reverted":                           on((*conn).reverted),
	"thread/environment/connected":              on((*conn).environmentConnected),
	"thread/environment/disconnected":           on((*conn).environmentDisconnected),
	"thread/realtime/transcript/done":           on((*conn).spoken),
	"thread/realtime/error":                     on((*conn).warned),
	"error":                                     on((*conn).errorNote),
	"guardianWarning":                           on((*conn).warned),
	"hook/started":                              on((*conn).hookStarted),
	"hook/completed":                            on((*conn).hookCompleted),
	"item/autoApprovalReview/started":           on((*conn).reviewStarted),
	"item/autoApprovalReview/completed":         on((*conn).reviewCompleted),
	"autoApprovalReview/strictReviewRequired":   on((*conn).strictReview),
	"model/rerouted":                            on((*conn).rerouted),
	"model/verification":                        on((*conn).verification),
	"model/safetyBuffering/updated":             on((*conn).safetyBuffering),
	"modelProvider/authRecoveryStarted":         on((*conn).authRecovery),
	"modelProvider/authRecoveryCompleted":       on((*conn).authRecovery),

	"warning":                         about((*conn).warning),
	"configWarning":                   about((*conn).configWarning),
	"deprecationNotice":               about((*conn).deprecation),
	"account/rateLimits/updated":      about((*conn).rateLimits),
	"account/gatewayOAuth/changed":    about((*conn).gatewayLogin),
	"mcpServer/startupStatus/updated": about((*conn).serverStarted),
	"mcpServer/oauthLogin/completed":  about((*conn).serverLogin),
}

// Why a notification is ignored.
const (
	otherPlace = "another notification, or an item, says it in a better form"
	notStarted = "it belongs to something that nod never starts"
	forOthers  = "it is for how other clients arrange their lists"
	ofAccount  = "nod shows no account"
	windows    = "it is about the sandbox of Windows"
)

// ignored are the notifications that a person need not see, and why.
var ignored = map[string]string{
	"turn/diff/updated": otherPlace, "thread/compacted": otherPlace, "thread/goal/cleared": otherPlace,
	"item/reasoning/summaryPartAdded": otherPlace, "turn/moderationMetadata": otherPlace,

	"command/exec/outputDelta": notStarted, "process/outputDelta": notStarted, "process/exited": notStarted,
	"fs/changed": notStarted, "fuzzyFileSearch/sessionUpdated": notStarted, "fuzzyFileSearch/sessionCompleted": notStarted,
	"thread/search/partial": notStarted, "mcpServer/event/stream/notification": notStarted,
	"externalAgentConfig/import/progress": notStarted, "externalAgentConfig/import/completed": notStarted,
	"thread/realtime/started": notStarted, "thread/realtime/closed": notStarted, "thread/realtime/sdp": notStarted,
	"thread/realtime/itemAdded": notStarted, "thread/realtime/item/started": notStarted, "thread/realtime/item/completed": notStarted,
	"thread/realtime/item/transcript/delta": notStarted, "thread/realtime/transcript/delta": notStarted,
	"thread/realtime/outputAudio/delta": notStarted,

	"thread/readState/changed": forOthers, "thread/section/changed": forOthers, "thread/attachment/updated": forOthers,
	"thread/prediction/updated": forOthers, "thread/queue/changed": forOthers, "project/changed": forOthers,
	"thread/project/updated": forOthers, "skills/changed": forOthers, "app/list/updated": forOthers,
	"remoteControl/status/changed": forOthers,

	"account/updated": ofAccount, "account/login/completed": ofAccount,

	"windows/worldWritableWarning": windows, "windowsSandbox/setupCompleted": windows,
}

func (c *conn) notification(ctx context.Context, m message, line []byte) {
	if why := ignored[m.Method]; why != "" {
		c.log.Debug("a notification is ignored", "method", m.Method, "why", why)
		return
	}
	if handle := handlers[m.Method]; handle != nil && !plain.TooDeep(m.Params) && handle(c, ctx, m.Params) {
		return
	}
	if c.board.odd++; c.board.odd > maxOdd {
		return
	}
	c.log.Info("a notification that nod does not understand", "method", plain.Shorten(m.Method, 80), "last", c.board.odd == maxOdd)
	var at at
	_ = json.Unmarshal(m.Params, &at) // for the thread, if it names one
	th := c.threads[at.ThreadID]
	if th == nil {
		c.sink.Opaque(ctx, "", line)
		return
	}
	c.sink.Opaque(ctx, th.uri, line)
	c.unknownNote(ctx, th, m.Method, line)
}

// gathered is what a turn that has passed comes to, in the order it is told in.
type gathered struct {
	th        *thread
	envelopes []state.Envelope
}

// send is the way of all actions into the hub. Those of a turn that has passed go
// together: each on its own would cost a write to the disk.
func (c *conn) send(ctx context.Context, th *thread, from state.Source, envelopes ...state.Envelope) {
	if c.gather == nil {
		c.sink.Apply(ctx, th.uri, from, envelopes...)
		return
	}
	if c.gather.th != th { // a sub-agent's come after the call that began it
		c.flush(ctx)
		c.gather.th = th
	}
	c.gather.envelopes = append(c.gather.envelopes, envelopes...)
}

func (c *conn) flush(ctx context.Context) {
	if g := c.gather; len(g.envelopes) > 0 {
		c.sink.Apply(ctx, g.th.uri, state.Source{}, g.envelopes...)
		g.envelopes = nil
	}
}

// settle sends what was gathered, and gathers no more.
func (c *conn) settle(ctx context.Context) {
	if c.gather != nil {
		c.flush(ctx)
		c.gather = nil
	}
}

// apply sends session actions that no replay repeats.
func (c *conn) apply(ctx context.Context, th *thread, actions ...state.Action) {
	c.send(ctx, th, state.Source{}, th.envelopes(actions)...)
}

// applyOnce sends session actions of a step in the life of a turn or an item.
// Codex tells these again when a thread is resumed.
func (c *conn) applyOnce(ctx context.Context, th *thread, from state.Source, actions ...state.Action) {
	c.send(ctx, th, from, th.envelopes(actions)...)
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

// planStep is a TurnPlanStep.
type planStep struct {
	Step   string `json:"step"`
	Status string `json:"status"`
}

func (th *thread) meta() state.Meta {
	m := state.Meta{}
	if th.plan != nil {
		m["nod.plan"] = plain.Value(th.plan)
	}
	if th.planWhy != "" {
		m["nod.planWhy"] = plain.Value(th.planWhy)
	}
	if th.context.Window > 0 {
		m["nod.context"] = plain.Value(th.context)
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
	th.message, th.heard, th.failure, th.unknown, th.typed, th.reviews = m.Text, false, "", 0, 0, false
	// Of an older turn only a command may still be running.
	maps.DeleteFunc(th.items, func(_ string, it *item) bool { return it.done || it.kind != "commandExecution" })
	actions := []state.Action{&state.SessionTurnStarted{TurnID: turn, Message: m}}
	if title := state.TitleOf(m.Text); th.untitled && title != "" {
		th.untitled = false
		actions = append(actions, &state.SessionTitleChanged{Title: title})
	}
	c.applyOnce(ctx, th, th.began(turn), actions...)
	notes := append(th.waiting, c.board.waiting...)
	th.waiting, c.board.waiting = nil, nil
	for _, part := range notes {
		c.note(ctx, th, part)
	}
}

func (c *conn) turnStarted(_ context.Context, th *thread, p params) {
	// A review's own turn is part of the one that its items name.
	if id := cmp.Or(p.Turn.RootTurnID, p.Turn.ID); id != th.turn {
		th.foreign = id
	}
}

// admit begins a turn that nod did not start, with the first that is heard of it:
// that is its message, if it has one. A command may end after its turn.
func (c *conn) admit(ctx context.Context, th *thread, turn, message string) {
	if turn != "" && turn != th.turn && !th.past[turn] && (th.turn == "" || th.foreign == turn) {
		th.begin(ctx, c, turn, state.UserMessage(message))
	}
}

func (c *conn) turnCompleted(ctx context.Context, th *thread, p params) {
	c.admit(ctx, th, p.Turn.ID, "")
	var actions []state.Envelope
	add := func(a state.Action) { actions = append(actions, state.Envelope{Channel: th.uri, Action: a}) }
	// Interrupt and steer leave items open without a word. A call keeps what it
	// has shown only if it completes.
	for _, it := range th.open(p.Turn.ID) {
		if it.kind == "commandExecution" && p.Turn.Status == "completed" { // it runs on in the background
			actions = append(actions, c.show(th, it)...)
		}
		if len(it.content) > 0 {
			add(&state.SessionToolCallComplete{TurnID: it.turn, ToolCallID: it.id, Result: state.ToolCallResult{
				PastTenseMessage: state.Plain("Was still running when the turn ended"), Content: it.content,
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
		kind, sentence := "error", th.failure
		if e := p.Turn.Error; e != nil {
			kind, sentence = e.kind(), e.sentence()
		}
		if sentence == "" {
			sentence = "Codex gave no reason."
		}
		add(&state.SessionError{TurnID: p.Turn.ID, Error: state.ErrorInfo{ErrorType: "codex." + kind, Message: sentence}})
	default:
		add(&state.SessionTurnComplete{TurnID: p.Turn.ID})
	}
	add(&state.SessionActivityChanged{})
	if th.turn == p.Turn.ID {
		th.turn, th.active = "", false
	}
	th.past[p.Turn.ID] = true
	c.send(ctx, th, th.ended(p.Turn.ID), actions...)
}

// kind names the error.
func (e wireError) kind() string { return cmp.Or(oneWord(e.CodexErrorInfo), "error") }

// oneWord returns what is a word, or an object of one key, as a word.
func oneWord(raw json.RawMessage) string {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		return word
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		for k := range object {
			return k
		}
	}
	return ""
}

// sentence is what the error says to a person.
func (e wireError) sentence() string { return plain.Joined(": ", e.Message, e.AdditionalDetails) }

func (c *conn) planUpdated(ctx context.Context, th *thread, p params) {
	th.plan, th.planWhy = p.Plan, plain.Shorten(p.Explanation, plain.MaxNote)
	c.apply(ctx, th, &state.SessionMetaChanged{Meta: th.meta()})
}

func (c *conn) tokenUsage(ctx context.Context, th *thread, p params) {
	var actions []state.Action
	l := p.TokenUsage.Last
	if full := (fullness{l.TotalTokens, p.TokenUsage.ModelContextWindow}); full.Window > 0 && full != th.context {
		th.context = full
		actions = append(actions, &state.SessionMetaChanged{Meta: th.meta()})
	}
	if th.turn != "" && p.TurnID == th.turn {
		th.usage.InputTokens += l.InputTokens
		th.usage.CachedInputTokens += l.CachedInputTokens
		th.usage.OutputTokens += l.OutputTokens
		actions = append(actions, th.usageAction(p.TurnID, nil))
	}
	c.apply(ctx, th, actions...)
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

// knowChild listens to the thread of a sub-agent. A tool call that refers to its
// session must have been told: the session begins with that. The sub-agent may
// have begun its turn before Codex told whose it is.
func (c *conn) knowChild(parent *thread, id string) {
	if c.threads[id] != nil {
		return
	}
	th := newThread(id)
	th.model = parent.model
	c.threads[id] = th
	c.running.Go(func() { c.awake(id) })
}
