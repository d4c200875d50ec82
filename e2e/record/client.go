package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

type object = map[string]any

// patience is how long anything may take.
const patience = 30 * time.Second

// message is any message of either side.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
}

// wire carries messages to an agent and back.
type wire interface {
	read() ([]byte, error) // blocks; fails when the connection has ended
	write([]byte) error
	close() error
}

// link is one connection to an agent. Its methods do nothing after the first
// failure, which err tells.
type link struct {
	err  error
	wire wire
	tape *tape
	// line is how a message is written down; in tells that it comes from the agent.
	line  func(in bool, message []byte) ([]byte, error)
	frame func(object) // adds to each message what the protocol wants beside its words
	calls int
	seen  int // of heard, by until

	mu    sync.Mutex
	heard []message
	ended bool
	news  chan struct{} // is closed and replaced with each message
}

// tape is a recording, of one link or of more.
type tape struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (t *tape) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines.Write(append(line, '\n'))
}

func (t *tape) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.lines.Bytes())
}

// client is one connection to Codex.
type client struct {
	*link
	server *server
	thread string // that was started last
	turn   string // that was started last
}

func newClient(s *server, w wire) *client {
	began := time.Now()
	line := func(in bool, message []byte) ([]byte, error) {
		dir := "out"
		if in {
			dir = "in"
		}
		scrubbed, err := s.scrub(message)
		return fmt.Appendf(nil, `{"dir":%q,"t":%d,"msg":%s}`, dir, time.Since(began).Milliseconds(), scrubbed), err
	}
	return &client{link: newLink(w, &tape{}, line, func(object) {}), server: s}
}

func newLink(w wire, t *tape, line func(bool, []byte) ([]byte, error), frame func(object)) *link {
	c := &link{wire: w, tape: t, line: line, frame: frame, news: make(chan struct{})}
	go func() {
		for {
			line, err := w.read()
			c.hear(line, err)
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *link) hear(line []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line = bytes.TrimSpace(line); len(line) > 0 {
		c.record(true, line)
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			fmt.Fprintf(os.Stderr, "record: no message: %s\n", line)
		}
		c.heard = append(c.heard, m)
	}
	c.ended = c.ended || err != nil
	close(c.news)
	c.news = make(chan struct{})
}

func (c *link) record(in bool, message []byte) {
	line, err := c.line(in, message)
	if err != nil {
		fmt.Fprintf(os.Stderr, "record: a line is left out: %v\n", err)
		return
	}
	c.tape.add(line)
}

func (c *link) send(m object) {
	if c.err != nil {
		return
	}
	c.frame(m)
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // a scenario holds something that is no JSON
	}
	c.record(false, b)
	c.err = c.wire.write(b)
}

// wait returns the first message from number from on that is wanted, and its
// number.
func (c *link) wait(about string, from int, wanted func(message) bool) (message, int) {
	late := time.After(patience)
	for c.err == nil {
		c.mu.Lock()
		i := slices.IndexFunc(c.heard[from:], wanted)
		news, ended := c.news, c.ended
		if i >= 0 {
			m := c.heard[from+i]
			c.mu.Unlock()
			return m, from + i
		}
		c.mu.Unlock()
		if ended {
			c.err = fmt.Errorf("the agent ended before %s", about)
			break
		}
		select {
		case <-news:
		case <-late:
			c.err = fmt.Errorf("no %s in %v", about, patience)
		}
	}
	return message{}, from
}

// until waits for a notification or a request, after the one that it found last.
func (c *link) until(method string) message {
	m, i := c.wait(method, c.seen, func(m message) bool { return m.Method == method })
	c.seen = i + 1
	return m
}

// untilItem waits for an item of a kind to have begun or ended.
func (c *client) untilItem(method, kind string) {
	_, i := c.wait(method+" of a "+kind, c.seen, func(m message) bool {
		var p struct {
			Item struct{ Type string }
		}
		return m.Method == method && json.Unmarshal(m.Params, &p) == nil && p.Item.Type == kind
	})
	c.seen = i + 1
}

// call returns the result. A refusal is recorded like anything, and no failure.
func (c *link) call(method string, params object) json.RawMessage {
	c.calls++
	request := object{"id": c.calls, "method": method, "params": params}
	c.send(request)
	id := fmt.Sprintf("%#v", request["id"])
	m, _ := c.wait("answer to "+method, 0, func(m message) bool { return m.Method == "" && string(m.ID) == id })
	return m.Result
}

func (c *client) hello() {
	c.call("initialize", object{"clientInfo": object{"name": "nod", "title": "nod", "version": "1"}, "capabilities": object{"experimentalApi": true}})
	c.send(object{"method": "initialized"})
}

// start starts a thread that asks before it does anything, unless more says else.
func (c *client) start(more object) {
	c.hello()
	params := object{"cwd": c.server.folder, "approvalPolicy": "untrusted", "sandbox": "workspace-write"}
	maps.Copy(params, more)
	var r struct {
		Thread struct{ ID string }
	}
	c.read("thread/start", c.call("thread/start", params), &r)
	c.thread = r.Thread.ID
}

func (c *client) prompt(text string, more object) {
	params := object{"threadId": c.thread, "input": []object{{"type": "text", "text": text}}}
	maps.Copy(params, more)
	var r struct {
		Turn struct{ ID string }
	}
	c.read("turn/start", c.call("turn/start", params), &r)
	c.turn = r.Turn.ID
}

// read takes what is needed out of a result.
func (c *link) read(method string, result json.RawMessage, into any) {
	if c.err != nil {
		return
	}
	if err := json.Unmarshal(result, into); err != nil {
		c.err = fmt.Errorf("the answer to %s is %q: %w", method, result, err)
	}
}

// answer answers a request of the agent.
func (c *link) answer(request message, result object) {
	c.send(object{"id": request.ID, "result": result})
}

// interrupt stops the turn.
func (c *client) interrupt() {
	c.call("turn/interrupt", object{"threadId": c.thread, "turnId": c.turn})
}

// server is a running Codex.
type server struct {
	codex, home, folder, socket string
	scrubber
	ctx context.Context
	cmd *exec.Cmd
}

// pipes is a Codex that is a child.
type pipes struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func (p pipes) read() ([]byte, error) { return p.out.ReadBytes('\n') }
func (p pipes) write(b []byte) error {
	_, err := p.in.Write(append(b, '\n'))
	return err
}
func (p pipes) close() error { return p.in.Close() }

// command makes a process whose environment names nothing of this machine.
func (s *server) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, s.codex, args...)
	cmd.Dir = s.folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(s.home), "CODEX_HOME=" + s.home, "LANG=C.UTF-8", "TERM=xterm", "USER=me"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with what it has started
	return cmd
}

// startPipes starts a Codex on stdin and stdout.
func (s *server) startPipes() (wire, error) {
	s.cmd = s.command("app-server")
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return pipes{in, bufio.NewReader(out)}, s.cmd.Start()
}

// startSocket starts a Codex that listens on a socket.
func (s *server) startSocket() error {
	s.cmd = s.command("app-server", "--listen", "unix://"+s.socket)
	return s.cmd.Start()
}

// dial connects to the socket as soon as there is one.
func (s *server) dial() (wire, error) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	through := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
	}}}
	for {
		conn, _, err := websocket.Dial(ctx, "ws://codex/", &websocket.DialOptions{HTTPClient: through})
		if err == nil {
			conn.SetReadLimit(-1)
			return frames{s.ctx, conn}, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// frames is a connection to a Codex that others use too.
type frames struct {
	ctx  context.Context
	conn *websocket.Conn
}

func (f frames) read() ([]byte, error) {
	_, b, err := f.conn.Read(f.ctx)
	return b, err
}
func (f frames) write(b []byte) error { return f.conn.Write(f.ctx, websocket.MessageText, b) }
func (f frames) close() error         { return f.conn.CloseNow() }
