package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"nod/agentconn"
	"nod/state"
)

// conn is one evening at the theatre: it ends all its performances when it ends.
type conn struct {
	epoch string
	sink  agentconn.Sink

	mu      sync.Mutex
	running context.Context // Run's; nil before and after
	playing sync.WaitGroup
	asked   int                            // requests so far, for their ids
	waiting map[string]chan state.Decision // by upstream id
	stops   map[string]context.CancelFunc  // by turn id
}

// Run waits for the end, and for every performance to notice it.
func (c *conn) Run(ctx context.Context, ready func(string)) error {
	c.mu.Lock()
	c.running = ctx
	c.mu.Unlock()
	ready("Nothing here is real.")
	<-ctx.Done()
	c.mu.Lock()
	c.running = nil
	c.mu.Unlock()
	c.playing.Wait()
	return &agentconn.PublicError{Message: "The demo has ended.", Err: ctx.Err()}
}

// CreateSession needs nothing but a name.
func (c *conn) CreateSession(context.Context, string, string) ([]state.Action, error) {
	return []state.Action{&state.SessionReady{}, &state.SessionModelChanged{Model: state.ModelSelection{ID: "scripted"}}}, nil
}

// Dispatch begins or stops a performance.
func (c *conn) Dispatch(ctx context.Context, s *state.Session, a state.Action) error {
	switch a := a.(type) {
	case *state.SessionTurnStarted:
		return c.begin(ctx, s, a.Message)
	case *state.SessionTurnCancelled:
		c.mu.Lock()
		stop := c.stops[a.TurnID]
		c.mu.Unlock()
		if stop == nil {
			return &agentconn.PublicError{Message: "That turn is over."}
		}
		stop()
		return nil
	}
	return fmt.Errorf("demo: cannot dispatch %s", a.Type())
}

func (c *conn) begin(ctx context.Context, s *state.Session, m state.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return &agentconn.PublicError{Message: "The demo has ended. Send the message again to start it anew."}
	}
	playCtx, stop := context.WithCancel(c.running)
	st := &stage{
		conn: c, ctx: playCtx, uri: s.Summary.Resource, turn: "turn-" + rand.Text()[:8],
		folder: strings.TrimPrefix(s.Summary.WorkingDirectory, "file://"), meta: s.Meta,
	}
	c.stops[st.turn] = stop
	c.sink.Apply(ctx, st.uri, state.Envelope{Channel: st.uri, Action: &state.SessionTurnStarted{TurnID: st.turn, Message: m}})
	first := len(s.Turns) == 0
	c.playing.Go(func() {
		defer func() {
			stop()
			c.mu.Lock()
			delete(c.stops, st.turn)
			c.mu.Unlock()
		}()
		st.perform(func() { play(st, m.Text, first) })
	})
	return nil
}

// Answer hands a decision to the performance that waits for it.
func (c *conn) Answer(_ context.Context, r state.Request, d state.Decision) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[string(r.UpstreamID)]
	if w == nil || r.Epoch != c.epoch {
		return errors.New("demo: nobody waits for that answer")
	}
	delete(c.waiting, string(r.UpstreamID))
	w <- d // it has room for one
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

// forget drops a request whose performance has been stopped.
func (c *conn) forget(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, string(id))
}
