package agentconn

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"nod/state"
)

const (
	// startTimeout bounds how long a person waits for an agent to start: it ends
	// after what an adapter waits for, which knows more.
	startTimeout = 40 * time.Second
	// lookEvery is how often a runtime is looked for that somebody else starts, and
	// maxPause how long nod waits at most after it could not be linked to.
	lookEvery = time.Second
	maxPause  = time.Minute
	// returnWithin is how long what was open on a lasting runtime stays open while
	// the runtime itself is not there: a daemon that is restarted takes some
	// seconds.
	returnWithin = 15 * time.Second
)

// Manager makes a link where a runtime is there, or when somebody needs one, and
// again after it was lost. Use NewManager, then Start.
type Manager struct {
	sink  Sink
	log   *slog.Logger
	ctx   context.Context
	stop  context.CancelFunc
	ended sync.WaitGroup
	links []*link // in order of preference
}

// link is the place of one adapter. Its goroutine makes the connections.
type link struct {
	adapter Adapter
	needed  chan need // somebody waits for it

	mu    sync.Mutex
	conn  Conn   // nil unless ready
	epoch string // of conn
}

// need is somebody who waits for a link to be up or, if anew is set and there is one
// to a runtime that goes on without it, for the end of that one.
type need struct {
	answer chan error // has room for one
	anew   bool
}

// NewManager returns a manager of links to what the adapters reach, in order of
// preference.
func NewManager(sink Sink, adapters []Adapter, log *slog.Logger) *Manager {
	ctx, stop := context.WithCancel(context.Background())
	m := &Manager{sink: sink, log: log, ctx: ctx, stop: stop}
	for _, a := range adapters {
		m.links = append(m.links, &link{adapter: a, needed: make(chan need)})
	}
	return m
}

// Start begins to look for runtimes.
func (m *Manager) Start() {
	for _, l := range m.links {
		m.ended.Go(func() { m.tend(l) })
	}
}

// Close ends all links and waits until the processes that live with them are gone.
func (m *Manager) Close() {
	m.stop()
	m.ended.Wait()
}

// tend keeps one link while its runtime is there.
func (m *Manager) tend(l *link) {
	// What was open there stays open until its end is told: at once where nobody
	// else would start the runtime again.
	lasting, told, since := true, false, time.Now()
	status, why := state.LinkIdle, ""
	pause := time.Duration(0)
	var wants chan error
	for {
		next := time.NewTimer(pause)
		select {
		case n := <-l.needed:
			wants = n.answer
		case <-next.C:
			wants = nil
		case <-m.ctx.Done():
			next.Stop()
			return
		}
		next.Stop()
		if wants == nil && !l.adapter.Running() {
			if !told && (l.adapter.Starts() || time.Since(since) > returnWithin) {
				told = true
				m.report(l, status, Found{}, why)
			}
			pause = lookEvery
			continue
		}
		failing := pause > lookEvery
		found, waiting, err := m.connect(l, wants, failing)
		if m.ctx.Err() != nil && found.Epoch == "" {
			answer(waiting, err)
			return // nothing has changed there
		}
		up := found.Epoch != ""
		if up {
			lasting, since, pause = found.Lasting, time.Now(), lookEvery
			told = !lasting
			if m.ctx.Err() != nil && !lasting {
				err = &PublicError{Message: "nod was stopped, and the agent's program with it.", Err: err}
			}
		} else {
			pause = min(2*max(pause, lookEvery), maxPause)
		}
		if sentence := Sentence(err); up || !failing || sentence != why {
			status, why = state.LinkLost, sentence
			m.log.Warn("link lost", "link", l.adapter.Key(), "epoch", found.Epoch, "err", err)
			found.Lasting = lasting && !told
			m.report(l, status, found, why)
		}
		answer(waiting, err) // when the pages know
		if up && lasting && !l.adapter.Running() {
			pause = 0
		}
	}
}

// answer tells those who wait for a link how it is.
func answer(waiting []chan error, err error) {
	for _, w := range waiting {
		w <- err
	}
}

// connect runs one connection until it is lost, and tells why, and who still waits
// for it. Nothing is found where the link never came up.
func (m *Manager) connect(l *link, wants chan error, failing bool) (found Found, waiting []chan error, err error) {
	if wants != nil {
		waiting = append(waiting, wants)
	}
	if !failing {
		m.report(l, state.LinkConnecting, Found{Lasting: true}, "")
	}
	ctx, abandon := context.WithCancel(m.ctx)
	defer abandon()
	conn := l.adapter.NewConn(m.sink)
	ready, lost := make(chan Found, 1), make(chan error, 1)
	m.ended.Go(func() {
		lost <- conn.Run(ctx, func(f Found) {
			l.set(conn, f.Epoch)
			m.report(l, state.LinkUp, f, f.Detail)
			ready <- f
		})
	})
	patience := time.NewTimer(startTimeout)
	defer patience.Stop()
	needed := l.needed
	for {
		select {
		case found = <-ready:
			patience.Stop()
			answer(waiting, nil)
			waiting = nil
		case stalled := <-found.Stalled:
			if stalled {
				m.report(l, state.LinkStalled, found, l.adapter.DisplayName()+" does not answer.")
			} else {
				m.report(l, state.LinkUp, found, found.Detail)
			}
		case n := <-needed:
			switch {
			case found.Epoch == "":
				waiting = append(waiting, n.answer)
			case n.anew && found.Lasting:
				waiting, needed = append(waiting, n.answer), nil
				abandon()
			default:
				n.answer <- nil
			}
		case <-patience.C:
			if len(ready) > 0 {
				continue
			}
			abandon()
			err = &PublicError{
				Message: l.adapter.DisplayName() + " did not answer in time. Try again; if it stays so, start it by hand in a terminal to see what it says.",
				Err:     <-lost,
			}
			l.set(nil, "")
			return found, waiting, err
		case err = <-lost:
			select {
			case found = <-ready: // it was ready and is lost
			default:
			}
			l.set(nil, "")
			return found, waiting, err
		}
	}
}

func (l *link) set(c Conn, epoch string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.epoch = c, epoch
}

func (l *link) get() (Conn, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn, l.epoch
}

func (m *Manager) report(l *link, status state.LinkStatus, f Found, detail string) {
	m.sink.LinkChanged(context.WithoutCancel(m.ctx), state.Link{
		Key: l.adapter.Key(), Provider: l.adapter.Provider(), DisplayName: l.adapter.DisplayName(),
		Status: status, Epoch: f.Epoch, Lasting: f.Lasting, Offers: f.Offers, Detail: detail, Since: time.Now().UnixMilli(),
	})
}

// CreateSession starts a session; see Conn.
func (m *Manager) CreateSession(ctx context.Context, n state.NewSession) (string, error) {
	c, err := m.reach(ctx, n.Provider)
	if err != nil {
		return "", err
	}
	return c.CreateSession(ctx, n)
}

// Dispatch carries out an action on a session that is live, or was, on the link
// of that key; see Conn. Only starting a turn starts a runtime: everything else
// concerns what runs on a link that is up.
func (m *Manager) Dispatch(ctx context.Context, key string, s *state.Session, a state.Action) error {
	c := m.up(func(l *link, _ string) bool { return l.adapter.Key() == key })
	if c == nil {
		switch a.(type) {
		case *state.SessionTurnStarted:
			var err error
			if c, err = m.reach(ctx, s.Summary.Provider); err != nil {
				return err
			}
		case *state.SessionTitleChanged, *state.SessionIsArchivedChanged: // any runtime of the provider can note it
			c = m.upBest(key, s.Summary.Provider)
		}
	}
	if c == nil {
		return errDown
	}
	return c.Dispatch(ctx, s, a)
}

// Answer sends a decision over the link that the request came over; see Conn.
func (m *Manager) Answer(ctx context.Context, r state.Request, d state.Decision) error {
	c := m.up(func(_ *link, epoch string) bool { return epoch == r.Epoch })
	if c == nil {
		return errDown
	}
	return c.Answer(ctx, r, d)
}

var errDown = &PublicError{Message: "The link to the agent is down, so nothing was sent."}

// up returns the first connection that is up and for which f holds, nil if there
// is none.
func (m *Manager) up(f func(l *link, epoch string) bool) Conn {
	for _, l := range m.links {
		if c, epoch := l.get(); c != nil && f(l, epoch) {
			return c
		}
	}
	return nil
}

// reach returns the best connection to a provider, started if need be.
func (m *Manager) reach(ctx context.Context, provider string) (Conn, error) {
	of := func(l *link, _ string) bool { return l.adapter.Provider() == provider }
	if c := m.up(of); c != nil {
		return c, nil
	}
	i := slices.IndexFunc(m.links, func(l *link) bool { return of(l, "") && l.adapter.Running() })
	if i < 0 {
		i = slices.IndexFunc(m.links, func(l *link) bool { return of(l, "") && l.adapter.Starts() })
	}
	if i < 0 { // it may have come this moment
		i = slices.IndexFunc(m.links, func(l *link) bool { return of(l, "") })
	}
	if i < 0 {
		return nil, &PublicError{Message: "The agent of this session (" + provider + ") is not available here. Start or install it, and try again."}
	}
	l := m.links[i]
	if _, err := l.adapter.Find(); err != nil {
		return nil, err
	}
	if err := m.ask(ctx, l, false); err != nil {
		return nil, err
	}
	if c, _ := l.get(); c != nil {
		return c, nil
	}
	return nil, errDown
}

// ask waits until a link is up; if anew is set, until a connection that can be made
// again has ended.
func (m *Manager) ask(ctx context.Context, l *link, anew bool) error {
	n := need{make(chan error, 1), anew}
	select {
	case l.needed <- n:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ctx.Done():
		return errDown
	}
	select {
	case err := <-n.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Connect makes the link of that key now. One that is up is made anew if the runtime
// goes on without it; else it stays, since what runs on it would end with it.
func (m *Manager) Connect(ctx context.Context, key string) error {
	i := slices.IndexFunc(m.links, func(l *link) bool { return l.adapter.Key() == key })
	if i < 0 {
		return &PublicError{Message: "There is no such agent here."}
	}
	l := m.links[i]
	if _, err := l.adapter.Find(); err != nil {
		return err
	}
	if c, _ := l.get(); c != nil {
		_ = m.ask(ctx, l, true) // how the old one ended does not matter
	}
	return m.ask(ctx, l, false)
}
