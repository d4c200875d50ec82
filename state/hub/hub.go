// Package hub holds the live truth: every session's state, the requests that
// wait for a person, and the links to agents.
//
// An agent's event goes sequence number, journal, reduce, wake. Nothing is shown
// before it is on disk, except growing text. A person's decision goes through
// Decide, the one door: recorded first, then sent.
//
// A viewer is a cursor. Every part that a page can show knows the number at
// which it last changed, so the first load, falling behind and reconnecting are
// one question: what changed since?
package hub

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
)

// Upstream reaches the agents. Its errors are for the log unless they say
// otherwise by their type.
type Upstream interface {
	// CreateSession starts a session in a folder and returns the actions that
	// bring a new session's state to what the agent answered.
	CreateSession(ctx context.Context, provider, uri, folder string) ([]state.Action, error)
	// Dispatch carries out a client-dispatchable action on a session.
	Dispatch(ctx context.Context, s *state.Session, a state.Action) error
	// Answer sends a decision. It returns once the bytes are written.
	Answer(ctx context.Context, r state.Request, d state.Decision) error
}

// Errors of the verbs.
var (
	ErrNoSession  = errors.New("hub: no such session")
	ErrNoApproval = errors.New("hub: no such request")
	ErrTurnOpen   = errors.New("hub: a turn is in progress")
	ErrNoTurn     = errors.New("hub: no turn is in progress")
)

// uriScheme begins the URI of every session that nod creates.
const uriScheme = "ahp-session:/"

// Hub is the owner of all sessions. Use New.
type Hub struct {
	Epoch string // random per process: a cursor of another epoch means nothing here

	store journal.Store
	log   *slog.Logger
	up    Upstream

	mu       sync.Mutex
	sessions map[string]*session // by id
	order    []*session          // oldest first
	asked    map[string]*session // by approval id
	links    []state.Link        // in the order of the adapters
	rev      uint64              // counts changes of what the inbox shows
	trouble  string              // a sentence while the journal cannot be written
	watchers map[chan struct{}]struct{}
}

// New brings the sessions back from the journal. Whatever was open when the last
// process ended is closed, and says so.
func New(ctx context.Context, store journal.Store, log *slog.Logger) (*Hub, error) {
	h := &Hub{
		Epoch: strings.ToLower(rand.Text()[:10]), store: store, log: log,
		sessions: map[string]*session{}, asked: map[string]*session{}, watchers: map[chan struct{}]struct{}{},
	}
	rows, err := store.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		s, err := h.load(ctx, row)
		if err != nil { // one that cannot be read must not take the others along
			log.Error("a session cannot be read and is left out", "session", row.URI, "err", err)
			continue
		}
		h.add(s)
	}
	return h, nil
}

// SetUpstream says how agents are reached, and which there are. It must be called
// once, before anything else.
func (h *Hub) SetUpstream(up Upstream, links []state.Link) { h.up, h.links = up, links }

func now() int64 { return time.Now().UnixMilli() }

func (h *Hub) load(ctx context.Context, row journal.Session) (*session, error) {
	s := newSession(h, row.URI)
	s.state = new(state.Session)
	if err := state.Unmarshal(row.Initial, s.state); err != nil {
		return nil, err
	}
	for e, err := range h.store.Events(ctx, row.URI, 0) {
		if err != nil {
			return nil, err
		}
		a, err := state.UnmarshalAction(e.Action)
		if err != nil {
			return nil, err
		}
		s.apply(state.Envelope{Channel: e.Channel, Action: a}, e.Seq, e.Time)
	}
	stored, err := h.store.Approvals(ctx, row.URI)
	if err != nil {
		return nil, err
	}
	for _, r := range stored {
		a := new(approvals.Approval)
		if err := state.Unmarshal(r.Record, a); err != nil {
			return nil, err
		}
		s.approvals = append(s.approvals, a)
	}
	if t := s.state.ActiveTurn; t != nil {
		s.closeTurn(ctx, "restart", "nod was stopped while this turn ran, and the agent's process ended with it. "+
			"What was done until then is above; up to 25 ms of streamed text may be missing. Send a message to go on.")
	} else if err := s.commit(ctx, nil, s.sweep(func(*approvals.Approval) bool { return true })); err != nil {
		return nil, err
	}
	return s, nil
}

func (h *Hub) add(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[s.id] = s
	h.order = append(h.order, s)
	for _, a := range s.approvals {
		h.asked[a.ID] = s
	}
	h.changed()
}

// changed must be called with h.mu held.
func (h *Hub) changed() {
	h.rev++
	wake(h.watchers)
}

func (h *Hub) touchInbox() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed()
}

func wake(watchers map[chan struct{}]struct{}) {
	for c := range watchers {
		select {
		case c <- struct{}{}:
		default: // already told
		}
	}
}

func (h *Hub) find(id string) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[id]; s != nil {
		return s, nil
	}
	return nil, ErrNoSession
}

func (h *Hub) findURI(uri string) *session {
	s, err := h.find(strings.TrimPrefix(uri, uriScheme))
	if err != nil {
		h.log.Warn("an agent speaks of a session that is not here", "session", uri)
		return nil
	}
	return s
}

// ---- what people do ----

// Create starts a session in a folder and sends the first message. When the
// session exists but the message could not be sent, both results are set.
func (h *Hub) Create(ctx context.Context, provider, folder, prompt string) (id string, err error) {
	id = strings.ToLower(rand.Text())
	uri := uriScheme + id
	actions, err := h.up.CreateSession(ctx, provider, uri, folder)
	if err != nil {
		return "", err
	}
	ctx = context.WithoutCancel(ctx) // the agent has it now, whether or not the browser waits
	at := now()
	s := newSession(h, uri)
	s.state = &state.Session{
		Summary: &state.SessionSummary{
			Resource: uri, Provider: provider, Title: title(prompt), Status: state.StatusIdle,
			CreatedAt: at, ModifiedAt: at, WorkingDirectory: new(state.FileURI(folder)),
		},
		Lifecycle: state.LifecycleCreating, Turns: []*state.Turn{},
	}
	initial, err := state.Marshal(s.state)
	if err != nil {
		return "", err
	}
	if err := h.store.Append(ctx, journal.Batch{Sessions: []journal.Session{{URI: uri, Initial: initial}}}); err != nil {
		return "", err
	}
	envelopes := make([]state.Envelope, len(actions))
	for i, a := range actions {
		envelopes[i] = state.Envelope{Channel: uri, Action: a}
	}
	s.mu.Lock()
	err = s.commit(ctx, envelopes, nil)
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	h.add(s)
	return id, h.Send(ctx, id, prompt)
}

// title makes a session's title of its first message.
func title(prompt string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	const longest = 80
	if r := []rune(line); len(r) > longest {
		line = string(r[:longest-1]) + "…"
	}
	return line
}

// Send starts a turn with a person's message. Of two that are sent at once, one
// starts a turn: it has begun when Dispatch returns.
func (h *Hub) Send(ctx context.Context, id, text string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	st := s.current()
	if st.ActiveTurn != nil {
		return ErrTurnOpen
	}
	// A browser that leaves now has still sent its message.
	return h.up.Dispatch(context.WithoutCancel(ctx), st, &state.SessionTurnStarted{Message: state.UserMessage(text)})
}

// Stop asks the agent to end the turn in progress.
func (h *Hub) Stop(ctx context.Context, id string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	st := s.current()
	if st.ActiveTurn == nil {
		return ErrNoTurn
	}
	return h.up.Dispatch(context.WithoutCancel(ctx), st, &state.SessionTurnCancelled{TurnID: st.ActiveTurn.ID})
}

// Decide records a person's decision and sends it: the one door through which an
// answer reaches an agent. It returns the approval as it is afterwards. The
// errors are those of approvals.Decide, ErrNoApproval, or the journal's; with
// each of them nothing was sent.
func (h *Hub) Decide(ctx context.Context, actor, approvalID, digest, nonce string, d state.Decision) (*approvals.Approval, error) {
	// Once recorded, a decision is sent even if the browser goes away.
	ctx = context.WithoutCancel(ctx)
	h.mu.Lock()
	s := h.asked[approvalID]
	h.mu.Unlock()
	if s == nil {
		return nil, ErrNoApproval
	}
	decided, err := s.decide(ctx, actor, approvalID, digest, nonce, d)
	if err != nil || decided.State != approvals.Decided {
		return decided, err
	}
	// Sent is on disk before the bytes leave: after a crash in between the
	// decision is reported as unknown, never sent twice. Where the disk refuses,
	// the decision stays recorded, and the same answer again tries again.
	sent, err := s.step(ctx, approvalID, approvals.Decided, approvals.MarkSent)
	if errors.Is(err, approvals.ErrNotPending) { // the same answer, sent by another request
		return sent, nil
	} else if err != nil {
		h.noteJournal(err)
		return decided, err
	}
	if err := h.up.Answer(ctx, sent.Request, d); err != nil {
		h.log.Error("a decision could not be delivered", "approval", approvalID, "err", err)
		return s.step(ctx, approvalID, approvals.Sent, func(a *approvals.Approval) *approvals.Approval { return approvals.Sweep(a, now()) })
	}
	return sent, nil
}

// ---- what agents say: agentconn.Sink ----

// Apply records and reduces actions of one upstream event.
func (h *Hub) Apply(ctx context.Context, uri string, actions ...state.Envelope) {
	if s := h.findURI(uri); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mustCommit(ctx, actions, nil)
	}
}

// Ask records a request that waits for a person.
func (h *Hub) Ask(ctx context.Context, r state.Request, actions ...state.Envelope) {
	s := h.findURI(r.Session)
	if s == nil {
		return
	}
	a := approvals.New(r, now())
	h.mu.Lock()
	h.asked[a.ID] = s
	h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustCommit(ctx, actions, []change{{to: a}})
}

// Resolved says that the agent no longer waits for a request.
func (h *Hub) Resolved(ctx context.Context, uri, epoch string, upstreamID json.RawMessage) {
	s := h.findURI(uri)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.approvals, func(a *approvals.Approval) bool {
		return a.Open() && a.Request.Epoch == epoch && string(a.Request.UpstreamID) == string(upstreamID)
	})
	if i < 0 {
		return
	}
	was := s.approvals[i]
	is := approvals.Resolve(was, now())
	s.mustCommit(ctx, confirmed(is), []change{{from: was, to: is}})
}

// confirmed returns the actions that show a decision in the session's state once
// the agent has taken it.
func confirmed(a *approvals.Approval) []state.Envelope {
	r, d := a.Request, a.Decision
	envelope := func(act state.Action) []state.Envelope {
		return []state.Envelope{{Channel: r.Session, Action: act}}
	}
	if r.Kind == state.RequestQuestion && r.Questions != nil {
		response := state.InputCancel // answered elsewhere: how is not known
		if o, ok := decidedOption(a); ok && o.Kind == state.OptionApprove {
			response = state.InputAccept
		} else if ok {
			response = state.InputDecline
		}
		return envelope(&state.SessionInputCompleted{RequestID: r.Questions.ID, Response: response})
	}
	o, ok := decidedOption(a)
	if !ok || r.ToolCallID == "" {
		return nil
	}
	act := &state.SessionToolCallConfirmed{TurnID: r.TurnID, ToolCallID: r.ToolCallID, SelectedOptionID: &o.ID}
	if o.Kind == state.OptionApprove {
		act.Approved, act.Confirmed, act.EditedToolInput = true, state.ConfirmedUserAction, state.Optional(d.EditedInput)
	} else {
		act.Reason = state.CancelledDenied
	}
	return envelope(act)
}

func decidedOption(a *approvals.Approval) (state.ConfirmationOption, bool) {
	if a.State != approvals.Confirmed {
		return state.ConfirmationOption{}, false
	}
	return a.Request.Option(a.Decision.OptionID)
}

// Opaque keeps an upstream message that nobody understood.
func (h *Hub) Opaque(ctx context.Context, uri string, raw json.RawMessage) {
	if err := h.store.Opaque(ctx, uri, now(), raw); err != nil {
		h.log.Error("an unknown message was not kept", "err", err)
	}
}

// LinkChanged records how a link is. A lost link ends the turns and requests
// that were open on it, because nobody is left who could end them.
func (h *Hub) LinkChanged(ctx context.Context, l state.Link) {
	h.mu.Lock()
	if i := slices.IndexFunc(h.links, func(x state.Link) bool { return x.Provider == l.Provider }); i >= 0 {
		l.DisplayName, l.Description = h.links[i].DisplayName, h.links[i].Description
		h.links[i] = l
	}
	h.changed()
	sessions := slices.Clone(h.order)
	h.mu.Unlock()
	if l.Status != state.LinkLost {
		return
	}
	for _, s := range sessions {
		s.linkLost(ctx, l)
	}
}

// noteJournal remembers whether the journal can be written, for the pages.
func (h *Hub) noteJournal(err error) {
	sentence := ""
	if err != nil {
		sentence = "nod cannot write to its data folder: what happens now will be gone after a restart, and nothing can be approved. Is the disk full?"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble != sentence {
		h.trouble = sentence
		h.changed()
	}
}
