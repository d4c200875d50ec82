// Package agentconn is the rim where nod meets agents. An adapter (a package
// below this one) turns what an agent runtime says into AHP actions, and what
// people decide into the runtime's own calls; nothing above knows which runtime
// it is talking to.
//
// The way in: a Conn's Run reads the runtime and hands everything to a Sink.
// The way out: Manager holds the Conn of each place where a runtime can be
// reached, and passes calls on to the one where a session is live.
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
	// Begin makes a session known that is live on the link of that key, and
	// returns its state. config, which may be nil, and actions are what it begins
	// with; a session that is known already keeps what it has, and is from now on
	// live there. The error is that
	// it could not be recorded, or that a person has deleted it.
	Begin(ctx context.Context, link string, summary *state.SessionSummary, config *state.SessionConfigState, actions ...state.Action) (*state.Session, error)
	// Open returns the sessions that are live on a link and in which a turn or a
	// request is open: what an adapter that has connected anew must look after.
	Open(ctx context.Context, link string) []*state.Session
	// Gone ends what is open in a session that the runtime does not have any
	// more. sentence tells a person.
	Gone(ctx context.Context, session, sentence string)
	// Apply records and reduces actions of one upstream event. from names the
	// event if the runtime may tell it again after a reconnect: then it applies
	// once. A sub-agent's session begins when a tool call refers to it
	// (state.SubagentContent); its own actions and requests come after that.
	Apply(ctx context.Context, session string, from state.Source, actions ...state.Envelope)
	// Ask records a request that waits for a person, together with the actions
	// that show it. A request that is open already is not asked twice.
	Ask(ctx context.Context, r state.Request, actions ...state.Envelope)
	// Resolved says that the runtime no longer waits for the request with that
	// upstream id, and why.
	Resolved(ctx context.Context, session, epoch string, upstreamID json.RawMessage, how state.Ending)
	// Waiting says which requests the runtime waits for in a session, after it
	// could have asked or resolved some unheard: the others are resolved.
	Waiting(ctx context.Context, session, epoch string, upstreamIDs []json.RawMessage)
	// Opaque keeps an upstream message that the adapter does not understand.
	// session may be "".
	Opaque(ctx context.Context, session string, raw json.RawMessage)
	// LinkChanged says how a link is. Only the Manager calls it.
	LinkChanged(ctx context.Context, l state.Link)
}

// Conn is one live link to an agent runtime.
type Conn interface {
	// Run connects, calls ready once, and pumps events into the sink until ctx
	// ends or the link is lost. A PublicError says why in words for a person. The
	// other methods are called only after ready.
	Run(ctx context.Context, ready func(Found)) error
	// CreateSession starts a session, makes it known to the sink and returns its
	// URI.
	CreateSession(ctx context.Context, n state.NewSession) (uri string, err error)
	// Dispatch carries out one client-dispatchable action on a session:
	// SessionTurnStarted sends a message, SessionTurnCancelled stops the turn. What
	// may come besides, where the link offers it, is SessionPendingMessageSet of a
	// steering message; SessionTitleChanged and SessionIsArchivedChanged, which tell
	// the runtime what a person has done, may fail without harm.
	Dispatch(ctx context.Context, s *state.Session, a state.Action) error
	// Answer sends a person's decision. It returns once the bytes are written and,
	// if the decision has a Reason, the runtime has that; state.ErrReasonLost says
	// that only the reason did not arrive, state.ErrAnsweredElsewhere that somebody
	// else was faster.
	Answer(ctx context.Context, r state.Request, d state.Decision) error
}

// Found is what a Conn has found when it is ready.
type Found struct {
	Epoch   string // see state.Link
	Detail  string // a name and version
	Lasting bool   // see state.Link
	Offers  state.Offers
	// Stalled, which may be nil, receives whether the runtime has ceased to answer.
	Stalled <-chan bool
}

// Adapter knows one place where an agent runtime can be reached.
type Adapter interface {
	// Key is the key of the link: no other adapter has it.
	Key() string
	// Provider says whose sessions are reached here. Adapters of one provider
	// reach the same sessions; the first of them that is there is used for new ones.
	Provider() string
	// DisplayName is what people call it.
	DisplayName() string
	// Find looks for the runtime on this machine. If it is not there the error
	// says what to install. note is what a person should know before starting a
	// session; it may be "".
	Find() (note string, err error)
	// Running reports whether a runtime is there to be linked to. The Manager asks
	// every second, so that a runtime that others start is found by itself.
	Running() bool
	// Starts reports whether a Conn starts the runtime where none is running.
	Starts() bool
	// NewConn returns a link, not yet connected, that reports to sink.
	NewConn(sink Sink) Conn
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
