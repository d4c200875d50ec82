// Package codex links nod to OpenAI Codex through its app-server, which speaks
// JSON-RPC (schema: codex app-server protocol; tested with 0.122.0 and 0.171.0).
//
// There may be several servers at once, each an adapter of its own: the daemon
// that a `codex` in a terminal uses, servers that the owner has configured, and
// nod's own. places.go knows them, wire.go how to talk to them.
//
// A message comes in through conn.Run. A notification goes to translate.go,
// which makes AHP actions of it; a request of the server goes to requests.go,
// which makes a state.Request of it that waits for a person. nod never answers a
// server request by itself: on a server that others share, an error answer
// rejects the request for everybody.
//
// A Codex thread is an AHP session, and its id the last part of the session's
// URI. attach.go finds the threads of a server, and brings a session up to what
// happened while nod did not listen.
package codex

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"nod/agentconn"
)

// Provider is the key of the sessions of this machine's Codex.
const Provider = "codex"

const displayName = "Codex"

// Config is what the owner has set.
type Config struct {
	Command string   // program to look up; "codex" unless configured
	Env     []string // names of further variables to pass on to nod's own server
	Servers []Server // further servers
	Data    string   // nod's data folder; its own server has a folder there
	Log     *slog.Logger
}

// Server is an app-server that somebody else runs.
type Server struct {
	URL       string `toml:"url"`        // unix://PATH, ws:// to this machine, or wss://
	TokenFile string `toml:"token_file"` // holds the bearer token; "": none is asked for
}

// Adapters returns one adapter for each server, those first that are better for
// new sessions: on the daemon a terminal can join them.
func Adapters(cfg Config) ([]agentconn.Adapter, error) {
	out := []agentconn.Adapter{socket{place{Provider + "@daemon", Provider, "Codex in a terminal", cfg}, daemonSocket()}}
	known := map[string]bool{"unix://" + daemonSocket(): true, "unix://" + cfg.socket(): true}
	for _, s := range cfg.Servers {
		a, err := configured(cfg, s)
		if err != nil {
			return nil, err
		}
		// What is told over two links would be there twice.
		if address := strings.TrimRight(s.URL, "/"); known[address] {
			return nil, fmt.Errorf("the Codex server “%s” is named twice, or nod finds it by itself; take it out of the configuration", s.URL)
		} else {
			known[address] = true
		}
		out = append(out, a)
	}
	return append(out, own{place{Provider, Provider, displayName, cfg}}), nil
}

// home is Codex's own folder.
func home() string {
	if dir := os.Getenv("CODEX_HOME"); dir != "" {
		return dir
	}
	dir, _ := os.UserHomeDir() // without one there is no Codex either
	return filepath.Join(dir, ".codex")
}

// daemonSocket is where a `codex` in a terminal finds its daemon, or starts it.
func daemonSocket() string {
	return filepath.Join(home(), "app-server-control", "app-server-control.sock")
}

// program returns the absolute path of codex.
func (cfg Config) program() (string, error) {
	command := cmp.Or(cfg.Command, "codex")
	p, err := exec.LookPath(command)
	if err == nil {
		p, err = filepath.Abs(p)
	}
	if err != nil {
		return "", &agentconn.PublicError{Message: "Codex is not installed: there is no program “" + command + "” on PATH. Install it (npm install -g @openai/codex) and start nod again.", Err: err}
	}
	return p, nil
}
