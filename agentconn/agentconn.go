// Package agentconn is the rim where nod meets agents. An adapter (a package
// below this one) turns what an agent runtime says into AHP actions, and what
// people decide into the runtime's own calls; nothing above knows which runtime
// it is talking to.
//
// The way in: a Conn's Run reads the runtime and hands everything to a Sink.
// The way out: Manager starts the Conn of a provider when somebody needs it and
// passes calls on to it.
package agentconn

import (
	"context"
	"encoding/json"
	"errors"

	"nod/state"
)

// Sink takes what an adapter hears, in order. Its methods return when the thing
// is recorded, so a slow disk slows the adapter's reading and nothing is lost.
type Sink interface {
	// Apply records and reduces actions of one upstream event. from names the
	// event if the runtime may tell it again after a reconnect: then it applies
	// once. A sub-agent's session begins when a tool call refers to it
	// (state.SubagentContent); its own actions and requests come after that.
	Apply(ctx context.Context, session string, from state.Source, actions ...state.Envelope)
	// Ask records a request that waits for a person, together with the actions
	// that show it. A request that is open already is not asked twice.
	Ask(ctx context.Context, r state.Request, actions ...state.Envelope)
	// Resolved says that the runtime no longer waits for the request with that
	// upstream id: because of our answer, or of somebody else's.
	Resolved(ctx context.Context, session, epoch string, upstreamID json.RawMessage)
	// Opaque keeps an upstream message that the adapter does not understand.
	// session may be "".
	Opaque(ctx context.Context, session string, raw json.RawMessage)
	// LinkChanged says how the link is. A lost link ends what was open on its
	// epoch. Only the Manager calls it.
	LinkChanged(ctx context.Context, l state.Link)
}

// Conn is one live link to an agent runtime.
type Conn interface {
	// Run connects, calls ready once with what it found (a name and version), and
	// pumps events into the sink until ctx ends or the link is lost. A
	// PublicError says why in words for a person. The other methods are called
	// only after ready.
	Run(ctx context.Context, ready func(detail string)) error
	// CreateSession starts a session of the given URI in a folder that exists.
	// It returns the actions that bring a new session's state to what the
	// runtime answered, SessionReady among them.
	CreateSession(ctx context.Context, uri, folder string) ([]state.Action, error)
	// Dispatch carries out one client-dispatchable action on a session:
	// SessionTurnStarted sends a message, SessionTurnCancelled stops the turn.
	Dispatch(ctx context.Context, s *state.Session, a state.Action) error
	// Answer sends a person's decision. It returns once the bytes are written and,
	// if the decision has a Reason, the runtime has that; state.ErrReasonLost says
	// that only the reason did not arrive.
	Answer(ctx context.Context, r state.Request, d state.Decision) error
}

// Adapter knows how to reach one kind of agent runtime.
type Adapter interface {
	// Provider is the adapter's key: AHP's provider id.
	Provider() string
	// DisplayName is what people call the runtime.
	DisplayName() string
	// Find looks for the runtime on this machine. If it is not there the error
	// says what to install. note is what a person should know before starting a
	// session; it may be "".
	Find() (note string, err error)
	// NewConn returns a link of that epoch, not yet connected, that reports to sink.
	NewConn(epoch string, sink Sink) Conn
}

// PublicError is an error whose text is written for the person at the browser:
// a sentence about what happened and what to do next. Err is the cause, for the log.
type PublicError struct {
	Message string
	Err     error
}

func (e *PublicError) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + " (" + e.Err.Error() + ")"
}

// Public returns the sentence alone.
func (e *PublicError) Public() string { return e.Message }

// Unwrap returns the cause.
func (e *PublicError) Unwrap() error { return e.Err }

// Sentence returns what an error tells a person; one that was not written for
// people says only where to look.
func Sentence(err error) string {
	var p *PublicError
	if errors.As(err, &p) {
		return p.Message
	}
	return "It has ended. The log says why."
}
