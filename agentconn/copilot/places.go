package copilot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"nod/agentconn"
)

// Adapters returns one adapter for each place, those first that are better for new
// sessions.
func Adapters(cfg Config) ([]agentconn.Adapter, error) {
	var out []agentconn.Adapter
	known := map[string]bool{}
	for _, s := range cfg.Servers {
		a, err := configured(cfg, s)
		if err != nil {
			return nil, err
		}
		if known[s.Address] {
			return nil, fmt.Errorf("the Copilot server “%s” is named twice; take one out of the configuration", s.Address)
		}
		known[s.Address] = true
		out = append(out, a)
	}
	return out, nil
}

// howItAsks is what to know before a session is started.
const howItAsks = "Copilot asks before it runs a command, changes a file or reads one."

// listening reports whether somebody listens there.
func listening(network, address string) bool {
	c, err := net.DialTimeout(network, address, 300*time.Millisecond)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// ---- a server that the owner has named ----

// remote is a server on a port of this machine, or a terminal that was started with
// --ui-server.
type remote struct {
	cfg Config
	Server

	mu      sync.Mutex
	looked  time.Time
	running bool // then
}

// remoteEvery is how often it is looked whether a server is there: each time is a
// connection that it has to take.
const remoteEvery = 3 * time.Second

// configured returns the adapter of a server that the owner has named.
func configured(cfg Config, s Server) (agentconn.Adapter, error) {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil || port == "" {
		return nil, fmt.Errorf("the Copilot server “%s” must be host:port", s.Address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("the Copilot server “%s” is on another machine: its connection is not encrypted, so anybody on the way could read along and approve; reach it through an SSH tunnel", s.Address)
	}
	return &remote{cfg: cfg, Server: s}, nil
}

// terminal reports whether it is a terminal's.
func (r *remote) terminal() bool { return r.TokenFile == "" }

// Key implements agentconn.Adapter.
func (r *remote) Key() string { return Provider + "@" + r.Address }

// Provider implements agentconn.Adapter: the sessions there are that server's own.
func (r *remote) Provider() string { return r.Key() }

// DisplayName implements agentconn.Adapter.
func (r *remote) DisplayName() string {
	if r.terminal() {
		return "Copilot in the terminal at " + r.Address
	}
	return "Copilot at " + r.Address
}

// Find never fails: whether it is there shows when it is.
func (r *remote) Find() (string, error) {
	if r.terminal() {
		return howItAsks + " " + noToken, nil
	}
	return howItAsks, nil
}

// noToken is what to know of a terminal that serves.
const noToken = "This terminal takes no token: every program and every user of this machine can use it as you can."

// Running reports whether somebody listens there, or did some seconds ago.
func (r *remote) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) >= remoteEvery {
		r.looked, r.running = time.Now(), listening("tcp", r.Address)
	}
	return r.running
}

// Starts reports false: it is somebody else's.
func (r *remote) Starts() bool { return false }

// NewConn returns a link that is not started yet.
func (r *remote) NewConn(sink agentconn.Sink) agentconn.Conn {
	c := newConn(r, r.cfg, sink, func(ctx context.Context) (dialled, error) {
		token, err := r.token()
		if err != nil {
			return dialled{}, err
		}
		var d net.Dialer
		wire, err := d.DialContext(ctx, "tcp", r.Address)
		if err != nil {
			return dialled{}, &agentconn.PublicError{Message: "Nobody answers at " + r.Address + ".", Err: err}
		}
		// Its requests have ids that come only once, so a card lives as long as what it
		// is about.
		out := dialled{wire: wire, token: token, epoch: r.Key(), lasting: true}
		if r.terminal() {
			out.notice = noToken
		}
		return out, nil
	})
	c.terminal = r.terminal()
	return c
}

// token reads the connection token, anew for each connection.
func (r *remote) token() (string, error) {
	if r.TokenFile == "" {
		return "", nil
	}
	info, err := os.Stat(r.TokenFile)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", &agentconn.PublicError{Message: "Others can read the token for " + r.DisplayName() + ": chmod 600 " + r.TokenFile + ", and nod links to it."}
	}
	b, err := os.ReadFile(r.TokenFile)
	if err == nil && len(strings.TrimSpace(string(b))) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", &agentconn.PublicError{Message: "The token for " + r.DisplayName() + " cannot be read from " + r.TokenFile + ".", Err: err}
	}
	return strings.TrimSpace(string(b)), nil
}
