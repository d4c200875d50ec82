package copilot

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"nod/agentconn"
	"nod/agentconn/copilot/keep"
)

// Adapters returns one adapter for each place, those first that are better for new
// sessions.
func Adapters(cfg Config) ([]agentconn.Adapter, error) {
	cfg.held = &held{}
	out := []agentconn.Adapter{own{cfg}}
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
	if _, err := cfg.program(); err == nil { // else nobody types it into a terminal
		out = append(out, terminals{cfg})
	}
	return out, nil
}

// howItAsks is what to know before a session is started.
const howItAsks = "Copilot asks before it runs a command, changes a file or reads one. A folder's own hooks and MCP servers are off unless you have told Copilot, in a terminal, to trust the folder for good."

// folder holds what belongs to the keepers: a folder for each.
func (cfg Config) folder(name string) string { return filepath.Join(cfg.Data, "copilot", name) }

// through opens a link through a keeper, which is started if need be.
func through(ctx context.Context, k keep.Keeper) (d dialled, err error) {
	if !k.Running() {
		if err := k.Start(ctx); err != nil {
			return d, err
		}
	}
	if d.token, err = k.Token(); err != nil {
		return d, err
	}
	d.wire, err = k.Dial(ctx)
	d.epoch, d.lasting = k.Epoch(), true
	return d, err
}

// ---- nod's own server ----

// own is the server that nod starts when somebody needs it. Its keeper goes on when
// nod is restarted, with all that runs there.
type own struct{ cfg Config }

// Key implements agentconn.Adapter.
func (own) Key() string { return Provider }

// Provider implements agentconn.Adapter.
func (own) Provider() string { return Provider }

// DisplayName implements agentconn.Adapter.
func (own) DisplayName() string { return displayName }

// Find looks for the program on PATH.
func (o own) Find() (string, error) {
	_, err := o.cfg.program()
	return howItAsks, err
}

// Running reports whether its keeper listens: a nod before this one has started it.
func (o own) Running() bool { return o.cfg.ownKeeper("").Running() }

// Starts reports true.
func (own) Starts() bool { return true }

// NewConn returns a link that is not started yet.
func (o own) NewConn(sink agentconn.Sink) agentconn.Conn {
	return newConn(o, o.cfg, sink, func(ctx context.Context) (dialled, error) {
		program, err := o.cfg.program()
		if err != nil {
			return dialled{}, err
		}
		return through(ctx, o.cfg.ownKeeper(program))
	})
}

// ownKeeper is the keeper of nod's own server.
func (cfg Config) ownKeeper(program string) keep.Keeper {
	return keep.Keeper{
		Folder: cfg.folder("own"), Log: cfg.Log, Env: cfg.environ(),
		Server: keep.Server{Program: program, Args: []string{"--headless", "--no-auto-update", "--port", "0"}},
	}
}

// environ is what the program may see: what every child may, Copilot's own variables,
// and those of GitHub's that it logs in with.
func (cfg Config) environ() []string {
	names := append([]string{"GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"}, cfg.Env...)
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "COPILOT_") {
			names = append(names, name)
		}
	}
	return agentconn.ChildEnv(names)
}

// program returns the absolute path of what serves: the CLI brings along a program
// for that, which starts at once and needs half the memory, and unpacks it when it is
// first used.
func (cfg Config) program() (string, error) {
	command := cmp.Or(cfg.Command, "copilot")
	p, err := exec.LookPath(command)
	if err == nil {
		p, err = filepath.Abs(p)
	}
	if err != nil {
		return "", &agentconn.PublicError{Message: "Copilot is not installed: there is no program “" + command + "” on PATH. Install it (npm install -g @github/copilot) and start nod again.", Err: err}
	}
	return cmp.Or(unpacked(), p), nil
}

// unpacked is the newest runtime that the CLI has unpacked, "" if there is none.
func unpacked() string {
	cache := os.Getenv("COPILOT_CACHE_HOME")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		cache = filepath.Join(dir, "copilot")
	}
	found, _ := filepath.Glob(filepath.Join(cache, "pkg", "*", "*", "prebuilds", "*", "copilot-runtime")) // it is a good pattern
	newest, version := "", []int(nil)
	for _, path := range found {
		if v := numbers(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(path))))); newest == "" || slices.Compare(v, version) > 0 {
			newest, version = path, v
		}
	}
	return newest
}

// numbers are those of a version.
func numbers(version string) (out []int) {
	for word := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(word) // 0 for what is none
		out = append(out, n)
	}
	return out
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
		r.looked, r.running = time.Now(), agentconn.Listening("tcp", r.Address)
	}
	return r.running
}

// Starts reports false: it is somebody else's.
func (r *remote) Starts() bool { return false }

// NewConn returns a link that is not started yet.
func (r *remote) NewConn(sink agentconn.Sink) agentconn.Conn {
	c := newConn(r, r.cfg, sink, r.open)
	c.terminal = r.terminal()
	return c
}

// open reaches the server. A terminal holds its sessions itself; for another server's
// nod has a keeper.
func (r *remote) open(ctx context.Context) (dialled, error) {
	if !r.terminal() {
		if _, err := agentconn.ReadToken(r.DisplayName(), r.TokenFile); err != nil {
			return dialled{}, err
		}
		return through(ctx, keep.Keeper{
			Folder: r.cfg.folder(strings.NewReplacer(":", "-", "[", "", "]", "").Replace(r.Address)), Log: r.cfg.Log, Env: agentconn.ChildEnv(nil),
			Server: keep.Server{Address: r.Address, TokenFile: r.TokenFile},
		})
	}
	host, _, _ := net.SplitHostPort(r.Address) // it was looked at before
	wire, err := agentconn.Dialer(host).DialContext(ctx, "tcp", r.Address)
	if err != nil {
		return dialled{}, &agentconn.PublicError{Message: "Nobody answers at " + r.Address + ".", Err: err}
	}
	// Its requests have ids that come only once, so a card lives as long as what it is
	// about.
	return dialled{wire: wire, epoch: r.Key(), lasting: true, notice: noToken}, nil
}
