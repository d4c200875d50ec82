package copilot

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

const (
	// pageEvents is how many events of a log are asked for at once, and maxPages how
	// many such pages are read: a log that is longer than that is no session's.
	pageEvents = 1000
	maxPages   = 2000
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

// create starts a session and makes it known, once it has the settings that were
// chosen for it.
func (c *conn) create(ctx context.Context, id string, n state.NewSession) error {
	if err := c.authorized(ctx); err != nil {
		return err
	}
	c.alone(func() { c.enter(id) })
	var answer json.RawMessage
	err := c.callFor(ctx, "session.create", id, func(ctx context.Context) error {
		cfg := c.cfg.create(n)
		cfg.SessionID = id
		s, err := c.client.CreateSession(ctx, cfg)
		if s != nil {
			c.hold(id, s)
		}
		return err
	}, func(raw json.RawMessage) error {
		answer = raw
		return nil
	})
	if err == nil {
		if err = c.choose(ctx, id, atFirst(n.Config), map[string]string{settingMode: string(rpc.SessionModeInteractive)}); err != nil {
			// Nobody knows it yet. If it stays, it stays empty.
			_ = c.call(ctx, func(ctx context.Context) error { return c.client.DeleteSession(ctx, id) })
		}
	}
	if err == nil {
		c.alone(func() {
			err = c.begin(id, &state.SessionSummary{
				Resource: uriOf(id), Provider: c.room.provider, Status: state.StatusIdle, CreatedAt: time.Now().UnixMilli(), ModifiedAt: time.Now().UnixMilli(),
				WorkingDirectory: new(state.FileURI(n.Folder)),
			}, answer)
			if err == nil {
				c.sessions[id].caughtUp(c.recording())
			}
		})
	}
	if err != nil {
		c.leave(id)
		return err
	}
	return c.tune(ctx, id, n.Folder, true)
}

// leave forgets a session that this link does not hold any more, or could not come to
// hold.
func (c *conn) leave(id string) {
	c.alone(func() { delete(c.sessions, id) })
	c.mu.Lock()
	s := c.live[id]
	delete(c.live, id)
	c.mu.Unlock()
	if s != nil {
		c.cfg.held.drop(id, c)
		c.running.Go(func() { _ = s.Disconnect() }) // the server may have heard nothing of it
	}
}

// tune sets what only an open session takes. With script safety an approval for the
// session is one for the commands that it names; without, for nothing. A session that
// nod has started follows the permanent rules of its folder, as one in a terminal
// does; in somebody else's nothing is changed. What is in force and what waits is known
// then.
func (c *conn) tune(ctx context.Context, id, folder string, own bool) error {
	s := c.session(id)
	if s == nil {
		return errLost
	}
	var reading sync.WaitGroup // each call takes its time, so they are made at once
	defer reading.Wait()
	for _, read := range []func(context.Context, *sdk.Session) error{c.readMode, c.readModel, c.readPermissions} {
		reading.Go(func() {
			if err := read(ctx, s); err != nil {
				c.log.Debug("a setting that is in force is not known", "session", id, "err", err)
			}
		})
	}
	reading.Go(func() { c.readQueue(id) })
	err := c.call(ctx, func(ctx context.Context) error {
		_, err := s.RPC.Options.Update(ctx, &rpc.SessionUpdateOptionsParams{EnableScriptSafety: new(true)})
		return err
	})
	if err != nil {
		c.log.Warn("an approval for the session will be one for nothing", "session", id, "err", err)
	}
	if folder == "" {
		return nil
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
		if c.live[id] == nil {
			c.cfg.held.take(id, c)
		}
		c.live[id] = s
	}
}

// opened is what session.create and session.resume are answered with.
type opened struct {
	Model currentModel `json:"modelState"`
	Mode  string       `json:"mode"`
}

// begin makes a session known to the hub. The reader calls it.
func (c *conn) begin(id string, m *state.SessionSummary, raw json.RawMessage) error {
	s := c.sessions[id]
	var o opened
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	st, err := c.room.sink.Begin(c.recording(), c.room.key, m, state.SessionConfig(settings(nil)), &state.SessionReady{})
	if err != nil {
		return err
	}
	s.recall(st, c.room.sink.Open(c.recording(), c.room.key))
	s.main.modelIs(o.Model.ID)
	s.main.configure(map[string]string{settingMode: o.Mode, settingEffort: o.Model.Effort})
	s.flush(c.recording())
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
// happened: before that nobody may speak in it. m describes it in case that nod does
// not know it.
func (c *conn) attach(ctx context.Context, id string, m *state.SessionSummary) error {
	_, err, _ := c.attaching.Do(id, func() (any, error) {
		holds := c.session(id) != nil
		if holds && !c.rests(id) {
			return nil, nil
		}
		err := c.unused(ctx, id)
		if err == nil && !holds {
			err = c.resume(ctx, id, m)
		}
		if err != nil && (!holds || errors.Is(err, errInUse)) {
			c.leave(id)
		}
		return nil, err
	})
	return err
}

// unused reports an error if another process has a session open. To open it here too,
// or to go on with it, would make a second one of it: Copilot itself only looks out
// for others in terminals, and marks a session as its own with the first message.
func (c *conn) unused(ctx context.Context, id string) error {
	return c.call(ctx, func(ctx context.Context) error {
		used, err := c.client.RPC.Sessions.CheckInUse(ctx, &rpc.SessionsCheckInUseRequest{SessionIDs: []string{id}})
		if err == nil && len(used.InUse) > 0 {
			return errInUse
		}
		return err
	})
}

// rests reports whether nothing goes on in a session that this link hears.
func (c *conn) rests(id string) (rests bool) {
	c.alone(func() {
		s := c.sessions[id]
		rests = s != nil && s.caught() && s.main.turn == ""
	})
	return rests
}

// yield leaves a session that rests to the terminal that has opened it: what the
// server holds of it does not have what is said there.
func (c *conn) yield(id string) {
	if !c.terminal && c.rests(id) {
		c.leave(id)
	}
}

// others reports whether another client has begun a session. It may be using it, with a
// provider and hooks of its own, which whoever joins would change for it too.
func (c *conn) others(ctx context.Context, id string) (others bool, err error) {
	err = c.callFor(ctx, "session.getMetadata", id, func(ctx context.Context) error {
		_, err := c.client.GetSessionMetadata(ctx, id)
		return err
	}, func(raw json.RawMessage) error {
		var p struct {
			Session struct {
				ClientName string `json:"clientName"`
			} `json:"session"`
		}
		err := json.Unmarshal(raw, &p)
		others = p.Session.ClientName != clientName
		return err
	})
	return others, err
}

// resume joins a session.
func (c *conn) resume(ctx context.Context, id string, m *state.SessionSummary) (err error) {
	others := false
	if !c.terminal && c.room.provider != Provider {
		if others, err = c.others(ctx, id); err != nil {
			return err
		}
	}
	c.alone(func() { c.enter(id) })
	var s *sdk.Session
	var answer json.RawMessage
	err = c.callFor(ctx, "session.resume", id, func(ctx context.Context) (err error) {
		folder := "" // which nobody trusts
		if m != nil {
			folder = state.FilePath(state.Value(m.WorkingDirectory))
		} else if c.room.provider == Provider { // nobody else opens any there, so it is a fork
			w, _ := readWorkspace(id)
			folder = w.Cwd
		}
		cfg := c.cfg.join(c.terminal || others, folder)
		if m != nil { // what nod has told to have ended does not go on
			cfg.ContinuePendingWork = new(m.Status.Activity()&state.StatusInProgress != 0)
		}
		s, err = c.client.ResumeSession(ctx, id, cfg)
		return err
	}, func(raw json.RawMessage) error {
		answer = raw
		return nil
	})
	if s == nil && err == nil {
		err = errLost
	}
	if err != nil {
		return err
	}
	c.hold(id, s)
	if m == nil {
		if m, err = c.describe(ctx, s); err != nil {
			return err
		}
	}
	c.alone(func() { err = c.begin(id, m, answer) })
	if err == nil { // before what waits is shown
		err = c.tune(ctx, id, state.FilePath(state.Value(m.WorkingDirectory)), false)
	}
	if err == nil {
		err = c.readLog(ctx, id)
	}
	if err == nil {
		err = c.settle(ctx, s)
	}
	return err
}

// describe makes what a list shows of a session that nod does not know.
func (c *conn) describe(ctx context.Context, s *sdk.Session) (*state.SessionSummary, error) {
	var is *rpc.SessionMetadataSnapshot
	err := c.call(ctx, func(ctx context.Context) (err error) {
		is, err = s.RPC.Metadata.Snapshot(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if is.AlreadyInUse {
		return nil, errInUse
	}
	return &state.SessionSummary{
		Resource: uriOf(s.SessionID), Provider: c.room.provider, Title: state.TitleOf(cmp.Or(state.Value(is.InitialName), state.Value(is.Summary))), Status: state.StatusIdle,
		CreatedAt: is.StartTime.UnixMilli(), ModifiedAt: is.ModifiedTime.UnixMilli(), WorkingDirectory: new(state.FileURI(is.WorkingDirectory)),
	}, nil
}

// settle ends a turn that the server does not go on with: it was another run of the
// server that had it.
func (c *conn) settle(ctx context.Context, s *sdk.Session) error {
	turn := ""
	c.alone(func() {
		if known := c.sessions[s.SessionID]; known != nil && len(known.asks) == 0 {
			turn = known.main.turn
		}
	})
	if turn == "" {
		return nil
	}
	var is *rpc.SessionActivity
	err := c.call(ctx, func(ctx context.Context) (err error) {
		is, err = s.RPC.Metadata.Activity(ctx)
		return err
	})
	if err != nil || is.HasActiveWork {
		return err
	}
	c.alone(func() {
		known := c.sessions[s.SessionID]
		switch {
		case known == nil || known.main.turn != turn:
		case known.main.concluded: // its log does not tell that it is over, once the server has ended
			known.from = state.Source{}
			known.main.end()
			known.flush(c.recording())
		default:
			known.gone(c.recording(), "Copilot does not go on with this turn: its server has ended meanwhile. What it had written is in the folder.")
		}
	})
	return nil
}

var errInUse = &agentconn.PublicError{Message: "This session is open in another program, maybe a terminal. To open it a second time would make two of it: close it there, or go on there."}

// readLog reads what a session's log tells after what nod knows of it.
func (c *conn) readLog(ctx context.Context, id string) error {
	s := c.session(id)
	if s == nil {
		return errLost
	}
	cursor, more, most := "", true, pageEvents
	c.alone(func() { cursor = c.sessions[id].cursor() })
	for n := 0; more; n++ {
		read := &rpc.EventLogReadRequest{Max: new(int64(most)), Cursor: state.Optional(cursor)}
		if n == maxPages {
			return errors.New("its log is longer than nod reads")
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
					known.unreadable(c.recording(), e, err)
				} else {
					known.take(c.recording(), e)
				}
			}
			if cursor, more = page.Cursor, page.HasMore; !more {
				known.caughtUp(c.recording())
			}
			return nil
		})
		var long *longAnswer
		if errors.As(err, &long) {
			if most > 1 {
				most /= 10
				continue
			}
			err = c.skipEvent(id, long, &cursor, &more)
			most = pageEvents
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// skipEvent goes on after an event of a log that is longer than nod reads, and says so.
func (c *conn) skipEvent(id string, long *longAnswer, cursor *string, more *bool) error {
	var page struct {
		Cursor  string `json:"cursor"`
		HasMore bool   `json:"hasMore"`
	}
	if err := json.Unmarshal(long.result, &page); err != nil || page.Cursor == "" || page.Cursor == *cursor {
		return errors.Join(long, err)
	}
	*cursor, *more = page.Cursor, page.HasMore
	c.alone(func() {
		known := c.sessions[id]
		known.tellLong(c.recording(), long.outline)
		if !*more {
			known.caughtUp(c.recording())
		}
	})
	return nil
}

// discover looks after what was open on the server when nod heard of it last, and,
// of a terminal, what it has in front.
func (c *conn) discover() {
	for _, st := range c.room.sink.Open(c.ctx, c.room.key) {
		if sessionID(st.Summary.Resource) == strings.TrimPrefix(st.Summary.Resource, state.SessionScheme) { // a sub-agent's comes with it
			c.running.Go(func() { c.regain(st.Summary) })
		}
	}
	if !c.terminal {
		return
	}
	err := c.call(c.ctx, func(ctx context.Context) error {
		id, err := c.client.GetForegroundSessionID(ctx)
		if err == nil && id != nil {
			c.running.Go(func() { c.meet(*id) })
		}
		return err
	})
	if err != nil {
		c.log.Warn("what the terminal has in front is not known", "err", err)
	}
}

// regain goes on with a session in which something was open.
func (c *conn) regain(m *state.SessionSummary) {
	id := sessionID(m.Resource)
	if c.terminal && holder(sessionFolder(id)) == 0 { // another terminal listens there by now
		c.room.sink.Gone(c.ctx, m.Resource, "The terminal was closed while this turn ran.")
		return
	}
	err := c.attach(c.ctx, id, m)
	for errors.Is(err, errSlow) && c.ctx.Err() == nil { // the page says that it does not answer
		err = c.attach(c.ctx, id, m)
	}
	if err == nil || c.ctx.Err() != nil {
		return
	}
	c.room.sink.Gone(c.ctx, m.Resource, "Copilot cannot go on with this session: it says “"+plain.Shorten(saidBy(err), 300)+"”.")
	c.log.Warn("an open session cannot go on", "session", id, "err", err)
}

// meet shows a session that somebody else has opened on the server.
func (c *conn) meet(id string) {
	if !addressable(id) {
		c.log.Warn("a session is not shown: its id can be no address", "session", plain.Shorten(id, 100))
		return
	}
	if err := c.attach(c.ctx, id, nil); err != nil {
		c.log.Debug("a session cannot be joined", "session", id, "err", err)
	}
}

// meetAgain is how long nod waits before it tries again to join a session.
const meetAgain = 10 * time.Second

// lifecycle follows what the server tells of all its sessions. One that others have
// opened is joined when something happens in it.
func (c *conn) lifecycle(raw json.RawMessage) {
	var p struct {
		Type      string `json:"type"`
		SessionID string `json:"sessionId"`
	}
	if !c.greeted || json.Unmarshal(raw, &p) != nil || c.sessions[p.SessionID] != nil {
		return
	}
	switch p.Type {
	case "session.created", "session.updated", "session.foreground":
		if time.Since(c.tried[p.SessionID]) < meetAgain {
			return
		}
		c.tried[p.SessionID] = time.Now()
		c.running.Go(func() { c.meet(p.SessionID) })
	}
}

// readTodos reads what a session has to do, which Copilot keeps in a database.
func (c *conn) readTodos(id string) {
	s := c.session(id)
	if s == nil {
		return
	}
	err := c.callFor(c.ctx, "session.plan.readSqlTodos", id, func(ctx context.Context) error {
		_, err := s.RPC.Plan.ReadSqlTodos(ctx)
		return err
	}, func(raw json.RawMessage) error { return c.planned(id, raw) })
	if err != nil {
		c.log.Info("the todos of a session are not known", "session", id, "err", err)
	}
}

// planned shows the answer to that.
func (c *conn) planned(id string, raw json.RawMessage) error {
	s := c.sessions[id]
	if s == nil {
		return errLost
	}
	s.from = state.Source{}
	err := s.main.planned(raw)
	s.flush(c.recording())
	return err
}

// mark notes the place in a session's log up to which nod knows all, when the session
// rests.
func (c *conn) mark(id string) {
	s := c.session(id)
	if s == nil {
		return
	}
	err := c.callFor(c.ctx, "session.eventLog.tail", id, func(ctx context.Context) error {
		_, err := s.RPC.EventLog.Tail(ctx)
		return err
	}, func(raw json.RawMessage) error {
		var tail struct {
			Cursor string `json:"cursor"`
		}
		err := json.Unmarshal(raw, &tail)
		if known := c.sessions[id]; err == nil && known != nil && known.main.turn == "" {
			known.from = state.Source{}
			known.main.remember(cursorKey, tail.Cursor)
			known.flush(c.recording())
		}
		return err
	})
	if err != nil {
		c.log.Debug("the place in a log is not known", "session", id, "err", err)
	}
}
