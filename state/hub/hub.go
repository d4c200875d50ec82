// Package hub holds the live truth: every session's state, the requests that
// wait for a person, and the links to agents.
//
// An agent's event goes sequence number, journal, reduce, wake. Nothing is shown
// before it is on disk, except growing text. A person's decision goes through
// Decide, the one door: recorded first, then sent.
//
// A viewer is a cursor. Every part that a page can show knows the number at
// which it last changed, so the first load, falling behind and reconnecting are
// one question: what changed since?
package hub

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"nod/state"
	"nod/state/approvals"
	"nod/state/crashpoint"
	"nod/state/journal"
	"nod/state/snapshot"
)

// Upstream reaches the agents. Its errors are for the log unless they say
// otherwise by their type.
type Upstream interface {
	// CreateSession starts a session, has Begin make it known, and returns its URI.
	CreateSession(ctx context.Context, n state.NewSession) (uri string, err error)
	// Dispatch carries out a client-dispatchable action on a session that is live,
	// or was, on the link of that key.
	Dispatch(ctx context.Context, link string, s *state.Session, a state.Action) error
	// Operate carries out an operation that the link offers. Its result is the URI
	// of the session to look at, "" for the same.
	Operate(ctx context.Context, link string, s *state.Session, operation string, args map[string]string) (uri string, err error)
	// Answer sends a decision. It returns once the bytes are written;
	// state.ErrReasonLost says that they were, without the reason.
	Answer(ctx context.Context, r state.Request, d state.Decision) error
}

// Errors of the verbs.
var (
	ErrNoSession  = errors.New("hub: no such session")
	ErrNoApproval = errors.New("hub: no such request")
	ErrTurnOpen   = errors.New("hub: a turn is in progress")
	ErrNoTurn     = errors.New("hub: no turn is in progress")
	ErrSubagent   = errors.New("hub: a sub-agent goes with the session that started it")
	ErrDeleted    = errors.New("hub: a person has deleted the session")
	// ErrLinkDown: the agent cannot be told now, so nothing was approved.
	ErrLinkDown = errors.New("hub: the link to the agent is down")
	// ErrNotRecorded: the journal refused, so nothing was done.
	ErrNotRecorded = errors.New("hub: the journal cannot be written")
)

var (
	errNoState = errors.New("hub: a snapshot without the session's state")
	errDamaged = errors.New("hub: the session cannot be read, so nothing is added to it")
)

// uriScheme begins the URI of every session that nod creates.
const uriScheme = state.SessionScheme

// Hub is the owner of all sessions. Use New.
type Hub struct {
	Epoch string // random per process: a cursor of another epoch means nothing here

	store journal.Store
	log   *slog.Logger
	up    Upstream

	mu       sync.Mutex
	sessions map[string]*session // by id
	order    []*session          // oldest first
	asked    map[string]*session // by approval id
	removed  map[string]bool     // ids of sessions that a person has deleted
	links    []state.Link        // in the order of the adapters
	rev      uint64              // counts changes of what the inbox shows
	trouble  string              // a sentence while the journal cannot be written
	tampered string              // a sentence if the audit is not as it was written
	notices  []snapshot.Notice   // the newest last
	watchers map[chan struct{}]struct{}
	untidy   []*session // for the keeper

	beginning singleflight.Group // of sessions, by id

	wall               func() int64   // Unix milliseconds; tests put another clock in its place
	stop, stopped      chan struct{}  // of the keeper
	delivering         sync.WaitGroup // of queued messages
	untidied, troubled chan struct{}  // wake the keeper; each holds one
}

func newHub(store journal.Store, log *slog.Logger) *Hub {
	return &Hub{
		Epoch: strings.ToLower(rand.Text()[:10]), store: store, log: log, wall: func() int64 { return time.Now().UnixMilli() },
		sessions: map[string]*session{}, asked: map[string]*session{}, removed: map[string]bool{}, watchers: map[chan struct{}]struct{}{},
		stop: make(chan struct{}), stopped: make(chan struct{}), untidied: make(chan struct{}, 1), troubled: make(chan struct{}, 1),
	}
}

// SetUpstream says how agents are reached, and which links there are. It must be
// called once, before anything else. Sessions that were live on a link that is
// not there any more are closed.
func (h *Hub) SetUpstream(up Upstream, links []state.Link) {
	h.up, h.links = up, links
	for _, s := range h.all() {
		if key := s.liveOn(); key != "" && !slices.ContainsFunc(links, func(l state.Link) bool { return l.Key == key }) {
			s.gone(context.Background(), "The agent that this session ran on is not configured any more.")
		}
	}
}

// now is the wall clock in Unix milliseconds. It labels things and orders none.
func (h *Hub) now() int64 { return h.wall() }

func (h *Hub) add(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[s.id] != nil { // two calls named one sub-agent at once
		return
	}
	h.sessions[s.id] = s
	delete(h.removed, s.id) // a sub-agent of one that was brought back
	h.order = append(h.order, s)
	if s.parent != nil {
		s.parent.children = append(s.parent.children, s)
	}
	h.changed()
}

// all returns the sessions, oldest first.
func (h *Hub) all() []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.order)
}

// noteAsked remembers whose approvals these are.
func (h *Hub) noteAsked(s *session, list []*approvals.Approval) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range list {
		h.asked[a.ID] = s
	}
}

// newChild reports whether an agent may begin a session of that URI: nod's own
// URIs are known to be good in an address, and nobody may take over another's.
func (h *Hub) newChild(uri string) bool {
	if !goodURI(uri) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[strings.TrimPrefix(uri, uriScheme)] == nil
}

// goodURI reports whether a URI is of the form that nod gives its sessions, which
// is safe in an address of a page.
func goodURI(uri string) bool {
	id, ok := strings.CutPrefix(uri, uriScheme)
	return ok && id != "" && len(id) <= 100 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// changed must be called with h.mu held.
func (h *Hub) changed() {
	h.rev++
	wake(h.watchers)
}

func (h *Hub) touchInbox() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed()
}

func wake(watchers map[chan struct{}]struct{}) {
	for c := range watchers {
		poke(c)
	}
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // already told
	}
}

func (h *Hub) find(id string) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[id]; s != nil {
		return s, nil
	}
	return nil, ErrNoSession
}

// findURI returns a session with its lock held, or nil: then nobody here knows it.
func (h *Hub) findURI(uri string) *session {
	s, err := h.find(strings.TrimPrefix(uri, uriScheme))
	if err == nil {
		err = s.lock()
	}
	if err != nil {
		h.log.Warn("an agent speaks of a session that is not here", "session", uri, "err", err)
		return nil
	}
	return s
}

// whoAsked returns the session that an approval belongs to, loaded or not.
func (h *Hub) whoAsked(ctx context.Context, approvalID string) (*session, error) {
	h.mu.Lock()
	s := h.asked[approvalID]
	h.mu.Unlock()
	if s != nil {
		return s, nil
	}
	a, err := h.store.Approval(ctx, approvalID)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, ErrNoApproval
	} else if err != nil {
		return nil, err
	}
	if s, err = h.find(strings.TrimPrefix(a.Session, uriScheme)); err != nil {
		return nil, ErrNoApproval
	}
	return s, nil
}

// ---- what people do ----

// Create starts a session and sends the first message. When the session exists
// but the message could not be sent, both results are set.
func (h *Hub) Create(ctx context.Context, n state.NewSession, prompt string) (id string, err error) {
	uri, err := h.up.CreateSession(ctx, n)
	if err != nil {
		return "", err
	}
	ctx = context.WithoutCancel(ctx) // the agent has it now, whether or not the browser waits
	id = strings.TrimPrefix(uri, uriScheme)
	h.Apply(ctx, uri, state.Source{}, state.Envelope{Channel: uri, Action: &state.SessionTitleChanged{Title: state.TitleOf(prompt)}})
	return id, h.Send(ctx, id, state.UserMessage(prompt))
}

// Send starts a turn with a person's message. Of two that are sent at once, one
// starts a turn: it has begun when Dispatch returns.
func (h *Hub) Send(ctx context.Context, id string, m state.Message) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	if s.parent != nil {
		return ErrSubagent
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	st, err := s.current()
	if err != nil {
		return err
	}
	if st.ActiveTurn != nil {
		return ErrTurnOpen
	}
	// A browser that leaves now has still sent its message.
	return h.up.Dispatch(context.WithoutCancel(ctx), s.liveOn(), st, &state.SessionTurnStarted{Message: m})
}

// Stop asks the agent to end the turn in progress.
func (h *Hub) Stop(ctx context.Context, id string) error {
	s, err := h.find(id)
	if err != nil {
		return err
	}
	st, err := s.current()
	if err != nil {
		return err
	}
	if st.ActiveTurn == nil {
		return ErrNoTurn
	}
	return h.up.Dispatch(context.WithoutCancel(ctx), s.liveOn(), st, &state.SessionTurnCancelled{TurnID: st.ActiveTurn.ID})
}

// Decide records a person's decision and sends it: the one door through which an
// answer reaches an agent. It returns the approval as it is afterwards. While the
// link is down a denial is recorded, and sent when the agent asks the same again.
// The errors are those of approvals.Decide, ErrNoApproval, ErrLinkDown, or the
// journal's, with each of which nothing was sent; state.ErrReasonLost, with which
// all but the reason was; or state.ErrAnsweredElsewhere, with which it came too late.
func (h *Hub) Decide(ctx context.Context, actor, approvalID, digest, nonce string, d state.Decision) (*approvals.Approval, error) {
	// Once recorded, a decision is sent even if the browser goes away.
	ctx = context.WithoutCancel(ctx)
	s, err := h.whoAsked(ctx, approvalID)
	if err != nil {
		return nil, err
	}
	if a, down, err := s.linkDown(approvalID); err != nil {
		return nil, err
	} else if down && a.State == approvals.Pending && !a.Denies(d) {
		return a, ErrLinkDown
	}
	decided, err := s.decide(ctx, actor, approvalID, digest, nonce, d)
	if err != nil || decided.State != approvals.Decided {
		return decided, err
	}
	// Asked once more: a link that comes back now hears of it from whoever is last.
	if _, down, err := s.linkDown(approvalID); err != nil || down && decided.Held() {
		return decided, err
	}
	return h.send(ctx, s, decided)
}

// send brings a decision to the agent, once.
func (h *Hub) send(ctx context.Context, s *session, decided *approvals.Approval) (*approvals.Approval, error) {
	// Sent is on disk before the bytes leave: after a crash in between the
	// decision is reported as unknown, never sent twice. Where the disk refuses,
	// the decision stays recorded, and the same answer again tries again.
	sent, err := s.step(ctx, decided.ID, approvals.Decided, approvals.MarkSent)
	switch {
	case errors.Is(err, approvals.ErrNotPending) && sent != nil && sent.State == approvals.AnsweredElsewhere:
		return sent, state.ErrAnsweredElsewhere
	case errors.Is(err, approvals.ErrNotPending) && sent != nil: // the same answer, sent by another request
		return sent, nil
	case err != nil:
		h.noteJournal(err)
		return decided, err
	}
	crashpoint.At(crashpoint.BeforeWrite)
	err = h.up.Answer(ctx, sent.Request, *decided.Decision) // sent holds no secrets
	crashpoint.At(crashpoint.AfterWrite)
	switch {
	case errors.Is(err, state.ErrReasonLost):
		return sent, err
	case errors.Is(err, state.ErrAnsweredElsewhere):
		r := sent.Request
		h.Resolved(ctx, s.uri, r.Epoch, r.UpstreamID, state.EndedElsewhere)
		return approvals.Resolve(sent, state.EndedElsewhere, h.now()), err
	case err != nil:
		h.log.Error("a decision could not be delivered", "approval", sent.ID, "err", err)
		waits := errors.Is(err, state.ErrStillWaits)
		swept, err := s.step(ctx, sent.ID, approvals.Sent, func(a *approvals.Approval) *approvals.Approval { return approvals.Sweep(a, h.now()) })
		switch {
		case errors.Is(err, approvals.ErrNotPending): // it has ended meanwhile; some of it may have been sent
			err = nil
		case err == nil && waits: // a person is asked again
			h.Ask(ctx, sent.Request)
		}
		return swept, err
	}
	return sent, nil
}

// sendHeld tells the agent of a denial that it has not heard, now that it asks.
// Who calls it may be the one who reads what the agent says, and holds the session.
func (h *Hub) sendHeld(s *session, a *approvals.Approval) {
	if !a.Held() {
		return
	}
	h.delivering.Go(func() {
		if _, err := h.send(context.Background(), s, a); err != nil {
			h.log.Warn("a denial of before did not reach the agent", "approval", a.ID, "err", err)
		}
	})
}

// ---- what agents say: agentconn.Sink ----

// Begin makes a session known that is live on a link, and returns its state. A
// session that is known keeps what it has.
func (h *Hub) Begin(ctx context.Context, link string, m *state.SessionSummary, config *state.SessionConfigState, actions ...state.Action) (*state.Session, error) {
	if !goodURI(m.Resource) {
		return nil, fmt.Errorf("hub: no name for a session: %q", m.Resource)
	}
	id := strings.TrimPrefix(m.Resource, uriScheme)
	known, err, _ := h.beginning.Do(id, func() (any, error) {
		h.mu.Lock()
		s, removed := h.sessions[id], h.removed[id]
		h.mu.Unlock()
		switch {
		case s != nil:
			return s, nil
		case removed:
			return nil, ErrDeleted
		}
		return h.begin(ctx, m, config, actions)
	})
	if err != nil {
		return nil, err
	}
	s := known.(*session)
	st, err := s.current()
	if err == nil {
		s.liveOnLink(link, h.lasting(link))
	}
	return st, err
}

// begin records a new session.
func (h *Hub) begin(ctx context.Context, m *state.SessionSummary, config *state.SessionConfigState, actions []state.Action) (*session, error) {
	ctx = context.WithoutCancel(ctx) // the agent has it, whether or not the link is being ended
	at := h.now()
	summary := *m
	summary.CreatedAt, summary.ModifiedAt = cmp.Or(m.CreatedAt, at), cmp.Or(m.ModifiedAt, at)
	s := newSession(h, m.Resource, nil)
	s.state = &state.Session{Summary: &summary, Lifecycle: state.LifecycleCreating, Turns: []*state.Turn{}, Config: config}
	s.loaded, s.lastEvent = true, summary.ModifiedAt
	first, err := s.begins(s.lastEvent)
	if err != nil {
		return nil, err
	}
	if err := h.store.Append(ctx, first); err != nil {
		return nil, h.notRecorded(err)
	}
	envelopes := make([]state.Envelope, len(actions))
	for i, a := range actions {
		envelopes[i] = state.Envelope{Channel: m.Resource, Action: a}
	}
	s.mu.Lock()
	err = s.commit(ctx, state.Source{}, envelopes, nil)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	h.add(s)
	return h.find(s.id) // whoever was first
}

// Open returns the states of the sessions live on a link in which something is
// open.
func (h *Hub) Open(_ context.Context, link string) (out []*state.Session) {
	for _, s := range h.all() {
		s.mu.Lock()
		open := s.open && s.isOn(link)
		s.mu.Unlock()
		if !open {
			continue
		}
		if st, err := s.current(); err == nil {
			out = append(out, st)
		}
	}
	return out
}

// Gone ends what is open in a session that its agent does not have any more.
func (h *Hub) Gone(ctx context.Context, uri, sentence string) {
	if s, err := h.find(strings.TrimPrefix(uri, uriScheme)); err == nil {
		s.gone(ctx, sentence)
	}
}

// Apply records and reduces actions of one upstream event. An event whose source
// the session has had changes nothing.
func (h *Hub) Apply(ctx context.Context, uri string, from state.Source, actions ...state.Envelope) {
	if s := h.findURI(uri); s != nil {
		defer s.mu.Unlock()
		s.mustCommit(ctx, from, actions, nil)
	}
}

// Ask records a request that waits for a person. A request that is open already
// is not asked again; under the same id with other content it is another one, and
// takes the place of the first. One that was denied while the link was down is not put before
// a person once more: the denial is sent.
func (h *Hub) Ask(ctx context.Context, r state.Request, actions ...state.Envelope) {
	s := h.findURI(r.Session)
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	r.Folder = state.FilePath(state.Value(s.state.Summary.WorkingDirectory))
	a := approvals.New(r, h.now())
	if i := slices.IndexFunc(s.approvals, func(a *approvals.Approval) bool { return a.Open() && a.Request.SameAs(r) }); i >= 0 {
		if was := s.approvals[i]; approvals.Digest(was.Request) != a.Digest {
			s.mustCommit(ctx, state.Source{}, actions, []change{{from: was, to: approvals.Sweep(was, h.now())}, {to: a}})
			return
		}
		h.sendHeld(s, s.approvals[i])
		return
	}
	i := slices.IndexFunc(s.approvals, func(was *approvals.Approval) bool { return was.Held() && approvals.SameContent(was.Request, a.Request) })
	if i >= 0 {
		was := s.approvals[i]
		if denied, err := approvals.Decide(a, was.Actor, a.Digest, a.Nonce, *was.Decision, h.now()); err == nil {
			s.mustCommit(ctx, state.Source{}, actions, []change{{from: was, to: approvals.Supersede(was)}, {to: a}, {from: a, to: denied}})
			h.sendHeld(s, denied)
			return
		}
	}
	s.mustCommit(ctx, state.Source{}, actions, []change{{to: a}})
}

// Waiting says which requests an agent waits for. Others of that epoch were
// answered when nobody heard it.
func (h *Hub) Waiting(ctx context.Context, uri, epoch string, upstreamIDs []json.RawMessage) {
	s := h.findURI(uri)
	if s == nil {
		return
	}
	var answered []json.RawMessage
	for _, a := range s.approvals {
		switch {
		case !a.Open() || a.Request.Epoch != epoch:
		case slices.ContainsFunc(upstreamIDs, func(id json.RawMessage) bool { return bytes.Equal(id, a.Request.UpstreamID) }):
			h.sendHeld(s, a)
		default:
			answered = append(answered, a.Request.UpstreamID)
		}
	}
	s.mu.Unlock()
	for _, id := range answered {
		h.Resolved(ctx, uri, epoch, id, state.EndedAnswered)
	}
}

// Resolved says that the agent no longer waits for a request.
func (h *Hub) Resolved(ctx context.Context, uri, epoch string, upstreamID json.RawMessage, how state.Ending) {
	s := h.findURI(uri)
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	asked := state.Request{Epoch: epoch, UpstreamID: upstreamID}
	i := slices.IndexFunc(s.approvals, func(a *approvals.Approval) bool { return a.Open() && a.Request.SameAs(asked) })
	if i < 0 {
		return
	}
	was := s.approvals[i]
	is := approvals.Resolve(was, how, h.now())
	crashpoint.At(crashpoint.BeforeAck)
	s.mustCommit(ctx, state.Source{}, confirmed(is), []change{{from: was, to: is}})
	crashpoint.At(crashpoint.AfterAck)
}

// confirmed returns the actions that show a decision in the session's state once
// the agent has taken it.
func confirmed(a *approvals.Approval) []state.Envelope {
	r, d := a.Request, a.Decision
	envelope := func(act state.Action) []state.Envelope {
		return []state.Envelope{{Channel: r.Session, Action: act}}
	}
	if r.Questions != nil {
		act := &state.SessionInputCompleted{RequestID: r.Questions.ID, Response: state.InputCancel} // answered elsewhere: how is not known
		switch o, ok := decidedOption(a); {
		case ok && o.Kind == state.OptionApprove:
			act.Response, act.Answers = state.InputAccept, r.Questions.Answered(d.Answers)
		case ok && o.ID != string(state.InputCancel):
			act.Response = state.InputDecline
		}
		return envelope(act)
	}
	o, ok := decidedOption(a)
	if !ok || r.ToolCallID == "" {
		return nil
	}
	act := &state.SessionToolCallConfirmed{TurnID: r.TurnID, ToolCallID: r.ToolCallID, SelectedOptionID: &o.ID}
	if o.Kind == state.OptionApprove {
		act.Approved, act.Confirmed, act.EditedToolInput = true, state.ConfirmedUserAction, state.Optional(d.EditedInput)
	} else {
		act.Reason = state.CancelledDenied
		if d.Reason != "" {
			act.ReasonMessage = new(state.Plain(d.Reason))
		}
	}
	return envelope(act)
}

func decidedOption(a *approvals.Approval) (state.ConfirmationOption, bool) {
	if a.State != approvals.Confirmed {
		return state.ConfirmationOption{}, false
	}
	return a.Request.Option(a.Decision.OptionID)
}

// Opaque keeps an upstream message that nobody understood.
func (h *Hub) Opaque(ctx context.Context, uri string, raw json.RawMessage) {
	if err := h.store.Opaque(ctx, uri, h.now(), raw); err != nil {
		h.log.Error("an unknown message was not kept", "err", err)
	}
}

// LinkChanged records how a link is. What was open on one that is lost is ended,
// because nobody is left who could end it; on a lasting one it waits for the next
// connection, over which the same run of the agent asks the same again.
func (h *Hub) LinkChanged(ctx context.Context, l state.Link) {
	h.mu.Lock()
	stalled := false
	if i := slices.IndexFunc(h.links, func(x state.Link) bool { return x.Key == l.Key }); i >= 0 {
		stalled = h.links[i].Status == state.LinkStalled && h.links[i].Epoch == l.Epoch
		l.DisplayName, l.Description, l.Keeps = h.links[i].DisplayName, h.links[i].Description, h.links[i].Keeps
		h.links[i] = l
	}
	h.changed()
	sessions := slices.Clone(h.order)
	h.mu.Unlock()
	for _, s := range sessions {
		switch {
		case l.Status == state.LinkUp && !stalled: // which is another connection
			s.linkUp(ctx, l)
		case (l.Status == state.LinkLost || l.Status == state.LinkIdle) && !l.Lasting:
			s.linkLost(ctx, l)
		default:
			s.linkNoted(l.Key)
		}
	}
}

// lasting reports whether what runs on a link goes on without nod.
func (h *Hub) lasting(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.links, func(l state.Link) bool { return l.Key == key && l.Lasting })
}

// health is what the journal's writer tells. It is called by the writer, so it
// must not wait for a session: whoever holds one may be waiting for the writer.
func (h *Hub) health(err error) {
	if err != nil {
		h.noteJournal(err)
	}
	poke(h.troubled)
}

// maxNotices is how many are shown: who has not looked for longer reads the list of
// devices.
const maxNotices = 3

// Tell puts a sentence at the head of the inbox, on all devices, until Hush.
func (h *Hub) Tell(sentence string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notices = append(h.notices, snapshot.Notice{Text: sentence, At: h.now()})
	h.notices = h.notices[max(0, len(h.notices)-maxNotices):]
	h.changed()
}

// Hush takes away what Tell has put there.
func (h *Hub) Hush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notices = nil
	h.changed()
}

// notRecorded marks an error of the journal as one that a person can mend.
func (h *Hub) notRecorded(err error) error {
	if err == nil || errors.Is(err, errDamaged) {
		return err
	}
	h.noteJournal(err)
	return fmt.Errorf("%w: %w", ErrNotRecorded, err)
}

// noteJournal remembers whether the journal can be written, for the pages.
func (h *Hub) noteJournal(err error) {
	sentence := ""
	if err != nil {
		h.log.Error("the journal refuses", "err", err)
		poke(h.troubled)
		sentence = "nod cannot write to its data folder, so nothing can be approved. You can still deny and stop. " +
			"What happens now is not yet recorded, and would be gone after a restart. Is the disk full?"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble != sentence {
		h.trouble = sentence
		h.changed()
	}
}
