// Package demo is the agent that nod offers where no real one is installed. It
// plays a script that shows what nod does, and says that it is a script: nothing
// is run, no file is touched.
//
// A message comes in at conn.go, which begins a turn and carries decisions to
// it. stage.go has what a turn can do: say, think, run, ask. script.go is what it
// does, and texts.go what is too long to stand there.
package demo

import (
	"crypto/rand"

	"nod/agentconn"
	"nod/state"
)

// Provider is the adapter's key.
const Provider = "demo"

type adapter struct{}

// New returns the adapter of the demo agent.
func New() agentconn.Adapter { return adapter{} }

func (adapter) Key() string         { return Provider }
func (adapter) Provider() string    { return Provider }
func (adapter) DisplayName() string { return "Demo agent" }

// Find never fails: the demo is part of nod.
func (adapter) Find() (string, error) {
	return "A script of about a minute that shows what nod does. It runs nothing and touches no file.", nil
}

// Running reports false: the demo plays only when somebody wants it.
func (adapter) Running() bool { return false }
func (adapter) Starts() bool  { return true }

func (adapter) NewConn(sink agentconn.Sink) agentconn.Conn {
	return &conn{
		epoch: rand.Text(), sink: sink,
		turns: map[string]*stage{}, waiting: map[string]chan state.Decision{}, granted: map[grant]bool{},
	}
}
