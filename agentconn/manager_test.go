package agentconn

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nod/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is an adapter whose runtime a test switches on and off.
type place struct {
	mu      sync.Mutex
	running bool
	starts  bool
	refuses bool // every connection
	lasting bool
	dials   int
	cut     chan struct{} // ends a connection
}

func (p *place) Key() string           { return "k" }
func (p *place) Provider() string      { return "p" }
func (p *place) DisplayName() string   { return "P" }
func (p *place) Find() (string, error) { return "", nil }
func (p *place) Starts() bool          { return p.starts }
func (p *place) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

func (p *place) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *place) NewConn(Sink) Conn { return &connection{p} }

type connection struct{ *place }

func (c *connection) Run(ctx context.Context, ready func(Found)) error {
	c.mu.Lock()
	c.dials++
	refuses := c.refuses
	c.mu.Unlock()
	if refuses {
		return &PublicError{Message: "It refuses."}
	}
	ready(Found{Epoch: "e", Lasting: c.lasting})
	select {
	case <-c.cut:
		return &PublicError{Message: "It was cut."}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *connection) CreateSession(context.Context, state.NewSession) (string, error) {
	return "uri", nil
}
func (c *connection) Dispatch(context.Context, *state.Session, state.Action) error { return nil }
func (c *connection) Answer(context.Context, state.Request, state.Decision) error  { return nil }

// ear is a sink that hears of links alone.
type ear struct {
	Sink
	mu    sync.Mutex
	heard []state.Link
}

func (e *ear) LinkChanged(_ context.Context, l state.Link) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, l)
}

func (e *ear) last() state.Link {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard[len(e.heard)-1]
}

// with runs a test on a manager of one place.
func with(t *testing.T, p *place, f func(m *Manager, e *ear)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		p.cut = make(chan struct{})
		e := &ear{}
		m := NewManager(e, []Adapter{p}, slog.New(slog.DiscardHandler))
		m.Start()
		synctest.Wait()
		f(m, e)
		m.Close()
	})
}

// TestBackoff: a runtime that refuses is asked less and less often, and is told of
// once.
func TestBackoff(t *testing.T) {
	p := &place{running: true, refuses: true}
	with(t, p, func(m *Manager, e *ear) {
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if p.dials > 20 || len(e.heard) > 3 || e.last().Status != state.LinkLost || e.last().Detail != "It refuses." {
			t.Errorf("%d attempts; heard %+v", p.dials, e.heard)
		}
		p.set(func() { p.refuses = false })
		time.Sleep(maxPause)
		synctest.Wait()
		if e.last().Status != state.LinkUp {
			t.Errorf("it is %s", e.last().Status)
		}
	})
}

// TestNeededDoesNotWait: whoever needs the link has it tried at once.
func TestNeededDoesNotWait(t *testing.T) {
	p := &place{running: true, refuses: true}
	with(t, p, func(m *Manager, e *ear) {
		time.Sleep(5 * time.Minute)
		p.set(func() { p.refuses = false })
		before := time.Now()
		if _, err := m.CreateSession(context.Background(), state.NewSession{Provider: "p"}); err != nil || time.Since(before) != 0 {
			t.Errorf("after %v: %v", time.Since(before), err)
		}
	})
}

// TestLasting: what is open on a lasting runtime is ended when it has been away for
// too long, not when the link is lost, nor when an attempt to link anew fails.
func TestLasting(t *testing.T) {
	p := &place{running: true, lasting: true}
	with(t, p, func(m *Manager, e *ear) {
		p.set(func() { p.refuses = true })
		p.cut <- struct{}{}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, l := range e.heard {
			if l.Status == state.LinkLost && !l.Lasting {
				t.Errorf("it is given up though it runs: %+v", e.heard)
			}
		}
		p.set(func() { p.running = false })
		time.Sleep(returnWithin + maxPause)
		synctest.Wait()
		if l := e.last(); l.Status != state.LinkLost || l.Lasting {
			t.Errorf("it is gone, and is %+v", l)
		}
		p.set(func() { p.running, p.refuses = true, false })
		time.Sleep(maxPause)
		synctest.Wait()
		if l := e.last(); l.Status != state.LinkUp {
			t.Errorf("it is back, and is %+v", l)
		}
	})
}

// TestNobodyElseStarts: a runtime that only nod would start is given up at once.
func TestNobodyElseStarts(t *testing.T) {
	p := &place{running: true, starts: true, lasting: true}
	with(t, p, func(m *Manager, e *ear) {
		p.set(func() { p.running = false })
		p.cut <- struct{}{}
		time.Sleep(lookEvery)
		synctest.Wait()
		if l := e.last(); l.Status != state.LinkLost || l.Lasting || l.Detail != "It was cut." {
			t.Errorf("it is %+v", l)
		}
	})
}

// TestNobodyThere: where there is nothing to link to, and nothing to start.
func TestNobodyThere(t *testing.T) {
	p := &place{refuses: true}
	with(t, p, func(m *Manager, e *ear) {
		_, err := m.CreateSession(context.Background(), state.NewSession{Provider: "p"})
		var public *PublicError
		if !errors.As(err, &public) {
			t.Errorf("%v", err)
		}
		if err := m.Answer(context.Background(), state.Request{Epoch: "e"}, state.Decision{}); err == nil {
			t.Error("an answer went nowhere, and nobody says so")
		}
	})
}

// TestC53ConnectAgain makes a link by hand: one that is lost at once, and one that is
// up anew if its runtime goes on without it.
func TestC53ConnectAgain(t *testing.T) {
	for name, c := range map[string]struct {
		p     *place
		dials int
	}{
		"lasting":   {&place{running: true, lasting: true}, 2},
		"a child":   {&place{running: true}, 1},
		"not there": {&place{}, 1},
	} {
		with(t, c.p, func(m *Manager, e *ear) {
			if err := m.Connect(context.Background(), "k"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := e.last(); got.Status != state.LinkUp || c.p.dials != c.dials {
				t.Errorf("%s: it is %s after %d connections", name, got.Status, c.p.dials)
			}
			c.p.set(func() { c.p.refuses = true })
			c.p.cut <- struct{}{}
			synctest.Wait()
			var p *PublicError
			if err := m.Connect(context.Background(), "k"); !errors.As(err, &p) || p.Message != "It refuses." {
				t.Errorf("%s: %v", name, err)
			}
			if err := m.Connect(context.Background(), "other"); !errors.As(err, &p) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
