package codex

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"nod/agentconn"
)

// place is what all adapters have.
type place struct {
	key, provider, name string
	cfg                 Config
}

// Key returns the key of the link.
func (p place) Key() string { return p.key }

// Provider returns whose sessions are reached there.
func (p place) Provider() string { return p.provider }

// DisplayName returns what people call it.
func (p place) DisplayName() string { return p.name }

// ---- a server on a unix socket ----

// socket is a server that somebody else has started on a unix socket: the daemon,
// or one that is configured.
type socket struct {
	place
	path string
}

// Find fails where there is neither such a server nor a program that would start it.
func (s socket) Find() (string, error) {
	if s.Running() {
		return howItAsks, nil
	}
	_, err := s.cfg.program()
	return "Type codex in a terminal, and its session appears here.", err
}

// Running reports whether it listens.
func (s socket) Running() bool { return agentconn.Listening("unix", s.path) }

// Starts reports false: it is somebody else's.
func (s socket) Starts() bool { return false }

// NewConn returns a link that is not started yet.
func (s socket) NewConn(sink agentconn.Sink) agentconn.Conn {
	return newConn(s.place, sink, func(ctx context.Context, _ *conn) (dialled, error) {
		d, err := dialUnix(ctx, s.path)
		if d.terminal = "codex resume"; s.path != daemonSocket() {
			d.terminal = joins("unix://" + s.path)
		}
		return d, err
	})
}

// ---- a server on a WebSocket ----

// remote is a configured server on a WebSocket.
type remote struct {
	place
	url       *url.URL
	tokenFile string

	mu      sync.Mutex
	looked  time.Time
	running bool // then
}

// remoteEvery is how often it is looked whether a server on a WebSocket is there:
// each time is a connection that it has to take, maybe over a long way.
const remoteEvery = 5 * time.Second

// configured returns the adapter of a server that the owner has named.
func configured(cfg Config, s Server) (agentconn.Adapter, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("the Codex server “%s” is not an address: %w", s.URL, err)
	}
	at := place{Provider + "@" + s.URL, Provider + "@" + s.URL, "Codex at " + u.Host, cfg}
	ip := net.ParseIP(u.Hostname())
	switch {
	case u.Scheme == "unix" && filepath.IsAbs(u.Path) && s.TokenFile == "":
		at.name = "Codex at " + filepath.Base(u.Path)
		return socket{at, u.Path}, nil
	case u.Scheme == "unix":
		return nil, fmt.Errorf("the Codex server “%s” must be unix:// and an absolute path, without a token: who may use the file may use the server", s.URL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the Codex server “%s” must be an address alone; a token belongs into a file that token_file names", u.Redacted())
	case agentconn.CheckHost(u.Hostname()) != nil:
		return nil, fmt.Errorf("the Codex server “%s” cannot be one: %s", s.URL, agentconn.Sentence(agentconn.CheckHost(u.Hostname())))
	case u.Scheme == "wss" && u.Host != "", u.Scheme == "ws" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()):
		return &remote{place: at, url: u, tokenFile: s.TokenFile}, nil
	case u.Scheme == "ws":
		return nil, fmt.Errorf("the Codex server “%s” is on another machine: without TLS anybody on the way could read along and approve; use wss://, or reach it through an SSH tunnel", s.URL)
	}
	return nil, fmt.Errorf("the Codex server “%s” is none of unix://PATH, ws://127.0.0.1:PORT, wss://HOST", s.URL)
}

// Find never fails: whether it is there shows when it is.
func (r *remote) Find() (string, error) { return howItAsks, nil }

// Running reports whether somebody listens there, or did some seconds ago.
func (r *remote) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) < remoteEvery {
		return r.running
	}
	port := cmp.Or(r.url.Port(), map[string]string{"ws": "80", "wss": "443"}[r.url.Scheme])
	r.looked, r.running = time.Now(), agentconn.Listening("tcp", net.JoinHostPort(r.url.Hostname(), port))
	return r.running
}

// Starts reports false: it is somebody else's.
func (r *remote) Starts() bool { return false }

// NewConn returns a link that is not started yet.
func (r *remote) NewConn(sink agentconn.Sink) agentconn.Conn {
	return newConn(r.place, sink, func(ctx context.Context, _ *conn) (dialled, error) {
		token, err := r.token()
		if err != nil {
			return dialled{}, err
		}
		d, err := dialWeb(ctx, r.url.String(), token)
		if d.terminal = joins(r.url.String()); token != "" {
			d.terminal = `CODEX_TOKEN="$(cat ` + quoted(r.tokenFile) + `)" ` + joins(r.url.String(), "--remote-auth-token-env", "CODEX_TOKEN")
		}
		return d, err
	})
}

// token reads the bearer token, anew for each connection.
func (r *remote) token() (string, error) {
	if r.tokenFile == "" {
		return "", nil
	}
	return agentconn.ReadToken(r.name, r.tokenFile)
}

// ---- nod's own server ----

// own is the server that nod starts when somebody needs it and no daemon runs. It
// is no child: it goes on when nod is restarted, with all that runs on it.
type own struct{ place }

// howItAsks is what to know before a session is started.
const howItAsks = "Codex asks before it runs a command or changes a file. For a folder inside a repository it may mark that folder as trusted in its own config.toml."

// Find looks for the program on PATH.
func (o own) Find() (string, error) {
	_, err := o.cfg.program()
	return howItAsks, err
}

// Running reports whether it listens: a nod before this one has started it.
func (o own) Running() bool { return agentconn.Listening("unix", o.cfg.socket()) }

// Starts reports true.
func (o own) Starts() bool { return true }

// NewConn returns a link that is not started yet.
func (o own) NewConn(sink agentconn.Sink) agentconn.Conn { return newConn(o.place, sink, o.open) }

// open reaches the server, started if need be. Codex before 0.123 listens on no
// socket: then it is a child that ends with nod.
func (o own) open(ctx context.Context, c *conn) (dialled, error) {
	if o.Running() {
		return o.join(ctx)
	}
	path, err := o.cfg.program()
	if err != nil {
		return dialled{}, err
	}
	if !o.cfg.server().Fits() {
		return c.child(ctx, path, "the path of its data folder is too long for a socket in it")
	}
	if !o.cfg.canListen(ctx, path) {
		return c.child(ctx, path, "this version listens on no socket")
	}
	if err := o.cfg.startServer(ctx, path); err != nil {
		return dialled{}, err
	}
	return o.join(ctx)
}

func (o own) join(ctx context.Context) (dialled, error) {
	d, err := dialUnix(ctx, o.cfg.socket())
	d.terminal = joins("unix://" + o.cfg.socket())
	return d, err
}

// joins is the command by which a terminal joins a session on a server of that
// address; the session's id comes last.
func joins(address string, flags ...string) string {
	words := append([]string{"codex", "resume", "--remote", address}, flags...)
	for i, w := range words {
		words[i] = quoted(w)
	}
	return strings.Join(words, " ")
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
