package copilot

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

const (
	// pageEvents is how many events of a log are asked for at once, and maxPages how
	// many such pages are read.
	pageEvents = 1000
	maxPages   = 40
)

// newID makes the id of a session: Copilot takes a UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// nobody answers a request at once: it waits for a person, and is answered by its id.
func nobody(sdk.PermissionRequest, sdk.PermissionInvocation) (rpc.PermissionDecision, error) {
	return &rpc.PermissionDecisionNoResult{}, nil
}

// The SDK only tells the server that there is somebody to be asked when it is given
// these; the tap lets none of them be called.
func noInput(sdk.UserInputRequest, sdk.UserInputInvocation) (sdk.UserInputResponse, error) {
	return sdk.UserInputResponse{}, errNotHere
}

func noForm(sdk.ElicitationContext) (sdk.ElicitationResult, error) {
	return sdk.ElicitationResult{}, errNotHere
}

func noPlan(sdk.ExitPlanModeRequest, sdk.ExitPlanModeInvocation) (sdk.ExitPlanModeResult, error) {
	return sdk.ExitPlanModeResult{}, errNotHere
}

func noSwitch(sdk.AutoModeSwitchRequest, sdk.AutoModeSwitchInvocation) (sdk.AutoModeSwitchResponse, error) {
	return "", errNotHere
}

var errNotHere = errors.New("copilot: questions are answered by their ids")

// create starts a session and makes it known.
func (c *conn) create(ctx context.Context, id string, n state.NewSession) error {
	c.alone(func() { c.enter(id) })
	err := c.callFor(ctx, "session.create", id, func(ctx context.Context) error {
		cfg := c.cfg.create(n)
		cfg.SessionID = id
		s, err := c.client.CreateSession(ctx, cfg)
		if s != nil {
			c.hold(id, s)
		}
		return err
	}, func(raw json.RawMessage) error {
		err := c.begin(id, &state.SessionSummary{
			Resource: uriOf(id), Provider: c.room.provider, Status: state.StatusIdle, CreatedAt: time.Now().UnixMilli(), ModifiedAt: time.Now().UnixMilli(),
			WorkingDirectory: new(state.FileURI(n.Folder)),
		}, raw)
		if err == nil {
			c.sessions[id].caughtUp(c.recording())
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.tune(ctx, id, n.Folder, true)
}

// tune sets what only an open session takes. With script safety an approval for the
// session is one for the commands that it names; without, for nothing. A session that
// nod has started follows the permanent rules of its folder, as one in a terminal
// does; in somebody else's nothing is changed.
func (c *conn) tune(ctx context.Context, id, folder string, own bool) error {
	s := c.session(id)
	if s == nil {
		return errLost
	}
	err := c.call(ctx, func(ctx context.Context) error {
		_, err := s.RPC.Options.Update(ctx, &rpc.SessionUpdateOptionsParams{EnableScriptSafety: new(true)})
		return err
	})
	if err != nil || folder == "" {
		return err
	}
	place := ""
	err = c.call(ctx, func(ctx context.Context) error {
		if own {
			res, err := s.RPC.Permissions.Locations().Apply(ctx, &rpc.PermissionLocationApplyParams{WorkingDirectory: folder})
			if err == nil {
				place = res.LocationKey
			}
			return err
		}
		res, err := s.RPC.Permissions.Locations().Resolve(ctx, &rpc.PermissionLocationResolveParams{WorkingDirectory: folder})
		if err == nil {
			place = res.LocationKey
		}
		return err
	})
	if err != nil {
		c.log.Warn("permanent rules cannot be offered", "session", id, "err", err)
		return nil
	}
	c.alone(func() {
		if s := c.sessions[id]; s != nil {
			s.place = place
		}
	})
	return nil
}

func (c *conn) hold(id string, s *sdk.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.live[id] = s
	}
}

// ready is what session.create and session.resume are answered with.
type opened struct {
	ModelState struct {
		ModelID string `json:"modelId"`
		Effort  string `json:"reasoningEffort"`
	} `json:"modelState"`
	Mode string `json:"mode"`
}

// begin makes a session known to the hub. The reader calls it.
func (c *conn) begin(id string, m *state.SessionSummary, raw json.RawMessage) error {
	s := c.sessions[id]
	var o opened
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	actions := []state.Action{&state.SessionReady{}}
	if o.ModelState.ModelID != "" {
		actions = append(actions, &state.SessionModelChanged{Model: state.ModelSelection{ID: plain.Shorten(o.ModelState.ModelID, 100)}})
	}
	st, err := c.room.sink.Begin(c.recording(), c.room.key, m, nil, actions...)
	if err != nil {
		return err
	}
	s.recall(st)
	s.gathers = len(st.Turns) == 0 && st.ActiveTurn == nil // nod knows nothing of it yet
	return nil
}

// enter prepares to hear a session. Call it alone.
func (c *conn) enter(id string) *session {
	s := newSession(&c.room, id)
	s.catchUp()
	c.sessions[id] = s
	return s
}

// attach holds a session, if this link does not yet, and brings nod's up to what has
// happened. m describes it in case that nod does not know it.
func (c *conn) attach(ctx context.Context, id string, m *state.SessionSummary) error {
	if c.session(id) != nil {
		return nil
	}
	_, err, _ := c.attaching.Do(id, func() (any, error) {
		if c.session(id) != nil {
			return nil, nil
		}
		err := c.resume(ctx, id, m)
		if err != nil {
			c.alone(func() { delete(c.sessions, id) })
			c.mu.Lock()
			delete(c.live, id)
			c.mu.Unlock()
		}
		return nil, err
	})
	return err
}

// resume joins a session. It is never opened where another process has it: that
// would make a second one of it.
func (c *conn) resume(ctx context.Context, id string, m *state.SessionSummary) error {
	err := c.call(ctx, func(ctx context.Context) error {
		used, err := c.client.RPC.Sessions.CheckInUse(ctx, &rpc.SessionsCheckInUseRequest{SessionIDs: []string{id}})
		if err == nil && len(used.InUse) > 0 {
			return errInUse
		}
		return err
	})
	if err != nil {
		return err
	}
	c.alone(func() { c.enter(id) })
	err = c.callFor(ctx, "session.resume", id, func(ctx context.Context) error {
		s, err := c.client.ResumeSession(ctx, id, c.cfg.join())
		if s != nil {
			c.hold(id, s)
		}
		return err
	}, func(raw json.RawMessage) error { return c.begin(id, m, raw) })
	if err != nil {
		return err
	}
	if err := c.tune(ctx, id, state.FilePath(state.Value(m.WorkingDirectory)), false); err != nil { // before what waits is shown
		return err
	}
	return c.readLog(ctx, id)
}

var errInUse = &agentconn.PublicError{Message: "This session is open in another program, maybe a terminal. To open it a second time would make two of it: close it there, or go on there."}

// readLog reads what a session's log tells after what nod knows of it.
func (c *conn) readLog(ctx context.Context, id string) error {
	s := c.session(id)
	if s == nil {
		return errLost
	}
	cursor, more := "", true
	c.alone(func() { cursor = c.sessions[id].cursor() })
	for n := 0; more; n++ {
		read := &rpc.EventLogReadRequest{Max: new(int64(pageEvents)), Cursor: state.Optional(cursor)}
		if n == maxPages {
			c.log.Warn("a log is longer than nod reads", "session", id)
			break
		}
		err := c.callFor(ctx, "session.eventLog.read", id, func(ctx context.Context) error {
			_, err := s.RPC.EventLog.Read(ctx, read)
			return err
		}, func(raw json.RawMessage) error {
			var page struct {
				Events  []json.RawMessage `json:"events"`
				Cursor  string            `json:"cursor"`
				HasMore bool              `json:"hasMore"`
			}
			if err := json.Unmarshal(raw, &page); err != nil {
				return err
			}
			known := c.sessions[id]
			for _, raw := range page.Events {
				if e, err := readEvent(raw); err != nil {
					c.room.sink.Opaque(c.recording(), known.main.uri, raw)
				} else {
					known.take(c.recording(), e)
				}
			}
			if cursor, more = page.Cursor, page.HasMore; !more {
				known.caughtUp(c.recording())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// discover looks after what was open on the server when nod heard of it last.
func (c *conn) discover() {
	for _, st := range c.room.sink.Open(c.ctx, c.room.key) {
		c.running.Go(func() { c.regain(st.Summary) })
	}
}

// regain goes on with a session in which something was open.
func (c *conn) regain(m *state.SessionSummary) {
	id := sessionID(m.Resource)
	err := c.attach(c.ctx, id, m)
	if err == nil || c.ctx.Err() != nil {
		return
	}
	c.room.sink.Gone(c.ctx, m.Resource, "Copilot cannot go on with this session: it says “"+plain.Shorten(saidBy(err), 300)+"”.")
	c.log.Warn("an open session cannot go on", "session", id, "err", err)
}

// lifecycle follows what the server tells of all its sessions.
func (c *conn) lifecycle(json.RawMessage) {}
