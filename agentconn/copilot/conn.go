package copilot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	sdk "github.com/github/copilot-sdk/go"
	"golang.org/x/sync/singleflight"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

const (
	// callTimeout bounds every call: one that is in flight when the server dies is
	// never answered.
	callTimeout = 30 * time.Second
	// greetTimeout bounds the wait for the answer to connect: a cold `copilot` takes
	// some seconds.
	greetTimeout = 15 * time.Second
)

// dialled is a connection to a server.
type dialled struct {
	wire    net.Conn
	token   string
	epoch   string // of one run of the server
	lasting bool   // what runs there goes on without nod
	notice  string // what to know about this way, after the version
}

// conn is a link to one server and the sessions on it. The goroutine that reads owns
// the sessions; calls only wait, and what their answers change is done by the reader,
// in the order of the wire.
type conn struct {
	adapter agentconn.Adapter
	cfg     Config
	open    func(context.Context) (dialled, error)
	room    room
	log     *slog.Logger

	tap      *tap
	client   *sdk.Client
	version  string
	terminal bool // it is a terminal that serves

	// hearing is held by the reader while it handles a message, and by who else
	// touches the sessions.
	hearing  sync.Mutex
	sessions map[string]*session  // by id, that this link hears
	tried    map[string]time.Time // when nod has tried to join a session
	greeted  bool                 // the server may be called

	ctx     context.Context // of what runs beside the reader
	stop    context.CancelFunc
	running sync.WaitGroup

	attaching singleflight.Group // by session id

	mu   sync.Mutex
	live map[string]*sdk.Session // that this link holds
}

var errLost = &agentconn.PublicError{Message: "The link to Copilot was lost before it answered."}

func newConn(a agentconn.Adapter, cfg Config, sink agentconn.Sink, open func(context.Context) (dialled, error)) *conn {
	log := cfg.Log.With("agent", a.Key())
	c := &conn{
		adapter: a, cfg: cfg, open: open, log: log,
		room:     room{sink: sink, key: a.Key(), provider: a.Provider(), log: log},
		sessions: map[string]*session{}, tried: map[string]time.Time{}, live: map[string]*sdk.Session{},
	}
	c.room.rests = func(id string) { c.running.Go(func() { c.mark(id) }) }
	c.room.queues = func(id string) { c.running.Go(func() { c.readQueue(id) }) }
	c.room.todos = func(id string) { c.running.Go(func() { c.readTodos(id) }) }
	return c
}

// Run reaches the server, greets it, looks what runs there, and reads until it ends.
func (c *conn) Run(ctx context.Context, ready func(agentconn.Found)) error {
	ctx, c.stop = context.WithCancel(ctx)
	defer c.stop()
	c.ctx = ctx
	d, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer d.wire.Close()
	c.room.epoch = d.epoch
	address, accept, err := listen(ctx)
	if err != nil {
		return err
	}
	c.client = sdk.NewClient(&sdk.ClientOptions{Connection: sdk.URIConnection{URL: address, ConnectionToken: d.token}})
	var refused error
	c.running.Go(func() {
		if refused = c.greet(ctx); refused != nil {
			c.stop()
			return
		}
		c.alone(func() { c.greeted = true })
		stalled := make(chan bool, 1)
		ready(agentconn.Found{
			Epoch: d.epoch, Detail: plain.Joined(". ", "Copilot "+c.version, d.notice), Lasting: d.lasting, Offers: offers(), Stalled: stalled,
		})
		c.discover()
		agentconn.Watch(c.ctx, stalled, c.probe)
	})
	wire, err := accept()
	var passing sync.WaitGroup
	if err == nil {
		c.tap = &tap{server: d.wire, sdk: wire, log: c.room.log, onMessage: c.receive, inFlight: map[string]*wanted{}}
		ended := context.AfterFunc(ctx, func() { _ = d.wire.Close() })
		passing.Go(func() {
			_ = c.tap.fromSDK() // it ends with the client
			c.stop()
		})
		err = c.tap.fromServer()
		ended()
		_ = d.wire.Close()
		c.tap.lose()
	}
	c.stop()
	c.running.Wait()
	c.release(wire)
	passing.Wait()
	return whyLost(refused, err, d.lasting)
}

// release ends what the SDK runs for this link. The server is not told: a session is
// detached from when the connection ends, and what the keeper holds goes on.
func (c *conn) release(sdk net.Conn) {
	c.mu.Lock()
	live := c.live
	c.live = nil
	c.mu.Unlock()
	for id, s := range live {
		c.cfg.held.drop(id, c)
		_ = s.Disconnect() // it reaches nobody, and ends its goroutines
	}
	if sdk != nil {
		_ = sdk.Close()
		time.Sleep(quietly)
	}
	c.client.ForceStop()
}

// quietly is how long the SDK gets to see that its connection has ended, before it is
// stopped: otherwise it prints an error to standard output.
const quietly = 20 * time.Millisecond

// whyLost makes a sentence of how a link ended.
func whyLost(greeted, read error, lasting bool) error {
	cause := errors.Join(greeted, read)
	var refused interface{ Error() string }
	switch {
	case greeted != nil && !errors.Is(greeted, context.Canceled) && errors.As(greeted, &refused):
		return &agentconn.PublicError{Message: "Copilot's server did not come up as nod expects it: " + plain.Shorten(saidBy(greeted), 300) + ". nod needs Copilot CLI 1.0.102 or newer, and the server's own token.", Err: cause}
	case lasting:
		return &agentconn.PublicError{Message: "Its server has closed the connection.", Err: cause}
	}
	return &agentconn.PublicError{Message: "Its server has ended.", Err: cause}
}

// saidBy is what a server has said with an error.
func saidBy(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// greet introduces nod and learns what it talks to.
func (c *conn) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	if err := c.client.Start(ctx); err != nil {
		return err
	}
	st, err := c.client.GetStatus(ctx)
	if err != nil {
		return err
	}
	c.version = plain.Shorten(st.Version, 40)
	return nil
}

// whatToDo says what a Copilot that may use no model needs.
const whatToDo = "Copilot is not logged in. Run “copilot login”, or set COPILOT_GITHUB_TOKEN to a token, or COPILOT_PROVIDER_BASE_URL and COPILOT_MODEL to a model provider of your own. Then stop nod, run “nod agents stop”, because Copilot's server goes on with what it was started with, and start nod again."

// authorized reports an error if no model can be asked.
func (c *conn) authorized(ctx context.Context) error {
	if p, _ := byok(); p != nil {
		return nil
	}
	return c.call(ctx, func(ctx context.Context) error {
		st, err := c.client.GetAuthStatus(ctx)
		if err == nil && !st.IsAuthenticated {
			err = &agentconn.PublicError{Message: whatToDo, Err: errors.New(state.Value(st.StatusMessage))}
		}
		return err
	})
}

// receive takes what the server says by itself. The questions that it puts to a
// client as calls are events too, and are answered by their ids.
func (c *conn) receive(m message) {
	c.hearing.Lock()
	defer c.hearing.Unlock()
	switch m.Method {
	case "":
		c.tellLong(m.long)
	case "session.event":
		var p struct {
			SessionID string          `json:"sessionId"`
			Event     json.RawMessage `json:"event"`
		}
		err := json.Unmarshal(m.Params, &p)
		if m.long != nil && p.SessionID == "" {
			c.tellLong(m.long)
		}
		if err != nil {
			return
		}
		s := c.sessions[p.SessionID]
		if s == nil {
			return // one that this link is leaving
		}
		e, err := readEvent(p.Event)
		e.long = m.long
		if err != nil {
			s.unreadable(c.recording(), e, err)
			return
		}
		s.hear(c.recording(), e)
	case "session.lifecycle":
		c.lifecycle(m.Params)
	}
}

// recording is the context of what is recorded: what was heard is kept, also when the
// link ends.
func (c *conn) recording() context.Context { return context.WithoutCancel(c.ctx) }

// call makes a call with a deadline.
func (c *conn) call(ctx context.Context, f func(context.Context) error) error {
	return c.callWithin(ctx, callTimeout, f)
}

// errSlow: a call was not answered in time.
var errSlow = errors.New("copilot: no answer")

func (c *conn) callWithin(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &agentconn.PublicError{
		Message: fmt.Sprintf("Copilot has not answered for %v. It may have done it all the same, so look before you try again.", limit),
		Err:     errSlow,
	})
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	err := f(ctx)
	switch {
	case err != nil && c.ctx.Err() != nil:
		return errors.Join(errLost, err)
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// callFor makes a call about a session or a request whose answer nod reads as it
// came, on the reader's goroutine.
func (c *conn) callFor(ctx context.Context, method, id string, f func(context.Context) error, read func(json.RawMessage) error) error {
	w := c.tap.want(method, id, func(raw json.RawMessage) error {
		c.hearing.Lock()
		defer c.hearing.Unlock()
		return read(raw)
	})
	err := c.call(ctx, f)
	done, failed := c.tap.forget(w)
	if done {
		return failed // whatever the SDK could not read of it
	}
	if err == nil {
		err = errTooLong
	}
	return err
}

// errTooLong: the answer was longer than nod reads.
var errTooLong = errors.New("copilot: an answer is longer than nod reads")

// longAnswer is errTooLong with what nod has of such an answer.
type longAnswer struct {
	result  json.RawMessage // of its outline
	outline *agentconn.Outline
}

func (*longAnswer) Error() string { return errTooLong.Error() }
func (*longAnswer) Unwrap() error { return errTooLong }

// probe asks the server whether it is still there.
func (c *conn) probe(ctx context.Context) error {
	_, err := c.client.Ping(ctx, "")
	return err
}

// session returns the SDK's handle of a session that this link holds.
func (c *conn) session(id string) *sdk.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live[id]
}

// publicly puts what Copilot said behind a sentence of ours.
func publicly(err error, sentence string) error {
	var p *agentconn.PublicError
	if err == nil || errors.As(err, &p) {
		return err
	}
	return &agentconn.PublicError{Message: sentence + ". It says: “" + plain.Shorten(saidBy(err), 300) + "”.", Err: err}
}

// alone runs f while nothing is heard.
func (c *conn) alone(f func()) {
	c.hearing.Lock()
	defer c.hearing.Unlock()
	f()
}

// Answer implements agentconn.Conn.
func (c *conn) Answer(ctx context.Context, r state.Request, d state.Decision) error {
	if r.Epoch != c.room.epoch {
		return errors.New("copilot: the request is of an earlier server")
	}
	known := requests[r.Method]
	if known.answer == nil {
		return fmt.Errorf("copilot: nod does not answer %s", r.Method)
	}
	var request string
	if err := json.Unmarshal(r.UpstreamID, &request); err != nil {
		return err
	}
	id := sessionID(r.Session)
	var m *state.SessionSummary
	for _, st := range c.room.sink.Open(ctx, c.room.key) { // it asks, so it is open
		if st.Summary.Resource == uriOf(id) {
			m = st.Summary
		}
	}
	if err := c.attach(ctx, id, m); err != nil {
		return err
	}
	s := c.session(id)
	if s == nil {
		return errLost
	}
	o, _ := r.Option(d.OptionID) // the hub has looked
	var k *ask
	c.alone(func() {
		if k = c.waits(id, r.UpstreamID); k != nil {
			k.option, k.unsure = o.Kind, false
		}
	})
	if k == nil {
		return state.ErrAnsweredElsewhere
	}
	heard := false
	err := c.callFor(ctx, known.method, request, func(ctx context.Context) error {
		return known.answer(ctx, s, request, r, d)
	}, func(raw json.RawMessage) error {
		heard = true
		var res struct {
			Success bool `json:"success"`
		}
		if err := json.Unmarshal(raw, &res); err != nil {
			return err
		}
		if s := c.sessions[id]; s != nil {
			return s.sent(c.recording(), r.UpstreamID, res.Success)
		}
		return errLost
	})
	if err == nil || errors.Is(err, state.ErrAnsweredElsewhere) {
		return err
	}
	refused := !heard && !errors.Is(err, errLost) && !errors.Is(err, errSlow) && !errors.Is(err, errTooLong)
	c.alone(func() {
		s := c.sessions[id]
		switch {
		case s == nil:
		case refused && k.ended == nil:
			k.option = ""
			err = fmt.Errorf("%w: %w", state.ErrStillWaits, err)
		default:
			s.lost(c.recording(), k)
		}
	})
	return err
}

// waits returns a request that waits, nil if there is none. Call it alone.
func (c *conn) waits(id string, request []byte) *ask {
	if s := c.sessions[id]; s != nil {
		return s.waits(request)
	}
	return nil
}
