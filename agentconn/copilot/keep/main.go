package keep

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"nod/agentconn"
)

const (
	// unused is how long a keeper stays when nobody needs it. A nod that is updated
	// or restarted is back within seconds; what is kept after that only costs memory.
	unused = time.Minute
	// dialTimeout bounds the way to a server, which may be on another machine.
	dialTimeout = 10 * time.Second
	// maxLine is how much of a line that the program prints is read.
	maxLine = 2 << 10
)

// The two sorts of keepers, as the word in the command that starts them.
const (
	ofProgram = "program"
	ofAddress = "address"
)

// tokenVariable is where Copilot's server reads its token.
const tokenVariable = "COPILOT_CONNECTION_TOKEN"

// listens is what a Copilot that serves says, whatever program it is.
var listens = regexp.MustCompile(`listening on port ([0-9]+)`)

// Main is what nod keep does: it keeps a server until nobody needs it, ctx ends, or
// the server's program does. The arguments are those that Keeper.Start gives.
func Main(ctx context.Context, args []string, log *slog.Logger) error {
	if len(args) < 3 || args[1] != ofProgram && args[1] != ofAddress {
		return errors.New("nod keep is started by nod itself; there is nothing to be done with it by hand")
	}
	signal.Ignore(syscall.SIGHUP) // the end of a terminal is nothing to a keeper
	syscall.Umask(0o077)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := Keeper{Folder: args[0], Log: log}
	address := args[2]
	if args[1] == ofProgram {
		port := make(chan string, 1)
		ended, err := k.runProgram(ctx, args[2], args[3:], port)
		if err != nil {
			return err
		}
		defer func() { cancel(); <-ended }()
		go func() { <-ended; cancel() }()
		select {
		case p := <-port:
			address = net.JoinHostPort("127.0.0.1", p)
		case <-ended: // it has said why, and that is to be the last line
			return nil
		}
	}
	l, err := net.Listen("unix", k.keeper().Socket())
	if err != nil {
		return err
	}
	(&keeper{address: address, log: k.Log, unused: unused}).serve(ctx, l)
	return nil
}

// runProgram starts the server. Its port is told once; the channel that is returned
// is closed when it has ended.
func (k Keeper) runProgram(ctx context.Context, path string, args []string, port chan<- string) (<-chan struct{}, error) {
	token := rand.Text()
	if err := os.WriteFile(k.tokenFile(), []byte(token), 0o600); err != nil {
		return nil, err
	}
	if err := os.Setenv(tokenVariable, token); err != nil {
		return nil, err
	}
	var all []string // of the environment: nod has chosen it
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		all = append(all, name)
	}
	p, err := agentconn.StartProcess(ctx, k.Log, path, args, all)
	if err != nil {
		return nil, err
	}
	if err := k.program().Remember(p.PID(), path); err != nil {
		k.Log.Error("its program cannot be remembered", "err", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in, last := bufio.NewReader(p.Stdout), ""
		for told := false; ; {
			line, _, err := agentconn.ReadLine(in, maxLine, 0)
			if m := listens.FindSubmatch(line); m != nil && !told {
				told = true
				port <- string(m[1])
			}
			last = cmp.Or(strings.TrimSpace(string(line)), last)
			if err != nil {
				break
			}
		}
		how, words := p.Wait()
		_, _ = fmt.Fprintln(os.Stderr, cmp.Or(words, last, fmt.Sprint("it ended: ", how)))
	}()
	return ended, nil
}

// keeper passes on what nod and a server say to each other.
type keeper struct {
	address string
	log     *slog.Logger
	unused  time.Duration

	mu   sync.Mutex
	open int // connections
	idle *time.Timer
}

// serve takes connections until ctx ends or none was there for a while.
func (k *keeper) serve(ctx context.Context, l net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.idle = time.AfterFunc(k.unused, cancel)
	defer k.idle.Stop()
	context.AfterFunc(ctx, func() { _ = l.Close() })
	var passing sync.WaitGroup
	defer passing.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		passing.Go(func() { k.take(ctx, c.(*net.UnixConn), l.Addr().String()) })
	}
}

// take links a connection of nod's to the server.
func (k *keeper) take(ctx context.Context, nod *net.UnixConn, socket string) {
	defer func() { _ = nod.Close() }()
	defer context.AfterFunc(ctx, func() { _ = nod.Close() })()
	if _, err := agentconn.Peer(nod, socket); err != nil {
		k.log.Warn("a connection is refused", "err", err)
		return
	}
	in := bufio.NewReaderSize(nod, 64<<10)
	if _, err := in.Peek(1); err != nil {
		return // somebody has looked whether a keeper listens
	}
	k.count(1)
	defer k.count(-1)
	host, _, _ := net.SplitHostPort(k.address) // if it has none, dialling fails
	dialer := agentconn.Dialer(host)
	dialer.Timeout = dialTimeout
	server, err := dialer.DialContext(ctx, "tcp", k.address)
	if err != nil {
		k.log.Warn("the server cannot be reached", "address", k.address, "err", err)
		return
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	k.pass(nod, in, server)
}

func (k *keeper) count(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open += n; k.open == 0 {
		k.idle.Reset(k.unused)
	} else {
		k.idle.Stop()
	}
}
