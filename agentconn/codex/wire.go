package codex

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"nod/agentconn"
)

const (
	// dialTimeout bounds the WebSocket handshake.
	dialTimeout = 5 * time.Second
	// writeTimeout bounds a write to a server that does not read.
	writeTimeout = 10 * time.Second
	// outlined is how deep the words lie that say who asks what.
	outlined = 2
)

// wire carries messages to and from a server.
type wire interface {
	// read returns the next message. Of one that is longer than MaxMessage it is the
	// begin, and long is its outline; else that is nil.
	read(ctx context.Context) (msg []byte, long *agentconn.Outline, err error)
	write(ctx context.Context, msg []byte) error
	// end waits until everything of the wire is gone, after read has failed and ctx
	// has ended. It returns how the server ended and its last words, where that is
	// known.
	end() (ended error, lastWords string)
}

// dialled is a wire and what is known of who is at its other end.
type dialled struct {
	wire
	epoch   string // of the server's run; random if it cannot be told
	lasting bool   // it goes on without nod
	ends    string // why it does not

	terminal string // see state.Offers
}

// ---- a child on its standard input and output ----

type stdio struct {
	p  *agentconn.Process
	in *bufio.Reader
}

// child starts a server that lives with the link.
func (c *conn) child(ctx context.Context, path, why string) (dialled, error) {
	p, err := agentconn.StartProcess(ctx, c.log, path, []string{"app-server"}, append([]string{"CODEX_HOME"}, c.place.cfg.Env...))
	if err != nil {
		return dialled{}, cannotStart(err)
	}
	c.log.Info("started", "program", path, "pid", p.PID())
	return dialled{wire: &stdio{p, bufio.NewReaderSize(p.Stdout, 64<<10)}, epoch: rand.Text(), ends: why}, nil
}

func (s *stdio) read(context.Context) ([]byte, *agentconn.Outline, error) {
	return agentconn.ReadLine(s.in, agentconn.MaxMessage, outlined)
}

func (s *stdio) write(_ context.Context, msg []byte) error {
	_, err := s.p.Stdin.Write(append(msg, '\n'))
	return err
}

func (s *stdio) end() (error, string) { return s.p.Wait() }

// ---- a WebSocket, over TCP or a unix socket ----

type web struct{ *websocket.Conn }

// dialUnix links to a server of the same user. A socket may be where others can put
// one of theirs: the daemon's is a link into /tmp.
func dialUnix(ctx context.Context, path string) (dialled, error) {
	epoch := rand.Text()
	var refused error
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		run, err := agentconn.Peer(c.(*net.UnixConn), path)
		if err != nil {
			refused = err
			return nil, errors.Join(err, c.Close())
		}
		if run != "" {
			epoch = agentconn.EpochOf(run)
		}
		return c, nil
	}
	d, err := dialWith(ctx, &http.Transport{DialContext: dial}, "ws://localhost/", "")
	if refused != nil {
		err = refused
	}
	d.epoch = epoch
	return d, err
}

// dialWeb links to a server that is configured. Which run of it answers cannot be
// told, so its requests are asked anew over each connection.
func dialWeb(ctx context.Context, address, token string) (dialled, error) {
	u, err := url.Parse(address)
	if err != nil {
		return dialled{}, err
	}
	d, err := dialWith(ctx, &http.Transport{DialContext: agentconn.Dialer(u.Hostname()).DialContext}, address, token)
	d.epoch = rand.Text()
	return d, err
}

func dialWith(ctx context.Context, t *http.Transport, address, token string) (dialled, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	t.DisableKeepAlives = true
	header := http.Header{} // without an Origin: Codex refuses browsers by it
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	c, res, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: t, CheckRedirect: stay}, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	})
	var refused *agentconn.PublicError
	switch {
	case errors.As(err, &refused):
		return dialled{}, refused
	case err != nil && res != nil && res.StatusCode == http.StatusUnauthorized:
		return dialled{}, &agentconn.PublicError{Message: "The Codex server refuses nod's token. Is the right one in the file that token_file names?", Err: err}
	case err != nil:
		return dialled{}, &agentconn.PublicError{Message: "The Codex server cannot be reached, or does not answer as one. nod tries again by itself.", Err: err}
	}
	c.SetReadLimit(-1) // read bounds what is kept
	return dialled{wire: web{c}, lasting: true}, nil
}

// stay follows no redirect: the owner has said where nod may link to.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (w web) read(ctx context.Context) ([]byte, *agentconn.Outline, error) {
	_, r, err := w.Reader(ctx)
	if err != nil {
		return nil, nil, err
	}
	return agentconn.ReadMessage(r, agentconn.MaxMessage, outlined)
}

func (w web) write(ctx context.Context, msg []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return w.Write(ctx, websocket.MessageText, msg)
}

func (w web) end() (error, string) {
	_ = w.CloseNow()
	return nil, ""
}

// cannotStart is the error of a program that cannot be run at all.
func cannotStart(err error) error {
	return &agentconn.PublicError{Message: "Codex could not be started. Run “codex --version” in a terminal to see why.", Err: err}
}
