package hub

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
	"nod/state/snapshot"
)

// session owns one session's state: whoever holds mu is the owner.
type session struct {
	hub *Hub
	id  string
	uri string

	sending sync.Mutex // held while a turn is being started

	mu        sync.Mutex
	seq       uint64
	lastEvent int64 // Unix milliseconds
	state     *state.Session
	terminals map[string]*state.Terminal
	approvals []*approvals.Approval // in the order they were asked in
	changedAt map[snapshot.Part]uint64
	shownIn   map[string]snapshot.Part // terminal URI -> the response part that shows it
	watchers  map[chan struct{}]struct{}
}

func newSession(h *Hub, uri string) *session {
	return &session{
		hub: h, id: strings.TrimPrefix(uri, uriScheme), uri: uri,
		terminals: map[string]*state.Terminal{}, changedAt: map[snapshot.Part]uint64{},
		shownIn: map[string]snapshot.Part{}, watchers: map[chan struct{}]struct{}{},
	}
}

func (s *session) current() *state.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// change is one step of an approval; from is nil for a new one.
type change struct{ from, to *approvals.Approval }

// growing reports whether an action only adds text, which may be shown before
// it is on disk.
func growing(a state.Action) bool {
	switch a.(type) {
	case *state.SessionDelta, *state.SessionReasoning, *state.TerminalData:
		return true
	}
	return false
}

// commit is the way of everything that happens to a session: number, journal,
// reduce, wake. A turn that ends takes its pending requests along in the same
// transaction. If the journal refuses, nothing has changed. Call with mu held.
func (s *session) commit(ctx context.Context, actions []state.Envelope, changes []change) error {
	at := now() // what is journaled is what is shown
	batch, changes, buffered, err := s.prepare(at, actions, changes)
	if err != nil {
		return err
	}
	if buffered {
		s.hub.store.Buffer(batch)
	} else if len(batch.Events)+len(batch.Approvals) > 0 {
		if err := s.hub.store.Append(ctx, batch); err != nil {
			return err
		}
		s.hub.noteJournal(nil)
	}
	s.install(at, actions, changes)
	return nil
}

// mustCommit is commit for what an agent has said: it has happened, whether or
// not it can be recorded.
func (s *session) mustCommit(ctx context.Context, actions []state.Envelope, changes []change) {
	if err := s.commit(context.WithoutCancel(ctx), actions, changes); err != nil {
		s.hub.log.Error("an event is not recorded yet", "session", s.uri, "err", err)
		if !errors.Is(err, journal.ErrConflict) {
			s.hub.noteJournal(err)
		}
		at := now()
		batch, changes, _, err := s.prepare(at, actions, changes)
		if err == nil {
			s.hub.store.Buffer(batch) // for when the disk takes it again
		}
		s.install(at, actions, changes)
	}
}

func (s *session) prepare(at int64, actions []state.Envelope, changes []change) (journal.Batch, []change, bool, error) {
	var b journal.Batch
	seq, st := s.seq, s.state
	buffered := len(changes) == 0
	for _, e := range actions {
		raw, err := state.MarshalAction(e.Action)
		if err != nil {
			return b, nil, false, err
		}
		seq++
		b.Events = append(b.Events, journal.Event{Session: s.uri, Seq: seq, Time: at, Channel: e.Channel, Action: raw})
		buffered = buffered && growing(e.Action)
		if e.Channel == s.uri && !growing(e.Action) { // text ends no turn
			st = state.ReduceSession(st, e.Action, at)
		}
	}
	if ended := s.state.ActiveTurn; ended != nil && (st.ActiveTurn == nil || st.ActiveTurn.ID != ended.ID) {
		changes = append(changes, s.sweep(func(a *approvals.Approval) bool {
			return (a.Request.TurnID == ended.ID || a.Request.TurnID == "") &&
				!slices.ContainsFunc(changes, func(c change) bool { return c.from == a })
		})...)
	}
	for _, c := range changes {
		record, err := state.Marshal(c.to)
		if err != nil {
			return b, nil, false, err
		}
		w := journal.ApprovalChange{Approval: journal.Approval{ID: c.to.ID, Session: s.uri, State: string(c.to.State), Digest: c.to.Digest, Record: record}}
		if c.from != nil {
			w.From = string(c.from.State)
			b.Audit = append(b.Audit, audit(c, at))
		}
		b.Approvals = append(b.Approvals, w)
	}
	return b, changes, buffered, nil
}

func audit(c change, at int64) journal.AuditEntry {
	e := journal.AuditEntry{Time: at, Actor: c.to.Actor, What: "request " + string(c.to.State)}
	// A map of strings and a decision always encode.
	e.Detail, _ = state.Marshal(map[string]any{"approval": c.to.ID, "digest": c.to.Digest, "decision": c.to.Decision})
	return e
}

// install makes what prepare has laid out true. Call with mu held.
func (s *session) install(at int64, actions []state.Envelope, changes []change) {
	before := s.state
	s.lastEvent = at
	for _, e := range actions {
		s.apply(e, s.seq+1, at)
	}
	if len(changes) > 0 {
		s.seq++
		s.changedAt[snapshot.Part{Kind: snapshot.Dock}] = s.seq
		s.changedAt[snapshot.Part{Kind: snapshot.Composer}] = s.seq // it says what is waited for
		for _, c := range changes {
			if i := slices.Index(s.approvals, c.from); c.from != nil && i >= 0 {
				s.approvals[i] = c.to
			} else {
				s.approvals = append(s.approvals, c.to)
			}
		}
	}
	wake(s.watchers)
	if len(changes) > 0 || before.Summary != s.state.Summary {
		s.hub.touchInbox()
	}
}

// apply reduces one action and notes which parts of the page it changed.
func (s *session) apply(e state.Envelope, seq uint64, at int64) {
	s.seq, s.lastEvent = seq, at
	if e.Channel == s.uri {
		before := s.state
		s.state = state.ReduceSession(before, e.Action, at)
		for _, p := range snapshot.Changed(before, s.state) {
			s.changedAt[p] = seq
		}
		return
	}
	t := s.terminals[e.Channel]
	if t == nil {
		t = &state.Terminal{Claim: state.SessionClaim(s.uri)}
	}
	s.terminals[e.Channel] = state.ReduceTerminal(t, e.Action)
	if p, ok := s.whereShown(e.Channel); ok {
		s.changedAt[p] = seq
	}
}

// whereShown finds the tool call that refers to a terminal, the newest first.
func (s *session) whereShown(terminal string) (snapshot.Part, bool) {
	if p, ok := s.shownIn[terminal]; ok {
		return p, true
	}
	for turn := snapshot.TurnCount(s.state) - 1; turn >= 0; turn-- {
		for i, p := range slices.Backward(snapshot.TurnParts(s.state, turn)) {
			c, ok := p.(*state.ToolCallPart)
			if ok && slices.ContainsFunc(c.ToolCall.Content, func(x state.ToolResultContent) bool {
				return x.Type == state.ContentTerminal && state.Value(x.Resource) == terminal
			}) {
				part := snapshot.Part{Kind: snapshot.Response, Turn: turn, Index: i}
				s.shownIn[terminal] = part
				return part, true
			}
		}
	}
	return snapshot.Part{}, false
}

// sweep returns the changes that end every open approval which f accepts.
func (s *session) sweep(f func(*approvals.Approval) bool) []change {
	var out []change
	for _, a := range s.approvals {
		if a.Open() && f(a) {
			out = append(out, change{from: a, to: approvals.Sweep(a, now())})
		}
	}
	return out
}

func (s *session) closeTurn(ctx context.Context, errorType, sentence string) {
	t := s.state.ActiveTurn
	var actions []state.Envelope
	add := func(a state.Action) { actions = append(actions, state.Envelope{Channel: s.uri, Action: a}) }
	for _, p := range t.ResponseParts { // a call keeps what it has shown only if it completes
		if c, ok := p.(*state.ToolCallPart); ok && c.ToolCall.Status == state.ToolRunning && len(c.ToolCall.Content) > 0 {
			add(&state.SessionToolCallComplete{TurnID: t.ID, ToolCallID: c.ToolCall.ToolCallID, Result: state.ToolCallResult{
				PastTenseMessage: state.Plain("Was still running when the turn ended"), Content: c.ToolCall.Content,
			}})
		}
	}
	add(&state.SessionActivityChanged{})
	add(&state.SessionError{TurnID: t.ID, Error: state.ErrorInfo{ErrorType: "nod." + errorType, Message: sentence}})
	s.mustCommit(ctx, actions, s.sweep(func(*approvals.Approval) bool { return true }))
}

func (s *session) linkLost(ctx context.Context, l state.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Summary.Provider != l.Provider {
		return
	}
	if s.state.ActiveTurn != nil {
		s.closeTurn(ctx, "linkLost", "The link to "+l.DisplayName+" was lost while this turn ran. "+l.Detail+
			" What was done until then is above; whether more was done is not known. Send a message to go on.")
		return
	}
	if swept := s.sweep(func(a *approvals.Approval) bool { return a.Request.Epoch == l.Epoch }); len(swept) > 0 {
		s.mustCommit(ctx, nil, swept)
	}
}

func (s *session) approval(id string) *approvals.Approval {
	if i := slices.IndexFunc(s.approvals, func(a *approvals.Approval) bool { return a.ID == id }); i >= 0 {
		return s.approvals[i]
	}
	return nil
}

// decide records a decision, unless it had been recorded before.
func (s *session) decide(ctx context.Context, actor, id, digest, nonce string, d state.Decision) (*approvals.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.approval(id)
	if was == nil {
		return nil, ErrNoApproval
	}
	a, err := approvals.Decide(was, actor, digest, nonce, d, now())
	if err != nil || a == was {
		return was, err
	}
	if err := s.commit(ctx, nil, []change{{from: was, to: a}}); err != nil {
		if errors.Is(err, journal.ErrConflict) {
			return was, approvals.ErrNotPending
		}
		s.hub.noteJournal(err)
		return was, err
	}
	return a, nil
}

// step moves an approval on if it is still in the expected state.
func (s *session) step(ctx context.Context, id string, from approvals.State, f func(*approvals.Approval) *approvals.Approval) (*approvals.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.approval(id)
	if was == nil || was.State != from {
		return was, approvals.ErrNotPending
	}
	a := f(was)
	if err := s.commit(ctx, nil, []change{{from: was, to: a}}); err != nil {
		return was, err
	}
	return a, nil
}

// view must be called with mu held.
func (s *session) view() snapshot.Session {
	return snapshot.Session{
		ID: s.id, Seq: s.seq, State: s.state, LastEvent: s.lastEvent,
		Terminals: maps.Clone(s.terminals), Approvals: slices.Clone(s.approvals),
	}
}
