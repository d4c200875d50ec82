package agentconn

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"nod/state"
)

// startTimeout bounds how long a person waits for an agent to start. Codex takes
// up to 3 s on a cold disk.
const startTimeout = 20 * time.Second

// Manager starts a link when somebody needs it, and again after it was lost. A
// link that nobody needs costs nothing.
type Manager struct {
	sink  Sink
	log   *slog.Logger
	ctx   context.Context
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu    sync.Mutex
	links map[string]*link // by provider
}

type link struct {
	adapter Adapter
	starts  sync.Mutex    // held while starting: one process, however many ask
	ended   chan struct{} // of the newest connection, closed when its loss is reported; guarded by starts
	conn    Conn          // nil unless ready; guarded by Manager.mu
}

// NewManager returns a manager of links to the runtimes that the adapters reach.
func NewManager(sink Sink, adapters []Adapter, log *slog.Logger) *Manager {
	ctx, stop := context.WithCancel(context.Background())
	m := &Manager{sink: sink, log: log, ctx: ctx, stop: stop, links: map[string]*link{}}
	for _, a := range adapters {
		m.links[a.Provider()] = &link{adapter: a}
	}
	return m
}

// Close ends all links and waits until their processes are gone.
func (m *Manager) Close() {
	m.stop()
	m.ended.Wait()
}

// CreateSession starts a session; see Conn.
func (m *Manager) CreateSession(ctx context.Context, provider, uri, folder string) ([]state.Action, error) {
	c, err := m.connect(ctx, provider)
	if err != nil {
		return nil, err
	}
	return c.CreateSession(ctx, uri, folder)
}

// Dispatch carries out an action; see Conn. Only starting a turn starts a link:
// everything else concerns what runs on a link that is up.
func (m *Manager) Dispatch(ctx context.Context, s *state.Session, a state.Action) error {
	var c Conn
	var err error
	if _, starts := a.(*state.SessionTurnStarted); starts {
		c, err = m.connect(ctx, s.Summary.Provider)
	} else {
		c, err = m.connected(s.Summary.Provider)
	}
	if err != nil {
		return err
	}
	return c.Dispatch(ctx, s, a)
}

// Answer sends a decision; see Conn.
func (m *Manager) Answer(ctx context.Context, r state.Request, d state.Decision) error {
	c, err := m.connected(r.Provider)
	if err != nil {
		return err
	}
	return c.Answer(ctx, r, d)
}

func (m *Manager) connected(provider string) (Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.links[provider]; l != nil && l.conn != nil {
		return l.conn, nil
	}
	return nil, &PublicError{Message: "The link to the agent is down, so nothing was sent."}
}

// connect returns the link of a provider, started if need be.
func (m *Manager) connect(ctx context.Context, provider string) (Conn, error) {
	l := m.links[provider]
	if l == nil {
		return nil, &PublicError{Message: "The agent of this session (" + provider + ") is not available here. Install it and start nod again."}
	}
	l.starts.Lock()
	defer l.starts.Unlock()
	if c, err := m.connected(provider); err == nil {
		return c, nil
	}
	if l.ended != nil { // the loss is known everywhere before another link begins
		<-l.ended
	}
	if _, err := l.adapter.Find(); err != nil {
		return nil, err
	}
	epoch := rand.Text()
	conn := l.adapter.NewConn(epoch, m.sink)
	m.report(l, state.LinkConnecting, epoch, "")
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	runCtx, abandon := context.WithCancel(m.ctx)
	ready, lost, ended := make(chan struct{}), make(chan error, 1), make(chan struct{})
	l.ended = ended
	m.ended.Go(func() {
		err := conn.Run(runCtx, func(detail string) {
			m.mu.Lock()
			l.conn = conn
			m.mu.Unlock()
			m.report(l, state.LinkUp, epoch, detail)
			close(ready)
		})
		abandon()
		if m.ctx.Err() != nil {
			err = &PublicError{Message: "nod was stopped, and the agent's program with it.", Err: err}
		}
		m.log.Warn("link lost", "provider", provider, "epoch", epoch, "err", err)
		m.mu.Lock()
		l.conn = nil
		m.mu.Unlock()
		m.report(l, state.LinkLost, epoch, Sentence(err))
		lost <- err
		close(ended)
	})
	select {
	case <-ready:
		return conn, nil
	case err := <-lost:
		return nil, err
	case <-ctx.Done():
		abandon()
		<-lost
		return nil, &PublicError{Message: l.adapter.DisplayName() + " did not answer in time. Try again; if it stays so, start it by hand in a terminal to see what it says.", Err: ctx.Err()}
	}
}

func (m *Manager) report(l *link, status state.LinkStatus, epoch, detail string) {
	m.sink.LinkChanged(context.WithoutCancel(m.ctx), state.Link{
		Provider: l.adapter.Provider(), DisplayName: l.adapter.DisplayName(), Status: status,
		Epoch: epoch, Detail: detail, Since: time.Now().UnixMilli(),
	})
}
