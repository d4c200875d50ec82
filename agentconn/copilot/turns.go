package copilot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nod/agentconn/plain"
	"nod/state"
)

// userMessage is the data of user.message.
type userMessage struct {
	MessageID   string          `json:"messageId"`
	Content     string          `json:"content"`
	Source      string          `json:"source"`
	Delivery    string          `json:"delivery"` // idle, queued, steering
	Attachments json.RawMessage `json:"attachments"`
	GoesOn      bool            `json:"isAutopilotContinuation"`
}

// id is that of the turn which the message begins.
func (m userMessage) id(e event) string { return cmp.Or(m.MessageID, e.ID) }

// within reports whether the message is said into a turn, or written by the CLI for
// the model.
func (m userMessage) within() bool {
	return m.Delivery == "steering" || strings.HasPrefix(m.Source, "skill-")
}

// message is a user.message as AHP has it.
func (m userMessage) message() state.Message {
	out := state.UserMessage(m.Content)
	if m.GoesOn || strings.HasPrefix(m.Source, "agent-") {
		out.Origin = byItself
	}
	out.Attachments = attachments(m.Attachments)
	return out
}

// said: a message begins a turn, or is said to the one in progress.
func (a *agent) said(ctx context.Context, e event) bool {
	var m userMessage
	if json.Unmarshal(e.Data, &m) != nil {
		return false
	}
	id := m.id(e)
	switch {
	case id == a.turn: // nod has begun it when the call was answered
		a.since = a.session.at
	case strings.HasPrefix(m.Source, "skill-"): // written by the CLI, for the model
	case m.Delivery == "steering" && a.turn != "":
		a.taken(id, m.Content)
		a.session.past[id] = true // it begins no turn any more
		a.apply(&state.SessionResponsePart{TurnID: a.turn, Part: &state.NotificationPart{
			Content: state.Plain(plain.Joined("\n\nWith it: ", m.Content, labels(m.Attachments))), Meta: state.Meta{"nod.said": plain.Value("user")},
		}})
	default:
		a.end()
		a.begin(id, m.message())
	}
	return true
}

// begin starts a turn.
func (a *agent) begin(id string, m state.Message) {
	s := a.session
	if id == a.turn {
		return
	}
	a.turn, a.failure, a.usage, a.unknown, a.thought, a.own = id, nil, usage{}, 0, "", ""
	a.texts, a.void, a.concluded, a.since = map[string]*text{}, map[bool]string{}, false, s.at
	for id, c := range s.calls { // of an older turn only a command may still run
		if c.agent == a && c.done && c.shell == "" {
			delete(s.calls, id)
		}
	}
	if s.gathers && a == s.main {
		s.turnGathered()
	}
	actions := []state.Action{&state.SessionTurnStarted{TurnID: id, Message: m}}
	if title := state.TitleOf(m.Text); a == s.main && !s.titled && title != "" {
		s.titled = true
		actions = append(actions, &state.SessionTitleChanged{Title: title})
	}
	a.apply(actions...)
	if a == s.main {
		for _, part := range s.waiting {
			a.apply(&state.SessionResponsePart{TurnID: id, Part: part})
		}
		s.waiting = nil
	}
}

// byItself is the origin of what no person has said.
var byItself = state.MessageOrigin{Kind: "systemNotification"}

// beginAlone starts a turn that Copilot begins by itself, because something in the
// background has ended.
func (a *agent) beginAlone(id string) { a.begin(id, state.Message{Origin: byItself}) }

// step: the model is asked.
func (a *agent) step(_ context.Context, e event) bool {
	if a.turn == "" {
		a.beginAlone(e.ID)
	}
	a.stepping = true
	a.quiet()
	return true
}

// stepEnded: the model was asked, and what it wanted is done. Files do not tell that a
// turn is over; it is when the model wanted nothing more.
func (a *agent) stepEnded(context.Context, struct{}) {
	a.stepping = false
	if a.session.room.elsewhere != "" && a.concluded {
		a.end()
	}
}

// waits: the main agent has done what it can do before something in the background
// ends.
func (a *agent) waits(context.Context, ended) {
	for _, sub := range a.session.subs {
		if sub.turn != "" {
			a.activity("Waits for its sub-agents")
			return
		}
	}
	for _, c := range a.session.calls {
		if c.shell != "" {
			a.activity("Waits for commands in the background")
			return
		}
	}
}

// quiet ends an activity that lasts until the next step.
func (a *agent) quiet() {
	if a.active {
		a.active = false
		a.apply(&state.SessionActivityChanged{})
	}
}

// activity says what the agent does right now. It ends with the next step.
func (a *agent) activity(words string) {
	if a.turn == "" || words == "" {
		return
	}
	a.active = true
	a.apply(&state.SessionActivityChanged{Activity: new(plain.Shorten(words, 200))})
}

type ended struct {
	Aborted bool `json:"aborted"`
}

// idle: the turn, the queue behind it, and what ran in the background is done.
func (a *agent) idle(_ context.Context, p ended) {
	s := a.session
	done := (*agent).end
	if p.Aborted {
		done = (*agent).cancel
	}
	done(a)
	if a == s.main {
		for _, sub := range s.subs {
			done(sub)
		}
		if !s.catching { // else what came meanwhile may be of an earlier turn
			s.heard.turned()
		}
		s.rested()
	}
}

// end ends the turn in progress.
func (a *agent) end() {
	if a.turn == "" {
		return
	}
	turn := a.turn
	if a.failure != nil {
		a.close(&state.SessionError{TurnID: turn, Error: *a.failure})
	} else {
		a.close(&state.SessionTurnComplete{TurnID: turn})
	}
}

type aborted struct {
	Reason string `json:"reason"`
}

// abort ends what is open: nothing else tells its end.
func (a *agent) abort(_ context.Context, p aborted) {
	if p.Reason != "" && p.Reason != "user_initiated" && p.Reason != "user_abort" {
		a.note(warnNote, "Copilot has stopped this turn: "+plain.Words(p.Reason)+".")
	}
	a.cancel()
}

func (a *agent) cancel() {
	if a.turn != "" {
		a.close(&state.SessionTurnCancelled{TurnID: a.turn})
	}
}

// close ends the turn with an action.
func (a *agent) close(how state.Action) {
	for _, c := range a.session.calls {
		if c.agent == a && c.turn == a.turn && !c.done && len(c.content) > 0 {
			if c.isCommand() {
				a.tell(c.finished(nil))
			}
			a.apply(&state.SessionToolCallComplete{TurnID: c.turn, ToolCallID: c.id, Result: state.ToolCallResult{
				PastTenseMessage: state.Plain("Was still running when the turn ended"), Content: c.content,
			}})
		}
		if c.agent == a {
			c.done = true
		}
	}
	a.session.asks = slices.DeleteFunc(a.session.asks, func(k *ask) bool { return k.agent == a && k.request.TurnID == a.turn })
	a.apply(how, &state.SessionActivityChanged{})
	a.session.past[a.turn] = true
	a.turn, a.active, a.failure, a.stepping, a.writing, a.steering = "", false, nil, false, "", nil
}

type failure struct {
	ErrorType  string `json:"errorType"`
	ErrorCode  string `json:"errorCode"`
	Message    string `json:"message"`
	StatusCode int64  `json:"statusCode"`
	URL        string `json:"url"`
	Remedy     string `json:"remediation"`
}

// failed: the turn is going to end with an error, or, where none is in progress,
// something of the session went wrong.
func (a *agent) failed(_ context.Context, p failure) {
	sentence := plain.Shorten(cmp.Or(p.Message, "Copilot reports an error and gives no reason."), plain.MaxNote)
	if p.StatusCode != 0 && !strings.Contains(sentence, fmt.Sprint(p.StatusCode)) {
		sentence += fmt.Sprintf(" (HTTP %d)", p.StatusCode)
	}
	if p.URL != "" {
		sentence += " " + plain.Shorten(p.URL, 300)
	}
	if p.Remedy == "sign_in" || strings.Contains(p.Message, "No GitHub OAuth token") { // a server that was started without a login
		sentence += " " + whatToDo
	}
	if a.turn == "" {
		a.note(warnNote, sentence)
		return
	}
	a.failure = &state.ErrorInfo{ErrorType: "copilot." + plain.Shorten(cmp.Or(p.ErrorType, "error"), 80), Message: sentence}
}

// ---- tokens ----

type usageData struct {
	Model        string           `json:"model"`
	InputTokens  int64            `json:"inputTokens"`
	OutputTokens int64            `json:"outputTokens"`
	CacheRead    int64            `json:"cacheReadTokens"`
	Quotas       map[string]quota `json:"quotaSnapshots"`
}

// used counts the tokens of a call of the model.
func (a *agent) used(_ context.Context, p usageData) {
	for name, q := range p.Quotas {
		a.tellQuota(name, q)
	}
	if a.turn == "" {
		return
	}
	u := &a.usage
	u.input, u.output, u.cached = u.input+p.InputTokens, u.output+p.OutputTokens, u.cached+p.CacheRead
	input, output, cached := u.input, u.output, u.cached
	meta := state.Meta{}
	if took := a.session.at - a.since; a.since > 0 && took > 0 {
		meta["nod.durationMs"] = plain.Value(took)
	}
	a.apply(&state.SessionUsage{TurnID: a.turn, Usage: state.UsageInfo{
		InputTokens: &input, OutputTokens: &output, CacheReadTokens: &cached, Model: state.Optional(p.Model), Meta: meta,
	}})
}

type contextData struct {
	TokenLimit    int64 `json:"tokenLimit"`
	CurrentTokens int64 `json:"currentTokens"`
}

// filled says how much of what the model can read at once is in use.
func (a *agent) filled(_ context.Context, p contextData) {
	if p.TokenLimit > 0 {
		a.remember("nod.context", struct {
			Tokens int64 `json:"tokens"`
			Window int64 `json:"window"`
		}{p.CurrentTokens, p.TokenLimit})
	}
}

// remember keeps something in the _meta of the session, which is replaced as a whole.
// Of a sub-agent it is not kept.
func (a *agent) remember(key string, v any) {
	s := a.session
	raw := plain.Value(v)
	if a != s.main || string(s.meta[key]) == string(raw) {
		return
	}
	s.meta[key] = raw
	m := state.Meta{}
	for k, v := range s.meta {
		m[k] = v
	}
	a.apply(&state.SessionMetaChanged{Meta: m})
}

// ---- steering ----

// taken follows a message that Copilot has taken into the turn. One of which nod does not
// know the id, since another nod has said it, is known by its text.
func (a *agent) taken(id, text string) {
	i := slices.IndexFunc(a.steering, func(m steering) bool { return m.message == id })
	if i < 0 {
		i = slices.IndexFunc(a.steering, func(m steering) bool { return m.Message.Text == text })
	}
	if i >= 0 {
		newest := a.steering[len(a.steering)-1].ID
		a.steering = slices.Concat(a.steering[:i], a.steering[i+1:])
		a.apply(a.steers(newest))
	}
}

// steers shows what Copilot has not taken yet. AHP has room for one such message, so
// several are shown as one, under the id of the newest.
func (a *agent) steers(id string) state.Action {
	if len(a.steering) == 0 {
		return &state.SessionPendingMessageRemoved{Kind: state.PendingSteering, ID: id}
	}
	var texts []string
	var attached []state.MessageAttachment
	for _, m := range a.steering {
		texts, attached = append(texts, m.Message.Text), append(attached, m.Message.Attachments...)
	}
	m := state.UserMessage(strings.Join(texts, "\n\n"))
	m.Attachments = attached
	return &state.SessionPendingMessageSet{Kind: state.PendingSteering, ID: id, Message: m}
}
