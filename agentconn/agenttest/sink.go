package agenttest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"nod/state"
)

// Sink is a hub for fuzzing, without disk and people. It reduces what it is told, and
// fails if a journal could not read it again.
type Sink struct {
	T     testing.TB
	Asked []state.Request

	sessions  map[string]*state.Session
	terminals map[string]*state.Terminal
}

// NewSink returns a Sink that knows no session.
func NewSink(t testing.TB) *Sink {
	return &Sink{T: t, sessions: map[string]*state.Session{}, terminals: map[string]*state.Terminal{}}
}

// Begin makes a session known.
func (s *Sink) Begin(ctx context.Context, _ string, m *state.SessionSummary, config *state.SessionConfigState, actions ...state.Action) (*state.Session, error) {
	if s.sessions[m.Resource] == nil {
		s.sessions[m.Resource] = &state.Session{Summary: m, Lifecycle: state.LifecycleCreating, Turns: []*state.Turn{}, Config: config}
		for _, a := range actions {
			s.Apply(ctx, m.Resource, state.Source{}, state.Envelope{Channel: m.Resource, Action: a})
		}
	}
	return s.sessions[m.Resource], nil
}

// Apply reduces actions, as they are read again.
func (s *Sink) Apply(_ context.Context, _ string, _ state.Source, envelopes ...state.Envelope) {
	s.T.Helper()
	for _, e := range envelopes {
		raw, err := state.MarshalAction(e.Action)
		if err != nil {
			s.T.Fatalf("%s cannot be written: %v", e.Action.Type(), err)
		}
		again, err := state.UnmarshalAction(raw)
		if err != nil {
			s.T.Fatalf("%s cannot be read again: %v", raw, err)
		}
		switch {
		case state.OfTerminal(again):
			t := s.terminals[e.Channel]
			if t == nil {
				t = &state.Terminal{Content: []state.TerminalPart{}, Claim: state.SessionClaim(e.Channel)}
			}
			s.terminals[e.Channel] = state.ReduceTerminal(t, again)
		case s.sessions[e.Channel] != nil:
			s.sessions[e.Channel] = state.ReduceSession(s.sessions[e.Channel], again, 1)
		}
	}
}

// Ask notes a request.
func (s *Sink) Ask(ctx context.Context, r state.Request, actions ...state.Envelope) {
	s.T.Helper()
	if raw, err := json.Marshal(r); err != nil {
		s.T.Fatalf("a request cannot be written: %v", err)
	} else if err := json.Unmarshal(raw, new(state.Request)); err != nil {
		s.T.Fatalf("%s cannot be read again: %v", raw, err)
	}
	s.Asked = append(s.Asked, r)
	s.Apply(ctx, r.Session, state.Source{}, actions...)
}

// Approvable are the requests of that kind that can be approved.
func (s *Sink) Approvable(kind state.RequestKind) (out []state.Request) {
	for _, r := range s.Asked {
		if r.Kind == kind && slices.ContainsFunc(r.Options, func(o state.ConfirmationOption) bool { return o.Kind == state.OptionApprove }) {
			out = append(out, r)
		}
	}
	return out
}

// What follows changes nothing here.

// Open returns no sessions.
func (s *Sink) Open(context.Context, string) []*state.Session { return nil }

// Gone does nothing.
func (s *Sink) Gone(context.Context, string, string) {}

// Resolved does nothing.
func (s *Sink) Resolved(context.Context, string, string, json.RawMessage, state.Ending) {}

// Waiting does nothing.
func (s *Sink) Waiting(context.Context, string, string, []json.RawMessage) {}

// Opaque does nothing.
func (s *Sink) Opaque(context.Context, string, json.RawMessage) {}

// LinkChanged does nothing.
func (s *Sink) LinkChanged(context.Context, state.Link) {}
