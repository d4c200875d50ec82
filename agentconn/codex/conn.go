package codex

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"nod/agentconn"
	"nod/state"
)

const (
	// maxLine bounds one message. Lines of 1 MB are ordinary: aggregatedOutput
	// is cut by Codex at 1 MiB.
	maxLine = 16 << 20
	// callTimeout bounds every call: Codex passes over malformed messages in silence.
	callTimeout = 30 * time.Second
	// greetTimeout bounds the wait for the answer to initialize: up to 3 s on a
	// cold disk. It ends before the manager loses patience, and knows more.
	greetTimeout = 15 * time.Second
	// bannerLines is how many lines that are no messages a program may print
	// before its answer to initialize and still be taken for Codex.
	bannerLines = 5
)

// message is any JSON-RPC message of the app-server: there is no "jsonrpc" member.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("codex: %s (%d)", e.Message, e.Code) }

// conn is one `codex app-server` and the threads on it. The goroutine that reads
// owns the threads; calls only write and wait, and what their answers change is
// done by the reader, in the order of the wire.
type conn struct {
	adapter Adapter
	epoch   string
	sink    agentconn.Sink
	log     *slog.Logger

	threads map[string]*thread // by thread id; the reader's
	board   board              // the reader's

	writing sync.Mutex // one message at a time
	out     io.Writer
	stop    context.CancelFunc // ends the child

	mu       sync.Mutex
	nextID   int
	calls    map[int]*call   // nil once the link is lost
	attached map[string]bool // thread ids that this process has loaded
}

type call struct {
	// onResult runs on the reading goroutine, before any later message.
	onResult func(json.RawMessage) error
	done     chan error
}

var errLost = &agentconn.PublicError{Message: "The link to Codex was lost before it answered."}

// Run starts the child, greets it, and reads until it ends.
func (c *conn) Run(ctx context.Context, ready func(detail string)) error {
	path, err := c.adapter.path()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.stop = stop
	p, err := agentconn.StartProcess(ctx, c.log, path, []string{"app-server"}, append([]string{"CODEX_HOME"}, c.adapter.Env...))
	if err != nil {
		return &agentconn.PublicError{Message: "Codex could not be started. Run “" + c.adapter.Command + " --version” in a terminal to see why.", Err: err}
	}
	c.log.Info("started", "program", path, "pid", p.PID())
	c.out, c.calls = p.Stdin, map[int]*call{}

	var greeted error
	var greeting sync.WaitGroup
	greeting.Go(func() {
		if greeted = c.greet(ctx, ready); greeted != nil {
			stop()
		}
	})
	rubbish := c.read(ctx, p.Stdout, stop)
	c.lose()
	greeting.Wait()
	ended, lastWords := p.Wait()
	return whyLost(greeted, ended, rubbish, lastWords)
}

// whyLost makes a sentence of how a link ended.
func whyLost(greeted, ended error, rubbish, lastWords string) error {
	quote := ""
	if lastWords != "" {
		quote = " Its last words: “" + shorten(lastWords, 200) + "”."
	}
	cause := errors.Join(greeted, ended)
	switch {
	case rubbish != "":
		return &agentconn.PublicError{Message: "The program called codex printed something that is not Codex's protocol (“" + shorten(rubbish, 80) +
			"”). Is another program of that name first on PATH, or is this Codex too old? nod needs 0.122 or newer.", Err: cause}
	case greeted != nil && !errors.Is(greeted, context.Canceled):
		return &agentconn.PublicError{Message: "Codex did not come up as nod expects it." + quote + " Run “codex app-server” in a terminal to see what it says; nod needs Codex 0.122 or newer.", Err: cause}
	case ended != nil:
		return &agentconn.PublicError{Message: "Its program ended (" + ended.Error() + ")." + quote, Err: cause}
	}
	return &agentconn.PublicError{Message: "Its program ended." + quote, Err: cause}
}

// printable puts a mark in place of each character that has no picture.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// shorten cuts s to at most n characters and marks the cut.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// greet introduces nod and learns what it talks to.
func (c *conn) greet(ctx context.Context, ready func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	var who struct {
		UserAgent string `json:"userAgent"`
	}
	err := c.call(ctx, "initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "nod", "title": "nod", "version": "0.1.0"},
		"capabilities": map[string]any{"experimentalApi": true},
	}, func(r json.RawMessage) error { return json.Unmarshal(r, &who) })
	if err != nil {
		return err
	}
	// "name/0.171.0 (Debian ...": the version of the server behind our name.
	_, version, ok := strings.Cut(who.UserAgent, "/")
	if !ok {
		return errors.New("codex: the answer to initialize names no version")
	}
	version, _, _ = strings.Cut(version, " ")
	if err := c.write(message{Method: "initialized"}); err != nil {
		return err
	}
	ready("Codex " + shorten(version, 40))
	return nil
}

// read handles messages until the end of output. rubbish is the first line of a
// program that talks but does not speak the protocol; it is stopped for that.
func (c *conn) read(ctx context.Context, out io.Reader, stop func()) (rubbish string) {
	in := bufio.NewReaderSize(out, 64<<10)
	spoke, odd := false, 0
	for {
		line, cut, err := agentconn.ReadLine(in, maxLine)
		if len(line) > 0 {
			var m message
			if cut || json.Unmarshal(line, &m) != nil || (m.Method == "" && m.ID == nil) {
				c.log.Warn("a line that is no message", "bytes", len(line), "cut", cut, "start", shorten(string(line[:min(len(line), 200)]), 200))
				if odd++; !spoke && (cut || odd > bannerLines) && rubbish == "" {
					rubbish = printable(string(line[:min(len(line), 400)]))
					stop()
				}
			} else {
				spoke = true
				c.receive(ctx, m, line)
			}
		}
		if err != nil {
			return rubbish
		}
	}
}

func (c *conn) receive(ctx context.Context, m message, line []byte) {
	switch {
	case m.Method != "" && m.ID != nil:
		c.serverRequest(ctx, m)
	case m.Method != "":
		c.notification(ctx, m, line)
	default:
		c.answered(m)
	}
}

// call sends a request and waits for its answer. onResult, if not nil, runs on
// the reading goroutine before any later message is looked at.
func (c *conn) call(ctx context.Context, method string, params any, onResult func(json.RawMessage) error) error {
	p, err := json.Marshal(params)
	if err != nil {
		return err
	}
	k := &call{onResult: onResult, done: make(chan error, 1)}
	c.mu.Lock()
	if c.calls == nil {
		c.mu.Unlock()
		return errLost
	}
	c.nextID++
	id := c.nextID
	c.calls[id] = k
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	if err := c.write(message{ID: fmt.Append(nil, id), Method: method, Params: p}); err != nil {
		return err
	}
	timeout := time.NewTimer(callTimeout)
	defer timeout.Stop()
	select {
	case err := <-k.done:
		return err
	case <-timeout.C:
		return fmt.Errorf("codex: %s was not answered in %v", method, callTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *conn) answered(m message) {
	var id int
	if json.Unmarshal(m.ID, &id) != nil {
		return // not a number: none of ours
	}
	c.mu.Lock()
	k := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	switch {
	case k == nil: // given up meanwhile
	case m.Error != nil:
		k.done <- m.Error
	case k.onResult != nil:
		k.done <- k.onResult(m.Result)
	default:
		k.done <- nil
	}
}

// lose ends every call that waits, and makes later ones fail.
func (c *conn) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.calls {
		select {
		case k.done <- errLost:
		default: // it has its answer
		}
	}
	c.calls = nil
}

func (c *conn) write(m message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err = c.out.Write(append(b, '\n')); err != nil {
		c.stop() // half a message may be in the pipe: nothing can follow it
	}
	return err
}

// metaThreadID is the key under which a session's _meta names its thread.
const metaThreadID = "codex.threadId"

func threadID(s *state.Session) (string, error) {
	var id string
	if err := json.Unmarshal(s.Meta[metaThreadID], &id); err != nil || id == "" {
		return "", &agentconn.PublicError{Message: "nod does not know which Codex thread this session is, so it cannot go on. Start a new session.", Err: err}
	}
	return id, nil
}

// CreateSession starts a thread that asks before everything that Codex does not
// know to be safe.
func (c *conn) CreateSession(ctx context.Context, uri, folder string) ([]state.Action, error) {
	var actions []state.Action
	err := c.call(ctx, "thread/start", map[string]any{"cwd": folder, "approvalPolicy": "untrusted", "sandbox": "workspace-write"},
		func(r json.RawMessage) error {
			th, model, err := c.attach(uri, r)
			if err != nil {
				return err
			}
			actions = []state.Action{&state.SessionReady{}, &state.SessionMetaChanged{Meta: th.meta()}}
			if model != "" {
				actions = append(actions, &state.SessionModelChanged{Model: state.ModelSelection{ID: model}})
			}
			return nil
		})
	return actions, publicly(err, "Codex could not start a session in that folder")
}

// attach remembers a thread that thread/start or thread/resume has answered with.
func (c *conn) attach(uri string, result json.RawMessage) (*thread, string, error) {
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
		Model string `json:"model"`
	}
	if err := json.Unmarshal(result, &r); err != nil || r.Thread.ID == "" {
		return nil, "", fmt.Errorf("codex: an answer without a thread: %w", err)
	}
	th := &thread{id: r.Thread.ID, uri: uri, items: map[string]*item{}}
	c.threads[th.id] = th
	c.mu.Lock()
	c.attached[th.id] = true
	c.mu.Unlock()
	return th, r.Model, nil
}

// Dispatch sends a message or stops a turn.
func (c *conn) Dispatch(ctx context.Context, s *state.Session, a state.Action) error {
	id, err := threadID(s)
	if err != nil {
		return err
	}
	switch a := a.(type) {
	case *state.SessionTurnStarted:
		if err := c.resume(ctx, s, id); err != nil {
			return err
		}
		params := map[string]any{"threadId": id, "input": []any{map[string]any{"type": "text", "text": a.Message.Text, "text_elements": []any{}}}}
		err := c.call(ctx, "turn/start", params, func(r json.RawMessage) error {
			var res struct {
				Turn struct {
					ID string `json:"id"`
				} `json:"turn"`
			}
			if err := json.Unmarshal(r, &res); err != nil || res.Turn.ID == "" {
				return fmt.Errorf("codex: turn/start was answered without a turn: %w", err)
			}
			c.threads[id].begin(ctx, c, res.Turn.ID, a.Message)
			return nil
		})
		return publicly(err, "Codex did not take the message")
	case *state.SessionTurnCancelled:
		return publicly(c.call(ctx, "turn/interrupt", map[string]any{"threadId": id, "turnId": a.TurnID}, nil), "Codex did not stop")
	}
	return fmt.Errorf("codex: cannot dispatch %s", a.Type())
}

// resume loads the session's thread if this process does not have it yet.
func (c *conn) resume(ctx context.Context, s *state.Session, id string) error {
	c.mu.Lock()
	known := c.attached[id]
	c.mu.Unlock()
	if known {
		return nil
	}
	err := c.call(ctx, "thread/resume", map[string]any{"threadId": id, "excludeTurns": true}, func(r json.RawMessage) error {
		_, _, err := c.attach(s.Summary.Resource, r)
		return err
	})
	return publicly(err, "Codex could not resume this session")
}

// publicly puts what Codex said behind a sentence of ours.
func publicly(err error, sentence string) error {
	var p *agentconn.PublicError
	var r *rpcError
	switch {
	case err == nil || errors.As(err, &p):
		return err
	case errors.As(err, &r):
		return &agentconn.PublicError{Message: sentence + ". It says: “" + shorten(r.Message, 300) + "”.", Err: err}
	}
	return &agentconn.PublicError{Message: sentence + ". The log says why; try again.", Err: err}
}
