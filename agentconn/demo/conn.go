package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"nod/agentconn"
	"nod/state"
)

// errStopped is the cause of the end of a turn that a person stopped. Any other
// cause is the end of the link, and then the hub closes the turn.
var errStopped = errors.New("demo: stopped")

// conn plays one turn a session at a time, each on a goroutine of its own that
// ends before Run does.
type conn struct {
	epoch string
	sink  agentconn.Sink

	playing sync.WaitGroup // the turns' goroutines; grows only with mu held and run set

	mu      sync.Mutex
	run     context.Context                // Run's; nil before and after
	turns   map[string]*stage              // in progress, by session URI
	asked   int                            // requests so far, for their ids
	waiting map[string]chan state.Decision // by upstream id; each has room for one
	granted map[grant]bool                 // approved for the rest of the session
}

// grant is a command that need not be asked for again.
type grant struct{ session, command string }

// Run waits for the end, and for every turn to notice it.
func (c *conn) Run(ctx context.Context, ready func(agentconn.Found)) error {
	c.mu.Lock()
	c.run = ctx
	c.mu.Unlock()
	ready(agentconn.Found{Epoch: c.epoch, Detail: "demo, nothing is real"})
	<-ctx.Done()
	c.mu.Lock()
	c.run = nil
	c.mu.Unlock()
	c.playing.Wait()
	return &agentconn.PublicError{Message: "The demo has ended.", Err: ctx.Err()}
}

// CreateSession keeps nothing: what a turn needs is in the session's state, so
// that sessions outlive nod.
func (c *conn) CreateSession(ctx context.Context, n state.NewSession) (string, error) {
	m := &state.SessionSummary{
		Resource: state.SessionScheme + strings.ToLower(rand.Text()), Provider: Provider, Status: state.StatusIdle,
		WorkingDirectory: new(state.FileURI(n.Folder)),
	}
	_, err := c.sink.Begin(ctx, Provider, m, nil, &state.SessionReady{}, &state.SessionModelChanged{Model: state.ModelSelection{ID: model}})
	return m.Resource, err
}

// Dispatch begins or stops a turn.
func (c *conn) Dispatch(ctx context.Context, s *state.Session, a state.Action) error {
	switch a := a.(type) {
	case *state.SessionTurnStarted:
		return c.begin(ctx, s, a.Message)
	case *state.SessionTurnCancelled:
		return c.stop(s.Summary.Resource, a.TurnID)
	}
	return fmt.Errorf("demo: cannot dispatch %s", a.Type())
}

func (c *conn) begin(ctx context.Context, s *state.Session, m state.Message) error {
	if _, err := c.sink.Begin(ctx, Provider, s.Summary, nil); err != nil { // it is live here now
		return err
	}
	st, err := c.enter(s)
	if err != nil {
		return err
	}
	// The page that a person is led to shows the message, so the turn begins here
	// and not on its goroutine.
	c.sink.Apply(ctx, st.uri, state.Source{}, state.Envelope{Channel: st.uri, Action: &state.SessionTurnStarted{TurnID: st.turn, Message: m}})
	first := len(s.Turns) == 0
	go func() {
		defer c.playing.Done()
		st.perform(func() { play(st, m.Text, first) })
	}()
	return nil
}

// enter registers a new turn; its goroutine owes playing a Done.
func (c *conn) enter(s *state.Session) (*stage, error) {
	uri := s.Summary.Resource
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil || c.run.Err() != nil {
		return nil, &agentconn.PublicError{Message: "The demo has ended. Send the message again to start it anew."}
	}
	if c.turns[uri] != nil {
		return nil, &agentconn.PublicError{Message: "The demo agent is still at work on your last message. Wait for it, or stop it."}
	}
	st := &stage{
		conn: c, uri: uri, turn: "turn-" + rand.Text(), began: time.Now(),
		folderURI: state.Value(s.Summary.WorkingDirectory), folder: state.FilePath(state.Value(s.Summary.WorkingDirectory)), meta: s.Meta,
	}
	st.ctx, st.stop = context.WithCancelCause(c.run)
	c.turns[uri] = st
	c.playing.Add(1)
	return st, nil
}

// leave unregisters a turn and returns why it ended early, nil if it did not.
// Nobody can stop it any more.
func (c *conn) leave(st *stage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.turns, st.uri)
	cause := context.Cause(st.ctx)
	st.stop(nil) // gives the context back
	return cause
}

func (c *conn) stop(uri, turn string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.turns[uri]
	if st == nil || st.turn != turn {
		return &agentconn.PublicError{Message: "That turn is over, so there is nothing to stop."}
	}
	st.stop(errStopped)
	return nil
}

// Answer hands a decision to the turn that waits for it.
func (c *conn) Answer(_ context.Context, r state.Request, d state.Decision) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[string(r.UpstreamID)]
	if w == nil || r.Epoch != c.epoch {
		return fmt.Errorf("demo: nobody waits for an answer to request %s of epoch %s", r.UpstreamID, r.Epoch)
	}
	delete(c.waiting, string(r.UpstreamID))
	w <- d
	return nil
}

// expect returns the id of a new request and where its answer will come.
func (c *conn) expect() (json.RawMessage, <-chan state.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	id, w := fmt.Append(nil, c.asked), make(chan state.Decision, 1)
	c.waiting[string(id)] = w
	return id, w
}

// forget takes no more answers to a request. It reports false if there is one
// already.
func (c *conn) forget(id json.RawMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.waiting[string(id)]
	delete(c.waiting, string(id))
	return open
}

// grant allows a command for the rest of a session.
func (c *conn) grant(session, command string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.granted[grant{session, command}] = true
}

func (c *conn) isGranted(session, command string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted[grant{session, command}]
}
