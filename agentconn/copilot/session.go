package copilot

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

// room is where sessions are heard: a server, or the files on disk.
type room struct {
	sink      agentconn.Sink
	key       string // of the link
	provider  string
	epoch     string // of one run of the server
	log       *slog.Logger
	odd       int                  // events that nod does not understand
	elsewhere string               // why nothing can be answered here; "" if it can
	rests     func(session string) // is told when a session has ended its turn; nil if nobody wants to know
	queues    func(session string) // is told when what waits at Copilot has changed; nil if nobody can read it
	todos     func(session string) // is told when a session has other todos; nil if nobody can read them
}

// session is what nod knows of a Copilot session. Who reads it owns it: the reader
// of a link, or who follows a file.
type session struct {
	room  *room
	id    string
	place string // where its permanent rules hold, "" if that is not known
	main  *agent
	subs  map[string]*agent // sub-agents by their ids
	calls map[string]*call  // tool calls that may still be heard of, by their ids
	asks  []*ask            // what is waited for
	heard heard

	past    map[string]bool      // turns that have ended
	skips   bool                 // what is told is of a turn that has ended
	config  map[string]string    // settings in force, by nod's names
	meta    state.Meta           // of the session, which is replaced as a whole
	titled  bool                 // nod has a title for it
	name    string               // the newest that Copilot has told
	waiting []state.ResponsePart // notes that came while there was no turn to show them in
	told    []string             // the newest sentences that are not told again
	replans bool                 // its todos have changed while its log was read
	works   workplace            // where it works
	queue   []queueItem          // what waits at Copilot, whole

	catching bool    // its log is being read
	late     []event // what came meanwhile
	gathers  bool    // what is told goes to the hub in one piece, at the end
	starts   []int   // where in out turns begin that are gathered
	from     state.Source
	at       int64 // when the event was said that is being handled, Unix milliseconds
	out      []batch
}

// batch is a list of actions for one session of nod's.
type batch struct {
	uri       string
	envelopes []state.Envelope
}

// ask is a request that waits for a person, with the actions that show it.
type ask struct {
	agent   *agent
	request state.Request
	shows   []state.Envelope
	option  state.OptionKind // of nod's answer, "" if none is on its way or was taken
	taken   bool             // nod's answer was
	unsure  bool             // whether it was taken is not known
	ended   *outcome         // heard while nod's answer was on its way
}

// outcome is what Copilot tells of a request that has ended.
type outcome struct {
	withdrawn bool
	option    state.OptionKind // "" if it does not say
}

// agent is the main agent of a session, or a sub-agent, which nod shows as a session
// of its own.
type agent struct {
	session   *session
	id        string // "" for the main agent
	uri       string
	turn      string // in progress, "" if none
	since     int64  // when it began, Unix milliseconds
	texts     map[string]*text
	void      map[bool]string  // parts that are to be superseded: of thoughts, and of messages
	thought   string           // the newest thoughts that a message told
	concluded bool             // the newest message wants nothing to be done
	failure   *state.ErrorInfo // why the turn in progress is going to fail
	usage     usage            // of the turn in progress
	unknown   int              // of the turn in progress, events that nod does not understand
	active    bool             // the page shows an activity that ends with the next step
	stepping  bool             // the model is asked, or what it has asked for is done
	writing   string           // the call that the model writes, by its id
	title     string           // of a sub-agent, as others call it
	own       string           // a call that a person has made, which is all of the turn
	steering  []steering
}

// steering is what was said to a turn and not taken yet.
type steering struct {
	state.SessionPendingMessageSet
	message string // Copilot's id of it, "" if that is not known
}

// usage counts the tokens of a turn.
type usage struct{ input, output, cached int64 }

func uriOf(id string) string { return state.SessionScheme + id }

// sessionID is the Copilot session that a session of nod's is, or is part of.
func sessionID(uri string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(uri, state.SessionScheme), subOf)
	return id
}

// subOf is what stands in the URI of a sub-agent's session between the ids of the two.
const subOf = "-sub-"

// addressable reports whether an id can be part of an address, as every UUID can.
func addressable(id string) bool {
	return id != "" && len(id) <= 45 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !strings.Contains(id, subOf)
}

func newSession(r *room, id string) *session {
	s := &session{room: r, id: id, subs: map[string]*agent{}, calls: map[string]*call{}, past: map[string]bool{}, config: map[string]string{}, meta: state.Meta{}}
	s.main = s.newAgent("", uriOf(id))
	return s
}

func (s *session) newAgent(id, uri string) *agent {
	return &agent{session: s, id: id, uri: uri, texts: map[string]*text{}, void: map[bool]string{}}
}

// agentOf returns the agent that an event is about.
func (s *session) agentOf(e event) *agent {
	if !addressable(e.AgentID) {
		return s.main
	}
	a := s.subs[e.AgentID]
	if a == nil {
		a = s.newAgent(e.AgentID, s.main.uri+subOf+e.AgentID)
		s.subs[e.AgentID] = a
	}
	return a
}

// ---- from events to actions ----

// handler takes the data of an event. It reports false if it cannot read them.
type handler func(ctx context.Context, a *agent, e event) bool

// on handles an event whose data are of a type.
func on[P any](f func(*agent, context.Context, P)) handler {
	return func(ctx context.Context, a *agent, e event) bool {
		var p P
		if len(e.Data) > 0 && json.Unmarshal(e.Data, &p) != nil {
			return false
		}
		f(a, ctx, p)
		return true
	}
}

// raw handles an event of which the handler wants all that came.
func raw(f func(*agent, context.Context, event) bool) handler {
	return func(ctx context.Context, a *agent, e event) bool { return f(a, ctx, e) }
}

// hear takes an event of the live stream. While the log is being read, which tells
// it too, it waits.
func (s *session) hear(ctx context.Context, e event) {
	switch {
	case e.barred():
	case s.catching:
		s.late = append(s.late, e)
	default:
		s.take(ctx, e)
	}
}

// take handles an event, once.
func (s *session) take(ctx context.Context, e event) {
	if e.barred() || s.heard.again(e.ID) || ignored[e.Type] != "" || s.passes(e) {
		return
	}
	a := s.agentOf(e)
	s.from, s.at = state.Source{}, e.at()
	if e.ID != "" && !e.grows() {
		s.from = state.Source{Epoch: s.id, ID: e.ID}
	}
	if e.long != nil {
		a.heardLong(ctx, e)
	} else if h := handlers[e.Type]; h == nil || tooDeep(e) || !h(ctx, a, e) {
		a.unknownEvent(ctx, e)
	}
	s.flush(ctx)
}

// tooDeep reports whether an event nests deeper than nod reads. A request is shown all
// the same, so that it can be refused.
func tooDeep(e event) bool {
	return requests[e.Type].ask == nil && plain.TooDeep(e.Data)
}

// passes reports whether an event is of a turn that has ended, in a log that tells
// again what nod knows: all of it, where Copilot does not know the place any more.
func (s *session) passes(e event) bool {
	if !s.catching || e.AgentID != "" {
		return s.catching && s.skips
	}
	switch e.Type {
	case "user.message":
		var m userMessage
		_ = json.Unmarshal(e.Data, &m) // one without an id is none that has ended
		if id := m.id(e); id == s.main.turn || !m.within() {
			s.skips = s.past[id]
		}
	case "assistant.turn_start":
		s.skips = e.ID != s.main.turn && (s.skips || s.past[e.ID])
	}
	return s.skips
}

// apply tells actions of the agent's session.
func (a *agent) apply(actions ...state.Action) {
	es := make([]state.Envelope, len(actions))
	for i, act := range actions {
		es[i] = state.Envelope{Channel: a.uri, Action: act}
	}
	a.tell(es...)
}

// tell tells actions of the agent's session and of its terminals. They go to the hub
// when the event has been handled.
func (a *agent) tell(es ...state.Envelope) {
	s := a.session
	if n := len(s.out); n > 0 && s.out[n-1].uri == a.uri {
		s.out[n-1].envelopes = append(s.out[n-1].envelopes, es...)
	} else if len(es) > 0 {
		s.out = append(s.out, batch{a.uri, es})
	}
}

// flush sends what was told to the hub, under the name of the event that it came of.
func (s *session) flush(ctx context.Context) {
	if s.gathers {
		return
	}
	for _, b := range s.out {
		s.room.sink.Apply(ctx, b.uri, s.from, b.envelopes...)
	}
	s.out = nil
}

// maxTurns is how many turns a session begins with that nod sees for the first time.
const maxTurns = 200

// turnGathered notes where a turn begins that is gathered, and lets the oldest go when
// there are too many.
func (s *session) turnGathered() {
	s.out = append(s.out, batch{uri: s.main.uri})
	s.starts = append(s.starts, len(s.out)-1)
	if len(s.starts) <= maxTurns {
		return
	}
	cut := s.starts[1]
	s.out, s.starts = slices.Clone(s.out[cut:]), s.starts[1:]
	for i := range s.starts {
		s.starts[i] -= cut
	}
	first := &s.out[0]
	if turn, ok := first.envelopes[0].Action.(*state.SessionTurnStarted); ok {
		first.envelopes = slices.Insert(first.envelopes, 1, state.Envelope{Channel: s.main.uri, Action: gap("Before this turn there were others, which nod did not read. Copilot still has them.", turn.TurnID)})
	}
}

// gap is a line of nod's own in the transcript: something may be missing there.
func gap(text, turn string) *state.SessionResponsePart {
	return &state.SessionResponsePart{TurnID: turn, Part: &state.NotificationPart{
		Content: state.Plain(text), Meta: state.Meta{"nod.gap": []byte(`{"reason":"linkLost"}`)},
	}}
}

// ---- what is waited for ----

// ask puts a request before a person, or, while the log is read, keeps it until it
// is known whether it still waits.
func (a *agent) ask(ctx context.Context, r state.Request, shows ...state.Envelope) {
	s := a.session
	r.Session, r.Provider, r.Epoch = a.uri, s.room.provider, s.room.epoch
	if r.TurnID == "" {
		r.TurnID = a.turn
	}
	if where := s.room.elsewhere; where != "" {
		r.Kind, r.Caution, r.Options, r.Explains, r.Editable = state.RequestElsewhere, where, nil, "", false
		for i, e := range shows {
			if ready, ok := e.Action.(*state.SessionToolCallReady); ok {
				waits := *ready
				waits.Options = nil
				shows[i].Action = &waits
			}
		}
	}
	s.asks = append(s.asks, &ask{agent: a, request: r, shows: shows})
	if !s.catching {
		s.flush(ctx)
		s.room.sink.Ask(ctx, r, shows...)
	}
}

// waits returns a request that waits, nil if there is none of that id.
func (s *session) waits(id []byte) *ask {
	i := slices.IndexFunc(s.asks, func(k *ask) bool { return string(k.request.UpstreamID) == string(id) })
	if i < 0 {
		return nil
	}
	return s.asks[i]
}

// answered ends a request. While an answer of nod's is on its way, that has to wait:
// Copilot says that a request was answered before it says whose answer that was.
func (s *session) answered(ctx context.Context, id []byte, o outcome) {
	switch k := s.waits(id); {
	case k == nil:
	case k.option != "" && !k.taken && !k.unsure:
		k.ended = &o
	default:
		s.finish(ctx, k, o)
	}
}

// sent takes whether Copilot has taken nod's answer.
func (s *session) sent(ctx context.Context, id []byte, taken bool) error {
	s.from = state.Source{}
	if k := s.waits(id); k != nil {
		if k.taken = taken; !taken {
			k.option = ""
		}
		if k.ended != nil {
			s.finish(ctx, k, *k.ended)
		}
	}
	if !taken {
		return state.ErrAnsweredElsewhere
	}
	return nil
}

// lost takes that nod's answer got no answer itself.
func (s *session) lost(ctx context.Context, k *ask) {
	s.from = state.Source{}
	if k.unsure = !k.taken; k.unsure && k.ended != nil {
		s.finish(ctx, k, *k.ended)
	}
}

// finish says how a request has ended. What nod has not answered shows in the tool call,
// too, which would wait on.
func (s *session) finish(ctx context.Context, k *ask, o outcome) {
	s.asks = slices.DeleteFunc(s.asks, func(x *ask) bool { return x == k })
	how := state.EndedElsewhere
	switch {
	case o.withdrawn || k.unsure:
		how = state.EndedWithdrawn
	case k.taken && (o.option == "" || o.option == k.option):
		how = state.EndedAnswered
	}
	s.flush(ctx)
	r := k.request
	s.room.sink.Resolved(ctx, r.Session, r.Epoch, r.UpstreamID, how)
	if how != state.EndedAnswered && r.ToolCallID != "" && o.option != "" {
		act := &state.SessionToolCallConfirmed{TurnID: r.TurnID, ToolCallID: r.ToolCallID, Reason: state.CancelledDenied}
		if o.option == state.OptionApprove {
			act.Approved, act.Confirmed, act.Reason = true, state.ConfirmedUserAction, ""
		}
		k.agent.apply(act)
		s.flush(ctx)
	}
}

// requestID is how requests are told apart: a JSON text.
func requestID(id string) json.RawMessage { return json.RawMessage(plain.Value(id)) }

// ---- reading a log ----

// catchUp begins to read what a session's log tells.
func (s *session) catchUp() { s.catching = true }

// cursor is the place in the session's log before which nod knows all.
func (s *session) cursor() (cursor string) {
	_ = json.Unmarshal(s.meta[cursorKey], &cursor) // "" if there is none
	return cursor
}

// cursorKey is the key of the cursor in a session's _meta.
const cursorKey = "nod.cursor"

// caughtUp ends it: what came meanwhile follows, and what is still waited for is put
// before a person.
func (s *session) caughtUp(ctx context.Context) {
	s.from = state.Source{}
	s.gathers, s.starts = false, nil
	s.flush(ctx)
	for _, e := range s.late {
		s.take(ctx, e)
	}
	s.late, s.catching, s.skips = nil, false, false
	waits := map[string][]json.RawMessage{s.main.uri: nil}
	for _, a := range s.subs {
		waits[a.uri] = nil
	}
	for _, k := range s.asks {
		s.room.sink.Ask(ctx, k.request, k.shows...)
		waits[k.request.Session] = append(waits[k.request.Session], k.request.UpstreamID)
	}
	for uri, ids := range waits {
		s.room.sink.Waiting(ctx, uri, s.room.epoch, ids)
	}
	if s.main.turn == "" {
		s.rested()
	}
	if s.replans {
		s.replans = false
		s.main.todosChanged(ctx, struct{}{})
	}
}

// caught reports whether the log has been read.
func (s *session) caught() bool { return !s.catching }

func (s *session) rested() {
	if s.room.rests != nil && !s.catching {
		s.room.rests(s.id)
	}
}

// gone ends what is open, because the server does not have it any more.
func (s *session) gone(ctx context.Context, sentence string) {
	s.past[s.main.turn] = true
	s.main.turn, s.asks, s.calls = "", nil, map[string]*call{}
	s.room.sink.Gone(ctx, s.main.uri, sentence)
}

// recall takes from a session's state what nod has seen of it. open are the sessions
// in which a turn is in progress, those of its sub-agents among them.
func (s *session) recall(st *state.Session, open []*state.Session) {
	for _, t := range st.Turns {
		s.past[t.ID] = true
	}
	s.titled = st.Summary.Title != ""
	s.config = configOf(st)
	for name, v := range st.Meta {
		s.meta[name] = v
	}
	_ = json.Unmarshal(s.meta[nameKey], &s.name) // "" if there is none
	s.main.recall(st)
	for _, sub := range open {
		if id, is := strings.CutPrefix(sub.Summary.Resource, s.main.uri+subOf); is {
			s.agentOf(event{AgentID: id}).recall(sub)
		}
	}
}

// recall takes from a session's state what was seen of the turn in progress.
func (a *agent) recall(st *state.Session) {
	t := st.ActiveTurn
	if t == nil {
		return
	}
	a.turn, a.stepping = t.ID, true
	if m := st.SteeringMessage; m != nil {
		a.steering = []steering{{SessionPendingMessageSet: state.SessionPendingMessageSet{Kind: state.PendingSteering, ID: m.ID, Message: m.Message}}}
	}
	for _, p := range t.ResponseParts.All() {
		switch p := p.(type) {
		case *state.MarkdownPart:
			a.texts[p.ID] = &text{part: p.ID, shown: len(p.Content.String())}
		case *state.ReasoningPart:
			a.texts[p.ID] = &text{part: p.ID, shown: len(p.Content.String()), thoughts: true}
		case *state.ToolCallPart:
			k := p.ToolCall
			c := &call{id: k.ToolCallID, agent: a, turn: t.ID, recalled: true, content: k.Content, done: !k.Open(), terminal: a.terminal(k.ToolCallID)}
			c.row = row{tool: k.ToolName, name: k.DisplayName, input: state.Value(k.ToolInput), meta: k.Meta}
			if k.InvocationMessage != nil {
				c.row.does = k.InvocationMessage.Text
			}
			a.session.calls[c.id] = c
		}
	}
}

// configOf returns the settings that a session is known to have.
func configOf(st *state.Session) map[string]string {
	out := map[string]string{}
	if st.Config != nil {
		for name, raw := range st.Config.Values {
			var v string
			if json.Unmarshal(raw, &v) == nil {
				out[name] = v
			}
		}
	}
	return out
}
