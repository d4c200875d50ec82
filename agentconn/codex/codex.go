// Package codex links nod to OpenAI Codex through `codex app-server`, which runs
// as a child and speaks JSON-RPC, one message a line, on its standard input and
// output (schema: codex app-server protocol; tested with 0.122.0 and 0.171.0).
//
// A message comes in through conn.Run. A notification goes to translate.go,
// which makes AHP actions of it; a request of the server goes to requests.go,
// which makes a state.Request of it that waits for a person. nod never answers a
// server request by itself: on a server that others share, an error answer
// rejects the request for everybody.
//
// A Codex thread is an AHP session. Its id stands in the session's _meta under
// "codex.threadId", so that a later link can resume it.
package codex

import (
	"log/slog"
	"os/exec"
	"path/filepath"

	"nod/agentconn"
)

// Provider is the adapter's key.
const Provider = "codex"

const displayName = "Codex"

// Adapter starts `codex app-server` children.
type Adapter struct {
	Command string   // program to look up; "codex" unless configured
	Env     []string // names of further variables to pass on to the child
	Log     *slog.Logger
}

// Provider returns "codex".
func (Adapter) Provider() string { return Provider }

// DisplayName returns "Codex".
func (Adapter) DisplayName() string { return displayName }

// Find looks for the program on PATH.
func (a Adapter) Find() (string, error) {
	if _, err := a.path(); err != nil {
		return "", err
	}
	return "Codex asks before it runs a command or changes a file. For a folder inside a repository it may mark that folder as trusted in its own config.toml.", nil
}

func (a Adapter) path() (string, error) {
	p, err := exec.LookPath(a.Command)
	if err == nil {
		p, err = filepath.Abs(p)
	}
	if err != nil {
		return "", &agentconn.PublicError{Message: "Codex is not installed: there is no program “" + a.Command + "” on PATH. Install it (npm install -g @openai/codex) and start nod again.", Err: err}
	}
	return p, nil
}

// NewConn returns a link that is not started yet.
func (a Adapter) NewConn(epoch string, sink agentconn.Sink) agentconn.Conn {
	return &conn{adapter: a, epoch: epoch, sink: sink, log: a.Log.With("agent", Provider, "epoch", epoch), threads: map[string]*thread{}, attached: map[string]bool{}}
}
