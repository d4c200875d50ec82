package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"nod/state"
	"nod/state/approvals"
)

// ErrNoMessage: a queued message that was sent or removed meanwhile.
var ErrNoMessage = errors.New("hub: no such queued message")

// triedKey marks, in a queued message's _meta, one that nod has tried to send: its
// value is a sentence about what went wrong, "" while that is not known.
const triedKey = "nod.tried"

// Steer says something to the turn in progress.
func (h *Hub) Steer(ctx context.Context, id string, m state.Message) error {
	s, st, err := h.atWork(id)
	if err != nil {
		return err
	}
	a := &state.SessionPendingMessageSet{Kind: state.PendingSteering, ID: rand.Text(), Message: m}
	return h.up.Dispatch(context.WithoutCancel(ctx), s.liveOn(), st, a)
}

// atWork returns a session in which a turn is in progress, and its state.
func (h *Hub) atWork(id string) (*session, *state.Session, error) {
	s, err := h.find(id)
	if err != nil {
		return nil, nil, err
	}
	if s.parent != nil {
		return nil, nil, ErrSubagent
	}
	st, err := s.current()
	if err == nil && st.ActiveTurn == nil {
		err = ErrNoTurn
	}
	return s, st, err
}

// Queue keeps a message until the turn in progress has completed. Where none is
// in progress any more, and it has completed, the message is sent at once.
func (h *Hub) Queue(ctx context.Context, id string, m state.Message) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	if s.parent != nil {
		return ErrSubagent
	}
	err = s.say(ctx, &state.SessionPendingMessageSet{Kind: state.PendingQueued, ID: rand.Text(), Message: m})
	if err == nil && s.lock() == nil {
		s.deliverNext()
		s.mu.Unlock()
	}
	return err
}

// Requeue gives a queued message another text. It stays where it is in the queue. What
// waits at the agent is the agent's to change.
func (h *Hub) Requeue(ctx context.Context, id, message, text string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	st, err := s.current()
	if err != nil {
		return err
	}
	if waitsThere(st, message) {
		a := &state.SessionPendingMessageSet{Kind: state.PendingQueued, ID: message, Message: state.UserMessage(text)}
		return h.up.Dispatch(context.WithoutCancel(ctx), s.liveOn(), st, a)
	}
	_, m, err := s.waiting(message)
	if err != nil {
		return err
	}
	m.Text = text
	return s.say(ctx, &state.SessionPendingMessageSet{Kind: state.PendingQueued, ID: message, Message: m})
}

// Unqueue forgets a queued message. One that is being sent is there again if that
// fails, so Unqueue waits for what comes of it. What waits at the agent is the agent's
// to forget.
func (h *Hub) Unqueue(ctx context.Context, id, message string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	st, err := s.current()
	if err != nil {
		return err
	}
	a := &state.SessionPendingMessageRemoved{Kind: state.PendingQueued, ID: message}
	if waitsThere(st, message) {
		return h.up.Dispatch(context.WithoutCancel(ctx), s.liveOn(), st, a)
	}
	return s.say(ctx, a)
}

// waitsThere reports whether a message waits at the session's agent.
func waitsThere(st *state.Session, message string) bool {
	return slices.ContainsFunc(state.Waits(st.Meta), func(w state.Waiting) bool { return w.ID == message })
}

// SendQueued sends a queued message now, because a person says so.
func (h *Hub) SendQueued(ctx context.Context, id, message string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	return s.deliver(context.WithoutCancel(ctx), message, true)
}

// SteerQueued says a queued message to the turn in progress, or has the agent do that
// with one that waits there.
func (h *Hub) SteerQueued(ctx context.Context, id, message string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	s.sending.Lock()
	defer s.sending.Unlock()
	st, err := s.current()
	if err != nil {
		return err
	}
	if st.ActiveTurn == nil {
		return ErrNoTurn
	}
	if i := slices.IndexFunc(state.Waits(st.Meta), func(w state.Waiting) bool { return w.ID == message }); i >= 0 {
		a := &state.SessionPendingMessageSet{Kind: state.PendingSteering, ID: message, Message: state.UserMessage(state.Waits(st.Meta)[i].Text)}
		return h.up.Dispatch(ctx, s.liveOn(), st, a)
	}
	_, m, err := s.waiting(message)
	if err != nil {
		return err
	}
	return s.handOver(ctx, st, message, m, func(m state.Message) state.Action {
		return &state.SessionPendingMessageSet{Kind: state.PendingSteering, ID: rand.Text(), Message: m}
	})
}

// deliverNext sends the first queued message if the last turn has completed. After
// any other end, and after one that was tried, a person decides. Call with mu held.
func (s *session) deliverNext() {
	q := s.state.QueuedMessages
	if len(q) == 0 || s.state.ActiveTurn != nil || lastTurn(s.state) != state.TurnComplete {
		return
	}
	s.hub.delivering.Go(func() {
		err := s.deliver(context.Background(), q[0].ID, false)
		if err != nil && !errors.Is(err, ErrNoMessage) && !errors.Is(err, ErrTurnOpen) { // else somebody was faster
			s.hub.log.Warn("a queued message was not sent", "session", s.uri, "err", err)
		}
	})
}

func tried(m state.Message) bool {
	_, is := m.Meta[triedKey]
	return is
}

// deliver sends a queued message.
func (s *session) deliver(ctx context.Context, message string, again bool) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	st, m, err := s.waiting(message)
	if err != nil {
		return err
	}
	if tried(m) && !again {
		return ErrNoMessage
	}
	if st.ActiveTurn != nil || !again && lastTurn(st) != state.TurnComplete { // another turn has come in between
		return ErrTurnOpen
	}
	return s.handOver(ctx, st, message, m, func(m state.Message) state.Action {
		return &state.SessionTurnStarted{Message: m, QueuedMessageID: &message}
	})
}

// waiting returns a queued message, and the state that it is in.
func (s *session) waiting(message string) (*state.Session, state.Message, error) {
	st, err := s.current()
	if err != nil {
		return nil, state.Message{}, err
	}
	for _, p := range st.QueuedMessages {
		if p.ID == message {
			return st, p.Message, nil
		}
	}
	return nil, state.Message{}, ErrNoMessage
}

// handOver has the agent take a queued message, and forgets it. It is marked first, so
// that after a crash in between a person is asked and nothing is sent twice. Call it
// with sending held.
func (s *session) handOver(ctx context.Context, st *state.Session, message string, m state.Message, action func(state.Message) state.Action) error {
	m.Meta = maps.Clone(m.Meta)
	delete(m.Meta, triedKey)
	mark := func(sentence string) error {
		marked := m
		marked.Meta = state.Meta{}
		maps.Copy(marked.Meta, m.Meta)
		marked.Meta[triedKey], _ = json.Marshal(sentence) // a string always encodes
		return s.say(ctx, &state.SessionPendingMessageSet{Kind: state.PendingQueued, ID: message, Message: marked})
	}
	if err := mark(""); err != nil {
		return err
	}
	err := s.hub.up.Dispatch(ctx, s.liveOn(), st, action(m))
	if err != nil {
		sentence := "The log says why."
		var p interface{ Public() string }
		if errors.As(err, &p) {
			sentence = p.Public()
		}
		return errors.Join(err, mark(sentence))
	}
	return s.say(ctx, &state.SessionPendingMessageRemoved{Kind: state.PendingQueued, ID: message})
}

// say records what a person, or nod for them, has done with a session.
func (s *session) say(ctx context.Context, a state.Action) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	return s.hub.notRecorded(s.commit(ctx, state.Source{}, []state.Envelope{{Channel: s.uri, Action: a}}, nil))
}

// Rename gives a session another title. The agent is told where it can be.
func (h *Hub) Rename(ctx context.Context, id, title string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	a := &state.SessionTitleChanged{Title: title}
	if err := s.say(ctx, a); err != nil {
		return err
	}
	h.tell(ctx, s, a)
	return nil
}

// Archive puts a session away, or brings it back. The agent is told where it can be.
func (h *Hub) Archive(ctx context.Context, id string, archived bool) error {
	if err := h.archive(ctx, id, archived); err != nil {
		return err
	}
	if s, err := h.find(id); err == nil {
		h.tell(ctx, s, &state.SessionIsArchivedChanged{IsArchived: archived})
	}
	return nil
}

// tell passes on what a person has done. It is done here, whatever comes of it.
func (h *Hub) tell(ctx context.Context, s *session, a state.Action) {
	st, err := s.current()
	if err == nil {
		err = h.up.Dispatch(context.WithoutCancel(ctx), s.liveOn(), st, a)
	}
	if err != nil {
		h.log.Info("the agent was not told", "session", s.uri, "action", a.Type(), "err", err)
	}
}

// Operate carries out an operation that the session's link offers. It returns the
// id of the session to look at.
func (h *Hub) Operate(ctx context.Context, id, operation string, args map[string]string) (string, error) {
	s, err := h.find(id)
	if err != nil {
		return "", err
	}
	if s.parent != nil {
		return "", ErrSubagent
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	st, err := s.current()
	if err != nil {
		return "", err
	}
	if st.ActiveTurn != nil {
		return "", ErrTurnOpen
	}
	uri, err := h.up.Operate(context.WithoutCancel(ctx), s.liveOn(), st, operation, args)
	return cmp.Or(strings.TrimPrefix(uri, uriScheme), id), err
}

// StopAll asks the agent to end the turn in progress, and forgets what is queued, here
// and there, and what the agent has not taken yet.
func (h *Hub) StopAll(ctx context.Context, id string) error {
	if err := h.emptyQueue(context.WithoutCancel(ctx), id); err != nil {
		return err
	}
	return h.Stop(ctx, id)
}

// emptyQueue is done before the turn ends, so that nothing of it is sent then.
func (h *Hub) emptyQueue(ctx context.Context, id string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	st, err := s.current()
	if err != nil {
		return err
	}
	tried := map[string]bool{}
	for more := true; more; { // the agent shows the begin of a long queue
		more = false
		for _, w := range state.Waits(st.Meta) {
			if tried[w.ID] {
				continue
			}
			tried[w.ID], more = true, true
			err := h.up.Dispatch(ctx, s.liveOn(), st, &state.SessionPendingMessageRemoved{Kind: state.PendingQueued, ID: w.ID})
			if err != nil { // it may have been taken a moment ago, which does not keep the rest from being stopped
				h.log.Warn("a message still waits at the agent", "session", s.uri, "err", err)
			}
		}
		if st, err = s.current(); err != nil {
			return err
		}
	}
	for _, m := range st.QueuedMessages {
		err = errors.Join(err, s.say(ctx, &state.SessionPendingMessageRemoved{Kind: state.PendingQueued, ID: m.ID}))
	}
	if m := st.SteeringMessage; m != nil {
		err = errors.Join(err, s.say(ctx, &state.SessionPendingMessageRemoved{Kind: state.PendingSteering, ID: m.ID}))
	}
	return err
}

// withEnd adds to actions that end the turn in progress what goes with its end: a
// line about what was stopped, and where a message goes that the agent has not
// taken. Call with mu held.
func (s *session) withEnd(actions []state.Envelope) []state.Envelope {
	t := s.state.ActiveTurn
	if t == nil {
		return actions
	}
	for i, e := range actions {
		var before, after []state.Envelope
		add := func(list *[]state.Envelope, a state.Action) {
			*list = append(*list, state.Envelope{Channel: s.uri, Action: a})
		}
		kept := false
		switch a := e.Action.(type) {
		case *state.SessionTurnCancelled:
			if kept = a.TurnID == t.ID; !kept {
				continue
			}
			if words := s.stopped(t); words != "" {
				add(&before, &state.SessionResponsePart{TurnID: t.ID, Part: &state.NotificationPart{Content: state.Plain(words)}})
			}
		case *state.SessionError:
			if kept = a.TurnID == t.ID; !kept {
				continue
			}
		case *state.SessionTurnComplete:
			if a.TurnID != t.ID {
				continue
			}
		default:
			continue
		}
		if m := s.state.SteeringMessage; m != nil {
			add(&after, &state.SessionPendingMessageRemoved{Kind: state.PendingSteering, ID: m.ID})
			if kept { // it waits for a person
				add(&after, &state.SessionPendingMessageSet{Kind: state.PendingQueued, ID: m.ID, Message: m.Message})
			}
		}
		return slices.Concat(actions[:i], before, actions[i:i+1], after, actions[i+1:])
	}
	return actions
}

// stopped says what ends with a turn that is stopped, "" if nothing was under way.
func (s *session) stopped(t *state.ActiveTurn) string {
	var words []string
	for _, p := range t.ResponseParts.All() {
		c, ok := p.(*state.ToolCallPart)
		if !ok || c.ToolCall.Status != state.ToolRunning {
			continue
		}
		call := &c.ToolCall
		what := call.DisplayName
		if call.InvocationMessage != nil && call.InvocationMessage.Text != "" {
			what = call.InvocationMessage.Text
		}
		what = "“" + state.TitleOf(what) + "”"
		if began := s.began(call); began > 0 {
			what += fmt.Sprintf(" (for %v)", (time.Duration(s.hub.now()-began) * time.Millisecond).Round(time.Second))
		}
		words = append(words, what)
	}
	const most = 5
	if n := len(words); n > most {
		words = append(words[:most], fmt.Sprintf("%d more", n-most))
	}
	withdrawn, wait := 0, len(s.state.QueuedMessages)
	for _, a := range s.approvals {
		if a.State == approvals.Pending {
			withdrawn++
		}
	}
	if s.state.SteeringMessage != nil {
		wait++
	}
	if len(words)+withdrawn+wait == 0 {
		return ""
	}
	out := "Stopped."
	if len(words) > 0 {
		out = "Stopped while this ran: " + strings.Join(words, ", ") + "."
	}
	if withdrawn > 0 {
		out += " " + plural(withdrawn, "request was", "requests were") + " withdrawn."
	}
	if wait > 0 {
		out += " " + plural(wait, "message waits", "messages wait") + " below."
	}
	return out
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// began is when the command of a call began, in Unix milliseconds; 0 if that is
// not known.
func (s *session) began(call *state.ToolCall) int64 {
	for _, c := range call.Content {
		if c.Type != state.ContentTerminal {
			continue
		}
		if t := s.terminals.Get(state.Value(c.Resource)); t != nil {
			if cmd := t.Command(); cmd != nil {
				return cmd.Timestamp
			}
		}
	}
	return 0
}
