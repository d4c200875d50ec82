package agentconn

import (
	"context"

	"nod/state"
)

// Controller is a Conn by which a person does more than write and answer. What
// of it a link offers is in its state.Offers.
type Controller interface {
	Conn
	// Settings describes what can be chosen for a new session. It may ask the
	// runtime, and says what it knows where that takes too long.
	Settings(ctx context.Context) []state.Setting
	// Operate carries out an operation that the link offers, by its name. Its
	// result is the URI of the session to look at, where that is another one.
	Operate(ctx context.Context, s *state.Session, operation string, args map[string]string) (uri string, err error)
	// Older returns a page of the sessions that the runtime keeps. search may be "".
	Older(ctx context.Context, search, cursor string) (state.OlderPage, error)
	// Recall makes one of them known to the sink, with what was said in it. It does
	// not wake it.
	Recall(ctx context.Context, uri string) error
}

// Controllable is an Adapter whose connections are Controllers.
type Controllable interface {
	Adapter
	// Settings describes what can be chosen for a new session, as far as that is
	// known without a connection.
	Settings() []state.Setting
}

// errCannot is the error of what only a Controller can do.
var errCannot = &PublicError{Message: "This agent cannot do that."}

// controller returns the connection of that key, else the first to the provider
// that is up.
func (m *Manager) controller(key, provider string) (Controller, error) {
	c := m.upBest(key, provider)
	if c == nil {
		return nil, errDown
	}
	if c, ok := c.(Controller); ok {
		return c, nil
	}
	return nil, errCannot
}

// upBest returns the connection of that key, else the first to the provider that
// is up; nil if there is none.
func (m *Manager) upBest(key, provider string) Conn {
	if c := m.up(func(l *link, _ string) bool { return l.adapter.Key() == key }); c != nil {
		return c
	}
	return m.up(func(l *link, _ string) bool { return l.adapter.Provider() == provider })
}

// Settings describes what can be chosen for a new session of a provider, as far
// as that is known without starting it.
func (m *Manager) Settings(ctx context.Context, provider string) []state.Setting {
	if c, err := m.controller("", provider); err == nil {
		return c.Settings(ctx)
	}
	for _, l := range m.links {
		if a, ok := l.adapter.(Controllable); ok && a.Provider() == provider {
			return a.Settings()
		}
	}
	return nil
}

// Operate carries out an operation on a session that is live, or was, on the link
// of that key. It starts no runtime.
func (m *Manager) Operate(ctx context.Context, key string, s *state.Session, operation string, args map[string]string) (string, error) {
	c, err := m.controller(key, s.Summary.Provider)
	if err != nil {
		return "", err
	}
	return c.Operate(ctx, s, operation, args)
}

// Older returns a page of the sessions that a provider keeps.
func (m *Manager) Older(ctx context.Context, provider, search, cursor string) (state.OlderPage, error) {
	c, err := m.reachController(ctx, provider)
	if err != nil {
		return state.OlderPage{}, err
	}
	return c.Older(ctx, search, cursor)
}

// Recall makes one of these sessions known.
func (m *Manager) Recall(ctx context.Context, provider, uri string) error {
	c, err := m.reachController(ctx, provider)
	if err != nil {
		return err
	}
	return c.Recall(ctx, uri)
}

func (m *Manager) reachController(ctx context.Context, provider string) (Controller, error) {
	c, err := m.reach(ctx, provider)
	if err != nil {
		return nil, err
	}
	if c, ok := c.(Controller); ok {
		return c, nil
	}
	return nil, errCannot
}
