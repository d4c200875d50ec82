package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sync/singleflight"

	"nod/agentconn"
	"nod/agentconn/plain"
)

const (
	// callTimeout bounds every call: Codex passes over malformed messages in silence.
	callTimeout = 30 * time.Second
	// greetTimeout bounds the wait for the answer to initialize: up to 3 s on a
	// cold disk.
	greetTimeout = 10 * time.Second
	// bannerLines is how many lines that are no messages a program may print
	// before its answer to initialize and still be taken for Codex.
	bannerLines = 5
	// maxCalls is how many calls may wait at once: a server with some 130 refuses.
	maxCalls = 32
	// restFor is how long a thread may rest before nod leaves it, so that Codex can
	// unload it and other programs can open it: as long as Codex itself waits.
	restFor = time.Minute
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

// errTooLong stands for an answer that was too long to be read.
var errTooLong = &rpcError{Message: "the answer is longer than nod reads"}

// overloaded is the code of a server that wants to be asked again later.
const overloaded = -32001

// conn is a link to one app-server and the threads on it. The goroutine that reads
// owns the threads; calls only write and wait, and what their answers change is
// done by the reader, in the order of the wire.
type conn struct {
	place place
	open  func(context.Context, *conn) (dialled, error)
	sink  agentconn.Sink
	log   *slog.Logger

	wire    wire
	epoch   string
	version version

	threads map[string]*thread // by thread id, that this link is subscribed to; the reader's
	board   board              // the reader's
	gather  *gathered          // the reader's; nil unless a turn is told that has passed

	ctx     context.Context    // of what runs beside the reader
	stop    context.CancelFunc // ends the link
	running sync.WaitGroup     // what runs beside the reader

	writing sync.Mutex    // one message at a time
	slots   chan struct{} // one for each call that waits
	listing sync.Mutex    // one thread/list at a time

	attaching singleflight.Group // by thread id

	modelling sync.Mutex
	models    []wireModel // nil until they are known

	mu     sync.Mutex
	nextID int
	calls  map[int]*call   // nil once the link is lost
	live   map[string]bool // thread ids that this link is subscribed to
	ours   map[string]bool // ids of requests that nod has answered
}

type call struct {
	// onResult runs on the reading goroutine, before any later message.
	onResult func(json.RawMessage) error
	done     chan error
}

var errLost = &agentconn.PublicError{Message: "The link to Codex was lost before it answered."}

func newConn(p place, sink agentconn.Sink, open func(context.Context, *conn) (dialled, error)) *conn {
	return &conn{
		place: p, open: open, sink: sink, log: p.cfg.Log.With("agent", p.key), threads: map[string]*thread{}, slots: make(chan struct{}, maxCalls),
		live: map[string]bool{}, ours: map[string]bool{},
	}
}

// Run reaches the server, greets it, looks what runs there, and reads until it
// ends.
func (c *conn) Run(ctx context.Context, ready func(agentconn.Found)) error {
	ctx, c.stop = context.WithCancel(ctx)
	defer c.stop()
	c.ctx = ctx
	d, err := c.open(ctx, c)
	if err != nil {
		return err
	}
	c.wire, c.epoch, c.calls = d.wire, d.epoch, map[int]*call{}

	var greeted error
	c.running.Go(func() {
		if greeted = c.greet(ctx); greeted != nil {
			c.stop()
			return
		}
		stalled := make(chan bool, 1)
		detail := "Codex " + c.version.String()
		if !d.lasting {
			detail += ": a restart of nod ends what it does, because " + d.ends
		}
		ready(agentconn.Found{Epoch: c.epoch, Detail: detail, Lasting: d.lasting, Offers: c.offers(d.terminal), Stalled: stalled})
		c.discover()
		agentconn.Watch(c.ctx, stalled, c.probe)
	})
	rubbish, read := c.read(ctx)
	c.lose()
	c.stop()
	ended, lastWords := c.wire.end()
	c.running.Wait()
	if d.lasting && rubbish == "" && (greeted == nil || errors.Is(greeted, context.Canceled) || errors.Is(greeted, errLost)) {
		return &agentconn.PublicError{Message: "Its server has closed the connection.", Err: errors.Join(greeted, read)}
	}
	return whyLost(greeted, ended, rubbish, lastWords)
}

// whyLost makes a sentence of how a link ended.
func whyLost(greeted, ended error, rubbish, lastWords string) error {
	quote := ""
	if lastWords != "" {
		quote = " Its last words: “" + plain.Shorten(lastWords, 200) + "”."
	}
	cause := errors.Join(greeted, ended)
	switch {
	case rubbish != "":
		return &agentconn.PublicError{Message: "The program called codex printed something that is not Codex's protocol (“" + plain.Shorten(rubbish, 80) +
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

// version is Codex's own: as it says it, and the numbers in it.
type version struct {
	text    string
	numbers [3]int
}

func (v version) String() string { return v.text }

// pages reports whether history comes in pages, with the ids that items had while
// they ran. Codex 0.122 tells it whole, numbers the items anew and leaves commands
// and file changes out.
func (v version) pages() bool { return slices.Compare(v.numbers[:], []int{0, 130, 0}) >= 0 }

// hello introduces nod.
var hello = map[string]any{
	"clientInfo":   map[string]any{"name": "nod", "title": "nod", "version": "0.1.0"},
	"capabilities": map[string]any{"experimentalApi": true},
}

// greeting is what initialize is answered with.
type greeting struct {
	UserAgent string `json:"userAgent"`
}

// version reads "name/0.171.0 (Debian ...": the name is that of the first client
// that the server has had.
func (g greeting) version() (v version, err error) {
	_, rest, ok := strings.Cut(g.UserAgent, "/")
	if !ok {
		return v, errors.New("codex: the answer to initialize names no version")
	}
	text, _, _ := strings.Cut(rest, " ")
	v.text = plain.Shorten(text, 40)
	_, _ = fmt.Sscanf(text, "%d.%d.%d", &v.numbers[0], &v.numbers[1], &v.numbers[2]) // one without numbers is taken for an old one
	return v, nil
}

// greet introduces nod and learns what it talks to.
func (c *conn) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	var who greeting
	err := c.call(ctx, "initialize", hello, func(r json.RawMessage) error { return json.Unmarshal(r, &who) })
	if err == nil {
		c.version, err = who.version()
	}
	if err != nil {
		return err
	}
	return c.write(message{Method: "initialized"})
}

// askVersion asks a server over a wire of its own.
func askVersion(ctx context.Context, w wire) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, agentconn.AnswerWithin)
	defer cancel()
	params, err := json.Marshal(hello)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(message{ID: json.RawMessage("1"), Method: "initialize", Params: params})
	if err != nil {
		return "", err
	}
	if err := w.write(ctx, raw); err != nil {
		return "", err
	}
	for {
		raw, _, err := w.read(ctx)
		if err != nil {
			return "", err
		}
		var m message
		var who greeting
		if json.Unmarshal(raw, &m) == nil && string(m.ID) == "1" && json.Unmarshal(m.Result, &who) == nil {
			v, err := who.version()
			return v.String(), err
		}
	}
}

// read handles messages until the end. rubbish is the first line of a program that
// talks but does not speak the protocol; it is stopped for that.
func (c *conn) read(ctx context.Context) (rubbish string, err error) {
	spoke, odd := false, 0
	for {
		line, long, err := c.wire.read(ctx)
		if len(line) > 0 {
			var m message
			said := line
			if long != nil {
				said = long.Bytes()
			}
			if json.Unmarshal(said, &m) != nil || (m.Method == "" && m.ID == nil) {
				c.log.Warn("a line that is no message", "bytes", len(line), "cut", long != nil, "start", plain.Shorten(string(line[:min(len(line), 200)]), 200))
				if odd++; !spoke && (long != nil || odd > bannerLines) && rubbish == "" {
					rubbish = printable(string(line[:min(len(line), 400)]))
					c.stop()
				}
				if long != nil {
					c.tellLong(ctx, m, long)
				}
			} else if spoke = true; long != nil {
				c.receiveLong(ctx, m, long)
			} else {
				c.receive(ctx, m, line)
			}
		}
		if err != nil {
			return rubbish, err
		}
	}
}

func (c *conn) receive(ctx context.Context, m message, line []byte) {
	switch {
	case m.Method != "" && m.ID != nil:
		c.serverRequest(ctx, m, nil)
	case m.Method != "":
		c.notification(ctx, m, line)
	default:
		c.answered(m)
	}
}

// call sends a request and waits for its answer. onResult, if not nil, runs on
// the reading goroutine before any later message is looked at. A server that is
// overloaded is asked again.
func (c *conn) call(ctx context.Context, method string, params any, onResult func(json.RawMessage) error) error {
	p, err := json.Marshal(params)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, &agentconn.PublicError{
		Message: fmt.Sprintf("Codex has not answered for %v. It may have done it all the same, so look before you try again.", callTimeout),
		Err:     fmt.Errorf("codex: %s was not answered", method),
	})
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		err := c.callOnce(ctx, method, p, onResult)
		var refused *rpcError
		if !errors.As(err, &refused) || refused.Code != overloaded {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

func (c *conn) callOnce(ctx context.Context, method string, params json.RawMessage, onResult func(json.RawMessage) error) error {
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
	if err := c.write(message{ID: fmt.Append(nil, id), Method: method, Params: params}); err != nil {
		return err
	}
	select {
	case err := <-k.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
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
	if err = c.wire.write(c.ctx, b); err != nil {
		c.stop() // half a message may be on its way: nothing can follow it
	}
	return err
}

// probe asks the server whether it is still there, and leaves the threads that rest.
func (c *conn) probe(ctx context.Context) error {
	var resting []string
	err := c.call(ctx, "thread/loaded/list", map[string]any{}, func(json.RawMessage) error {
		resting = c.resting()
		return nil
	})
	if err != nil {
		return err // the reader may still be at it
	}
	for _, id := range resting {
		c.leave(id)
	}
	return nil
}
