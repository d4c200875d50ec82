// Package demo is the agent that nod offers where no real one is installed. It
// plays a script that shows everything nod does, and says that it is a play:
// nothing is run, no file is touched.
//
// conn.go is the link: it starts a performance for each turn and carries
// decisions to it. stage.go has what a script can do: say, think, run, ask.
// script.go is the script.
package demo

import (
	"context"

	"nod/agentconn"
	"nod/state"
)

// Provider is the adapter's key.
const Provider = "demo"

type adapter struct{}

// New returns the adapter of the demo agent.
func New() agentconn.Adapter { return adapter{} }

func (adapter) Provider() string    { return Provider }
func (adapter) DisplayName() string { return "Demo agent" }

func (adapter) Find() (string, error) {
	return "A scripted play of about a minute. It runs nothing and touches no file.", nil
}

func (adapter) NewConn(epoch string, sink agentconn.Sink) agentconn.Conn {
	return &conn{epoch: epoch, sink: sink, waiting: map[string]chan state.Decision{}, stops: map[string]context.CancelFunc{}}
}
