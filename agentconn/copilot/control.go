package copilot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	sdk "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

var (
	_ agentconn.Controllable = own{}
	_ agentconn.Controllable = (*remote)(nil)
	_ agentconn.Controller   = (*conn)(nil)
)

const (
	// compactWithin bounds a compaction: a model writes a summary of all that was said.
	compactWithin = 5 * time.Minute
	// maxName is how long a name Copilot takes, in characters.
	maxName = 100
)

// CreateSession starts a session. Unless a person wants it otherwise, it asks before
// everything.
func (c *conn) CreateSession(ctx context.Context, n state.NewSession) (string, error) {
	id := newID()
	err := c.create(ctx, id, n)
	return uriOf(id), publicly(err, "Copilot could not start a session in that folder")
}

// Dispatch implements agentconn.Conn.
func (c *conn) Dispatch(ctx context.Context, st *state.Session, a state.Action) error {
	id := sessionID(st.Summary.Resource)
	switch a := a.(type) {
	case *state.SessionTurnStarted:
		if err := c.attach(ctx, id, st.Summary); err != nil {
			return publicly(err, "Copilot could not go on with this session")
		}
		if err := c.choose(ctx, id, chosen(a.Message), c.inForce(id)); err != nil {
			return err
		}
		err := c.send(ctx, id, sdk.MessageOptions{}, a.Message, func(raw json.RawMessage) error { return c.sent(id, a.Message, raw) })
		return publicly(err, "Copilot did not take the message")
	case *state.SessionTurnCancelled:
		return publicly(c.withSession(ctx, st, c.cancel), "Copilot did not stop")
	case *state.SessionPendingMessageSet:
		if a.Kind == state.PendingQueued {
			return publicly(c.edit(ctx, st, a), "Copilot did not change that message")
		}
		return publicly(c.steer(ctx, st, a), "Copilot did not take it into the turn")
	case *state.SessionPendingMessageRemoved:
		err := c.withSession(ctx, st, func(ctx context.Context, s *sdk.Session) error {
			res, err := s.RPC.Queue.RemoveAt(ctx, &rpc.QueueRemoveAtRequest{ID: a.ID})
			if err == nil && !res.Removed {
				err = &agentconn.PublicError{Message: "Copilot did not remove that message. It may have begun with it."}
			}
			return err
		})
		c.readQueue(id) // what a stop does depends on it
		return publicly(err, "Copilot did not remove that message. It may have begun with it")
	case *state.SessionTitleChanged:
		name := plain.Shorten(a.Title, maxName)
		return c.withSession(ctx, st, func(ctx context.Context, s *sdk.Session) error {
			c.alone(func() { // Copilot tells it, too, and nod has all of it
				if known := c.sessions[s.SessionID]; known != nil {
					known.from = state.Source{}
					known.main.remember(nameKey, state.TitleOf(name))
					known.name = state.TitleOf(name)
					known.flush(c.recording())
				}
			})
			_, err := s.RPC.Name.Set(ctx, &rpc.NameSetRequest{Name: name})
			return err
		})
	case *state.SessionIsArchivedChanged:
		return nil // Copilot has no such thing
	}
	return fmt.Errorf("copilot: cannot dispatch %s", a.Type())
}

// withSession makes a call for a session that this link holds, or comes to hold.
func (c *conn) withSession(ctx context.Context, st *state.Session, f func(context.Context, *sdk.Session) error) error {
	id := sessionID(st.Summary.Resource)
	if err := c.attach(ctx, id, st.Summary); err != nil {
		return err
	}
	s := c.session(id)
	if s == nil {
		return errLost
	}
	return c.call(ctx, func(ctx context.Context) error { return f(ctx, s) })
}

// send sends a message. What becomes of it is known with the answer.
func (c *conn) send(ctx context.Context, id string, o sdk.MessageOptions, m state.Message, taken func(raw json.RawMessage) error) error {
	s := c.session(id)
	if s == nil {
		return errLost
	}
	o.Prompt, o.Attachments = m.Text, carried(m.Attachments)
	return c.callFor(ctx, "session.send", id, func(ctx context.Context) error {
		_, err := s.Send(ctx, o)
		return err
	}, taken)
}

// messageID is that of a message which the server has taken.
func messageID(raw json.RawMessage) (string, error) {
	var res struct {
		MessageID string `json:"messageId"`
	}
	if err := json.Unmarshal(raw, &res); err != nil || res.MessageID == "" {
		return "", fmt.Errorf("copilot: session.send was answered without a message: %w", err)
	}
	return res.MessageID, nil
}

// sent begins the turn of a message that the server has taken.
func (c *conn) sent(id string, m state.Message, raw json.RawMessage) error {
	turn, err := messageID(raw)
	if s := c.sessions[id]; err == nil && s != nil && s.main.turn == "" && !s.past[turn] {
		s.from = state.Source{Epoch: s.id, ID: turn}
		s.main.begin(turn, m.Light())
		s.flush(c.recording())
	}
	return err
}

// carried are the attachments of a message as Copilot takes them.
func carried(list []state.MessageAttachment) (out []sdk.Attachment) {
	for _, a := range list {
		switch a.Type {
		case "resource":
			out = append(out, &sdk.AttachmentFile{DisplayName: a.Label, Path: state.FilePath(state.Value(a.URI))})
		case "embeddedResource":
			out = append(out, &sdk.AttachmentBlob{DisplayName: &a.Label, MIMEType: state.Value(a.ContentType), Data: a.Data})
		}
	}
	return out
}

// cancel stops the turn in progress. To abort drops what others have queued at Copilot,
// which nobody wants who stops a turn: where something waits there, it comes next, and
// so does what was said to the turn and not taken.
func (c *conn) cancel(ctx context.Context, s *sdk.Session) error {
	waits := false
	c.alone(func() {
		if waits = len(c.queue(s.SessionID)) > 0; waits {
			c.handsBack(s.SessionID)
		}
	})
	if !waits {
		return s.Abort(ctx)
	}
	_, err := s.RPC.InterruptMainTurn(ctx, &rpc.InterruptMainTurnRequest{FlushQueued: new(true)})
	return err
}

// steer says something to the turn in progress: something new, or what waits at Copilot
// under that id. It waits in the session's state until Copilot tells that it has taken it.
func (c *conn) steer(ctx context.Context, st *state.Session, a *state.SessionPendingMessageSet) error {
	id := sessionID(st.Summary.Resource)
	waits := false
	said := steering{SessionPendingMessageSet: *a}
	c.alone(func() {
		if waits = slices.ContainsFunc(c.queue(id), func(w state.Waiting) bool { return w.ID == a.ID }); !waits {
			return
		}
		list := c.sessions[id].queue // which has them whole
		if i := slices.IndexFunc(list, func(q queueItem) bool { return q.ID == a.ID }); i >= 0 {
			said.message, said.Message.Text = list[i].MessageID, list[i].Text
		}
	})
	if !waits {
		return c.send(ctx, id, sdk.MessageOptions{Mode: "immediate"}, a.Message, func(raw json.RawMessage) error {
			taken, err := messageID(raw)
			switch known := c.sessions[id]; {
			case err != nil || known == nil || known.past[taken]: // Copilot was faster than its answer
				return err
			case known.main.turn == "": // the turn has ended meanwhile, so it begins one
				return c.sent(id, a.Message, raw)
			}
			said.message = taken
			c.steered(id, said)
			return nil
		})
	}
	s := c.session(id)
	if s == nil {
		return errLost
	}
	return c.callFor(ctx, "session.queue.sendNow", id, func(ctx context.Context) error {
		_, err := s.RPC.Queue.SendNow(ctx, &rpc.QueueSendNowRequest{ID: a.ID})
		return err
	}, func(raw json.RawMessage) error {
		var res struct {
			Steered bool `json:"steered"`
		}
		if err := json.Unmarshal(raw, &res); err != nil || !res.Steered {
			return errors.Join(err, &agentconn.PublicError{Message: "Copilot did not take it into the turn. It still waits there, or has begun."})
		}
		c.steered(id, said)
		return nil
	})
}

// steered shows what is said to the turn in progress. It is kept whole: if Copilot does
// not take it, it may be sent again.
func (c *conn) steered(id string, m steering) {
	s := c.sessions[id]
	if s == nil || s.main.turn == "" {
		return
	}
	s.from = state.Source{}
	s.main.steering = append(s.main.steering, m)
	s.main.apply(s.main.steers(m.ID))
	s.flush(c.recording())
}

// handsBack leaves to Copilot what was said to the turn, so that nod does not say it a
// second time. Call it alone.
func (c *conn) handsBack(id string) {
	s := c.sessions[id]
	if s == nil || len(s.main.steering) == 0 {
		return
	}
	newest := s.main.steering[len(s.main.steering)-1].ID
	s.main.steering = nil
	s.from = state.Source{}
	s.main.apply(s.main.steers(newest))
	s.flush(c.recording())
}

// ---- what waits at Copilot ----
//
// These are messages that other clients have queued there. nod queues none: its own wait
// in its journal.

// queue is what waits of a session. Call it alone.
func (c *conn) queue(id string) []state.Waiting {
	if s := c.sessions[id]; s != nil {
		return state.Waits(s.meta)
	}
	return nil
}

// queueChanged: something else waits at Copilot, but it does not say what.
func (a *agent) queueChanged(context.Context, struct{}) {
	if s := a.session; a == s.main && s.room.queues != nil && !s.catching {
		s.room.queues(s.id)
	}
}

// readQueue reads what waits at Copilot.
func (c *conn) readQueue(id string) {
	s := c.session(id)
	if s == nil {
		return
	}
	err := c.reads(c.ctx, "session.queue.pendingItems", s, func(ctx context.Context) error {
		_, err := s.RPC.Queue.PendingItems(ctx)
		return err
	}, (*agent).queued)
	if err != nil {
		c.log.Debug("what waits at Copilot is not known", "session", id, "err", err)
	}
}

// maxQueue is how much of a queue is shown.
const maxQueue = 20

// edit gives what waits at Copilot another text.
func (c *conn) edit(ctx context.Context, st *state.Session, a *state.SessionPendingMessageSet) error {
	id := sessionID(st.Summary.Resource)
	if !slices.ContainsFunc(state.Waits(st.Meta), func(w state.Waiting) bool { return w.ID == a.ID && w.Editable }) {
		return &agentconn.PublicError{Message: "That message cannot be edited here. It stays as it was."}
	}
	err := c.withSession(ctx, st, func(ctx context.Context, s *sdk.Session) error {
		res, err := s.RPC.Queue.UpdateText(ctx, &rpc.QueueUpdateTextRequest{ID: a.ID, Prompt: a.Message.Text})
		if err == nil && !res.Updated {
			err = &agentconn.PublicError{Message: "Copilot did not change that message. It may have begun with it, or it has that text already."}
		}
		return err
	})
	c.readQueue(id) // it may have begun
	return err
}

// queueItem is what waits at Copilot: a message, or a command.
type queueItem struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	MessageID string `json:"messageId"`
	Text      string `json:"displayText"`
}

// queued shows what waits at Copilot. A message that has just been sent is there too,
// until its turn begins.
func (a *agent) queued(raw json.RawMessage) error {
	var p struct {
		Items []queueItem `json:"items"`
	}
	err := json.Unmarshal(raw, &p)
	a.session.queue = p.Items
	list := []state.Waiting{}
	for _, i := range p.Items {
		if i.ID != "" && i.MessageID != a.turn && len(list) < maxQueue && a.turn != "" {
			text := plain.Shorten(i.Text, plain.MaxNote)
			list = append(list, state.Waiting{ID: i.ID, Text: text, Editable: i.Kind == "message" && text == i.Text})
		}
	}
	if len(list) > 0 || len(state.Waits(a.session.meta)) > 0 {
		a.remember(state.MetaQueue, list)
	}
	return err
}

// ---- operations ----

// Names of the operations.
const (
	opFork    = "fork"
	opCompact = "compact"
	opDelete  = "delete"
)

// offers returns what a server can do. A terminal that joins a session which nod holds
// would make a second one of it, so there is no command for that.
func offers() state.Offers {
	return state.Offers{Steers: true, Attaches: true, Operations: []state.Operation{
		{Name: opFork, Title: "Fork", Description: "A new session that begins with what was said here. This one stays as it is, and both work in the same folder."},
		{Name: opCompact, Title: "Compact", Description: "Copilot puts a summary in the place of what it remembers of this session, so that more fits. What you see here stays. A model writes the summary, which takes its time."},
		{Name: opDelete, Title: "Delete at Copilot", Description: "Copilot forgets this session, and nobody can go on with it any more. What nod has of it stays until you delete it here, too. This cannot be undone."},
	}}
}

// Operate implements agentconn.Controller.
func (c *conn) Operate(ctx context.Context, st *state.Session, operation string, _ map[string]string) (string, error) {
	id := sessionID(st.Summary.Resource)
	switch operation {
	case opFork:
		uri, err := c.fork(ctx, st)
		return uri, publicly(err, "Copilot could not fork this session")
	case opCompact:
		return "", publicly(c.compact(ctx, st), "Copilot did not compact this session")
	case opDelete:
		err := c.call(ctx, func(ctx context.Context) error { return c.client.DeleteSession(ctx, id) })
		if err == nil {
			c.leave(id)
		}
		return "", publicly(err, "Copilot did not delete this session")
	}
	return "", fmt.Errorf("copilot: no operation %q", operation)
}

// fork makes a session that begins as another did, and joins it.
func (c *conn) fork(ctx context.Context, st *state.Session) (uri string, err error) {
	const end = " (fork)"
	name := plain.Shorten(st.Summary.Title, min(state.MaxTitle, maxName-len(end))) + end
	var fork *rpc.SessionsForkResult
	err = c.call(ctx, func(ctx context.Context) (err error) {
		fork, err = c.client.RPC.Sessions.Fork(ctx, &rpc.SessionsForkRequest{SessionID: sessionID(st.Summary.Resource), Name: &name})
		return err
	})
	if err != nil {
		return "", err
	}
	if !addressable(fork.SessionID) {
		return "", errors.New("copilot: sessions.fork was answered without a session")
	}
	return uriOf(fork.SessionID), c.attach(ctx, fork.SessionID, nil)
}

func (c *conn) compact(ctx context.Context, st *state.Session) error {
	id := sessionID(st.Summary.Resource)
	if err := c.attach(ctx, id, st.Summary); err != nil {
		return err
	}
	s := c.session(id)
	if s == nil {
		return errLost
	}
	return c.callWithin(ctx, compactWithin, func(ctx context.Context) error {
		res, err := s.RPC.History.Compact(ctx)
		if err == nil && !res.Success {
			err = &agentconn.PublicError{Message: "Copilot did not compact this session. There may be too little in it yet."}
		}
		return err
	})
}

// ---- older sessions ----

// errOwnDisk: nod does not know where another server keeps its sessions.
var errOwnDisk = &agentconn.PublicError{Message: "nod lists older sessions of its own Copilot only. A session of this server shows here when somebody goes on with it."}

// Older implements agentconn.Controller.
func (c *conn) Older(_ context.Context, search, cursor string) (state.OlderPage, error) {
	if c.room.provider != Provider {
		return state.OlderPage{}, errOwnDisk
	}
	return c.cfg.older(search, cursor)
}

// Recall implements agentconn.Controller.
func (c *conn) Recall(ctx context.Context, uri string) error {
	switch id := sessionID(uri); {
	case c.room.provider != Provider:
		return errOwnDisk
	case c.session(id) != nil:
		return nil // it is live here, and nod knows better
	default:
		// Read apart from the sessions that are heard.
		r := room{sink: c.room.sink, key: c.room.key, provider: Provider, epoch: c.room.epoch, log: c.log}
		return publicly(r.recallFromDisk(ctx, id), "Copilot's files of that session cannot be read")
	}
}
