package hub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
	"nod/state/snapshot"
)

// session owns one session's state: whoever holds mu is the owner. A lock of a
// session may be taken while that of one of its sub-agents is held, never the
// other way round; the hub's own while either is held.
type session struct {
	hub    *Hub
	id     string
	uri    string
	parent *session // whose sub-agent this is; nil for none

	children []*session // its own sub-agents; the hub's mu guards it

	sending sync.Mutex // held while a turn is being started

	mu        sync.Mutex
	deleted   bool // and nothing may be committed any more
	damaged   bool // the journal cannot be read: what is shown says so, and nothing is committed
	loaded    bool // if not, state holds the summary alone and what follows lastEvent is empty
	state     *state.Session
	lastEvent int64  // Unix milliseconds
	lastUsed  int64  // when somebody last wanted it loaded, Unix milliseconds
	open      bool   // a turn or a request is open; as journaled
	link      string // key of the link that it is live on, or was last; "" for none in this process, and for a sub-agent: see home
	lasting   bool   // that link's agent outlives nod
	cut       int    // turns forgotten so far

	seq        uint64
	terminals  snapshot.Terminals
	changesets map[string]*state.Changeset
	approvals  []*approvals.Approval // in the order they were asked in; replaced, never changed
	changes    changes
	shownIn    map[string]snapshot.Part // URI of a terminal or sub-agent -> the response part that shows it
	sources    map[sourceKey]struct{}   // upstream events it has had; nil until one names itself
	watchers   map[chan struct{}]struct{}

	log    upkeep
	broken bool // the journal has a hole where this session's events should be
	queued bool // for the keeper; the hub's mu guards it
}

// sourceKey is a hash of a Source: a session may have had very many.
type sourceKey [16]byte

func keyOf(epoch, id string) sourceKey {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(epoch), epoch, id))
	return sourceKey(sum[:16])
}

func newSession(h *Hub, uri string, parent *session) *session {
	return &session{
		hub: h, id: strings.TrimPrefix(uri, uriScheme), uri: uri, parent: parent,
		changesets: map[string]*state.Changeset{}, shownIn: map[string]snapshot.Part{},
		watchers: map[chan struct{}]struct{}{},
	}
}

// current returns the session's state.
func (s *session) current() (*state.Session, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.state, nil
}

// change is one step of an approval; from is nil for a new one.
type change struct{ from, to *approvals.Approval }

// growing reports whether an action only adds text, which may be shown before
// it is on disk.
func growing(a state.Action) bool {
	switch a.(type) {
	case *state.SessionDelta, *state.SessionReasoning, *state.TerminalData:
		return true
	}
	return false
}

// next is what a session will be once a batch is on disk.
type next struct {
	at       int64
	batch    journal.Batch
	buffered bool // all of it is growing text
	bytes    int  // of the batch's actions

	seq        uint64
	state      *state.Session
	terminals  snapshot.Terminals
	changesets map[string]*state.Changeset // those that change
	approvals  []*approvals.Approval
	marks      []mark
	shown      []string // URIs of terminals that changed
	changed    bool     // an approval
	open       bool
	children   []*session // sub-agents that start
}

// commit is the way of everything that happens to a session: number, journal,
// reduce, wake. If the journal refuses, nothing has changed. Call with mu held.
func (s *session) commit(ctx context.Context, from state.Source, actions []state.Envelope, changes []change) error {
	n, err := s.plan(from, actions, changes)
	if n == nil || err != nil {
		return err
	}
	if err := s.record(ctx, n); err != nil {
		return err
	}
	s.install(n)
	return nil
}

// mustCommit is commit for what an agent has said: it has happened, whether or
// not it can be recorded.
func (s *session) mustCommit(ctx context.Context, from state.Source, actions []state.Envelope, changes []change) {
	n, err := s.plan(from, actions, changes)
	if err != nil {
		s.hub.log.Error("an event cannot be understood and is left out", "session", s.uri, "err", err)
		return
	} else if n == nil {
		return
	}
	switch err := s.record(context.WithoutCancel(ctx), n); {
	case errors.Is(err, journal.ErrDuplicate):
		return
	case errors.Is(err, journal.ErrBroken): // the keeper writes the session anew
		s.broken = true
	case errors.Is(err, journal.ErrConflict), errors.Is(err, journal.ErrNotFound): // nothing that time mends
		s.hub.log.Error("an event contradicts the journal and is not recorded", "session", s.uri, "err", err)
	case err != nil:
		s.hub.noteJournal(err)
		s.hub.store.Buffer(n.batch) // for when the disk takes it again
	}
	s.install(n)
}

// record puts a batch on disk, or text on its way there.
func (s *session) record(ctx context.Context, n *next) error {
	if n.buffered {
		s.hub.store.Buffer(n.batch)
		return nil
	}
	err := s.hub.store.Append(ctx, n.batch)
	if err == nil {
		s.hub.noteJournal(nil)
	}
	return err
}

// plan works out what actions and changes of approvals make of the session. A
// turn that ends takes its pending requests along in the same transaction. It
// returns nil for an upstream event that the session has had.
func (s *session) plan(from state.Source, actions []state.Envelope, changes []change) (*next, error) {
	if s.damaged {
		return nil, errDamaged
	}
	if s.state.Summary.Status.Archived() && wakes(actions, changes) {
		actions = append([]state.Envelope{{Channel: s.uri, Action: &state.SessionIsArchivedChanged{}}}, actions...)
	}
	n := &next{at: s.hub.now(), seq: s.seq, state: s.state, terminals: s.terminals, approvals: s.approvals}
	if from != (state.Source{}) {
		if had, err := s.had(from); had {
			return nil, nil
		} else if err != nil { // the journal knows, and will say so
			s.hub.log.Warn("whether an event is a replay is not known yet", "session", s.uri, "err", err)
		}
		n.batch.Source = journal.Source{Session: s.uri, Epoch: from.Epoch, ID: from.ID}
	}
	n.buffered = len(changes) == 0 && from == (state.Source{})
	for _, e := range s.withEnd(actions) {
		if err := s.take(n, e); err != nil {
			return nil, err
		}
	}
	for _, c := range changes { // nobody asks any more
		if q := c.to.Request.Questions; q != nil && c.from != nil && !c.to.Open() && n.asks(q.ID) {
			e := state.Envelope{Channel: s.uri, Action: &state.SessionInputCompleted{RequestID: q.ID, Response: state.InputCancel}}
			if err := s.take(n, e); err != nil {
				return nil, err
			}
		}
	}
	if len(n.batch.Events) == 0 && len(changes) == 0 {
		return nil, nil
	}
	if n.buffered {
		n.open = s.open
		return n, nil
	}
	if ended := s.state.ActiveTurn; ended != nil && (n.state.ActiveTurn == nil || n.state.ActiveTurn.ID != ended.ID) {
		changes = append(changes, s.sweep(func(a *approvals.Approval) bool {
			return (a.Request.TurnID == ended.ID || a.Request.TurnID == "") &&
				!slices.ContainsFunc(changes, func(c change) bool { return c.from == a })
		})...)
	}
	return n, s.planRows(n, changes)
}

// take adds an action to a batch.
func (s *session) take(n *next, e state.Envelope) error {
	e, ok := s.bounded(n, e)
	if !ok {
		return nil
	}
	raw, err := state.MarshalAction(e.Action)
	if err != nil {
		return err
	}
	n.seq++
	n.bytes += len(raw)
	n.batch.Events = append(n.batch.Events, journal.Event{Session: s.uri, Seq: n.seq, Time: n.at, Channel: e.Channel, Action: raw})
	n.buffered = n.buffered && growing(e.Action)
	before := n.state
	if err := s.perform(n, e, raw); err != nil {
		return err
	}
	if state.OfTerminal(e.Action) {
		n.shown = append(n.shown, e.Channel)
	}
	if n.state == before { // a call that is not there starts nobody
		return nil
	}
	for _, p := range snapshot.Changed(before, n.state) {
		n.marks = append(n.marks, mark{p, n.seq})
	}
	return s.startChildren(n, e.Action)
}

// asks reports whether the session's state holds a request for input of that id.
func (n *next) asks(id string) bool {
	return slices.ContainsFunc(n.state.InputRequests, func(r *state.InputRequest) bool { return r.ID == id })
}

// planRows adds to a batch what is not an event: approvals, audit, and what a
// list shows of the session.
func (s *session) planRows(n *next, changes []change) error {
	if len(changes) > 0 {
		n.changed = true
		n.seq++
		n.marks = append(n.marks, mark{snapshot.Part{Kind: snapshot.Dock}, n.seq},
			mark{snapshot.Part{Kind: snapshot.Composer}, n.seq}) // it says what is waited for
		n.approvals = slices.Clone(s.approvals)
	}
	for _, c := range changes {
		row, err := approvalRow(s.uri, c.to)
		if err != nil {
			return err
		}
		w := journal.ApprovalChange{Approval: row}
		if c.from != nil {
			w.From = string(c.from.State)
			n.batch.Audit = append(n.batch.Audit, audit(c, n.at))
		}
		n.batch.Approvals = append(n.batch.Approvals, w)
		if i := slices.Index(n.approvals, c.from); c.from != nil && i >= 0 {
			n.approvals[i] = c.to
		} else {
			n.approvals = append(n.approvals, c.to)
		}
	}
	n.open = n.state.ActiveTurn != nil || slices.ContainsFunc(n.approvals, (*approvals.Approval).Open)
	if n.open != s.open || n.state.Summary != s.state.Summary {
		row, err := s.row(n.state, n.open, n.at, s.cut)
		if err != nil {
			return err
		}
		n.batch.Sessions = append(n.batch.Sessions, row)
	}
	return nil
}

// wakes reports whether something brings an archived session back.
func wakes(actions []state.Envelope, changes []change) bool {
	return slices.ContainsFunc(changes, func(c change) bool { return c.from == nil }) ||
		slices.ContainsFunc(actions, func(e state.Envelope) bool {
			_, starts := e.Action.(*state.SessionTurnStarted)
			return starts
		})
}

func approvalRow(session string, a *approvals.Approval) (journal.Approval, error) {
	record, err := state.Marshal(a)
	return journal.Approval{ID: a.ID, Session: session, State: string(a.State), Digest: a.Digest, Record: record}, err
}

// audit tells of a step of a request. A decision's entry holds all that a person
// was shown, as it came and as it was answered; what became of it refers to that.
func audit(c change, at int64) journal.AuditEntry {
	e := journal.AuditEntry{Time: at, What: "request " + string(c.to.State), About: c.to.ID}
	if c.to.State == approvals.Decided {
		return decided(e, c.to)
	}
	e.Detail, _ = state.Marshal(map[string]string{"title": c.to.Request.Title, "session": c.to.Request.Session}) // strings always encode
	return e
}

// decided adds to an entry who has decided, and what.
func decided(e journal.AuditEntry, a *approvals.Approval) journal.AuditEntry {
	e.Actor, e.Address = a.Actor, a.Decision.Address
	shown := *a
	shown.Nonce = ""
	e.Detail, _ = state.Marshal(&shown) // as it is in the same batch
	return e
}

// had reports whether the session has had an upstream event.
func (s *session) had(from state.Source) (bool, error) {
	if s.sources == nil {
		sources := map[sourceKey]struct{}{}
		for known, err := range s.hub.store.Sources(context.Background(), s.uri) {
			if err != nil {
				return false, err
			}
			sources[keyOf(known.Epoch, known.ID)] = struct{}{}
		}
		s.sources = sources
	}
	_, had := s.sources[keyOf(from.Epoch, from.ID)]
	return had, nil
}

// reduce makes one action part of what the session will be.
func (s *session) reduce(n *next, e state.Envelope) {
	switch {
	case e.Channel == s.uri:
		n.state = state.ReduceSession(n.state, e.Action, n.at)
	case state.OfTerminal(e.Action):
		t := n.terminals.Get(e.Channel)
		if t == nil {
			t = &state.Terminal{Content: []state.TerminalPart{}, Claim: state.SessionClaim(s.uri)}
		}
		n.terminals = n.terminals.With(e.Channel, state.ReduceTerminal(t, e.Action))
	case state.OfChangeset(e.Action):
		c := cmp.Or(n.changesets[e.Channel], s.changesets[e.Channel])
		if c == nil {
			c = &state.Changeset{Status: state.ChangesetComputing, Files: []state.ChangesetFile{}}
		}
		if n.changesets == nil {
			n.changesets = map[string]*state.Changeset{}
		}
		n.changesets[e.Channel] = state.ReduceChangeset(c, e.Action)
	}
}

// install makes what plan has laid out true. Call with mu held.
func (s *session) install(n *next) {
	if from := n.batch.Source; from != (journal.Source{}) && s.sources != nil {
		s.sources[keyOf(from.Epoch, from.ID)] = struct{}{}
	}
	summaryChanged := n.state.Summary != s.state.Summary
	turnEnded := s.state.ActiveTurn != nil && n.state.ActiveTurn == nil
	s.seq, s.lastEvent, s.state, s.terminals, s.approvals, s.open = n.seq, n.at, n.state, n.terminals, n.approvals, n.open
	maps.Copy(s.changesets, n.changesets)
	for _, m := range n.marks {
		if m.part.Kind == snapshot.Root {
			s.shownIn = map[string]snapshot.Part{}
			s.changes.reset(m.seq)
		}
		s.changes.note(m.part, m.seq)
	}
	for _, uri := range n.shown {
		if p, ok := s.whereShown(uri); ok {
			s.changes.note(p, s.seq)
		}
	}
	for _, c := range n.children {
		s.hub.add(c)
	}
	if n.changed {
		s.hub.noteAsked(s, n.approvals)
	}
	wake(s.watchers)
	if n.changed || summaryChanged {
		s.hub.touchInbox()
		s.tellParent(n.changed)
	}
	s.log.since += n.bytes
	if turnEnded {
		s.deliverNext()
	}
	if turnEnded || s.broken || s.log.wantsSnapshot() || s.seq-s.log.tidied > maxUntidied {
		s.hub.tidyLater(s)
	}
}

// whereShown finds the tool call that refers to a terminal or a sub-agent, the
// newest first.
func (s *session) whereShown(uri string) (snapshot.Part, bool) {
	if p, ok := s.shownIn[uri]; ok {
		return p, true
	}
	p, ok := find(s.state, uri)
	if ok {
		s.shownIn[uri] = p
	}
	return p, ok
}

func find(st *state.Session, uri string) (snapshot.Part, bool) {
	for turn := snapshot.TurnCount(st) - 1; turn >= 0; turn-- {
		for i := snapshot.PartCount(st, turn) - 1; i >= 0; i-- {
			c, ok := snapshot.PartAt(st, turn, i).(*state.ToolCallPart)
			if ok && slices.ContainsFunc(c.ToolCall.Content, func(x state.ToolResultContent) bool {
				return (x.Type == state.ContentTerminal || x.Type == state.ContentSubagent) && state.Value(x.Resource) == uri
			}) {
				return snapshot.Part{Kind: snapshot.Response, Turn: turn, Index: i}, true
			}
		}
	}
	return snapshot.Part{}, false
}

// sweep returns the changes that end every open approval which f accepts.
func (s *session) sweep(f func(*approvals.Approval) bool) []change {
	var out []change
	for _, a := range s.approvals {
		if a.Open() && f(a) {
			out = append(out, change{from: a, to: approvals.Sweep(a, s.hub.now())})
		}
	}
	return out
}

// closeTurn ends the turn that nobody is left to end. gap, if it is not "", says
// what may be missing at this place of the transcript.
func (s *session) closeTurn(ctx context.Context, reason, gap, sentence string) {
	t := s.state.ActiveTurn
	var actions []state.Envelope
	add := func(a state.Action) { actions = append(actions, state.Envelope{Channel: s.uri, Action: a}) }
	for _, p := range t.ResponseParts.All() { // a call keeps its output and its answer only if it completes
		c, ok := p.(*state.ToolCallPart)
		if ok && c.ToolCall.Status == state.ToolRunning && (len(c.ToolCall.Content) > 0 || c.ToolCall.SelectedOption != nil) {
			add(&state.SessionToolCallComplete{TurnID: t.ID, ToolCallID: c.ToolCall.ToolCallID, Result: state.ToolCallResult{
				PastTenseMessage: state.Plain("Was still running when the turn ended"), Content: c.ToolCall.Content,
			}})
		}
	}
	if gap != "" {
		add(&state.SessionResponsePart{TurnID: t.ID, Part: &state.NotificationPart{
			Content: state.Plain(gap),
			Meta:    state.Meta{"nod.gap": fmt.Appendf(nil, `{"from":%d,"to":%d,"reason":%q}`, s.seq, s.seq+uint64(len(actions))+1, reason)},
		}})
	}
	add(&state.SessionActivityChanged{})
	add(&state.SessionError{TurnID: t.ID, Error: state.ErrorInfo{ErrorType: "nod." + reason, Message: sentence}})
	s.mustCommit(ctx, state.Source{}, actions, s.sweep(func(*approvals.Approval) bool { return true }))
}

// home returns the key of the link that the session is live on, or was, and whether
// the agent there outlives nod. A sub-agent is live where the session is that
// started it, wherever that moves. Call with mu held.
func (s *session) home() (key string, lasting bool) {
	if s.parent == nil {
		return s.link, s.lasting
	}
	s.parent.mu.Lock()
	defer s.parent.mu.Unlock()
	return s.parent.home()
}

// isOn reports whether the session is live on the link of that key, or was. Call
// with mu held.
func (s *session) isOn(link string) bool {
	key, _ := s.home()
	return key == link
}

// liveOn returns the key of the link that the session is live on, or was.
func (s *session) liveOn() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, _ := s.home()
	return key
}

// liveOnLink notes where the session is live. What is open is journaled with it,
// so that a nod that starts again knows what may go on.
func (s *session) liveOnLink(key string, lasting bool) {
	if s.parent != nil {
		return
	}
	s.mu.Lock()
	moves := !s.deleted && (s.link != key || s.lasting != lasting)
	if moves {
		s.link, s.lasting = key, lasting
		if row, err := s.row(s.state, s.open, s.lastEvent, s.cut); err == nil && !s.damaged {
			s.hub.store.Buffer(journal.Batch{Sessions: []journal.Session{row}})
		}
	}
	s.mu.Unlock()
	if !moves {
		return
	}
	for _, x := range append(s.hub.below(s), s) {
		x.linkNoted(key)
	}
	s.hub.touchInbox()
}

// linkUp ends what cannot go on after a new connection: the requests of another
// run of the agent, and answers that were on their way when the link was lost.
func (s *session) linkUp(ctx context.Context, l state.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted || !s.loaded && !s.open || !s.isOn(l.Key) {
		return
	}
	if !s.loaded { // this nod has just started
		if err := s.load(ctx); err != nil {
			s.unreadable(err)
		}
	}
	asksAgain := func(a *approvals.Approval) bool { // and then hears the denial
		t := s.state.ActiveTurn
		return a.Held() && (a.Request.Epoch == l.Epoch || t != nil && t.ID == a.Request.TurnID)
	}
	swept := s.sweep(func(a *approvals.Approval) bool {
		return (a.Request.Epoch != l.Epoch || a.State != approvals.Pending) && !asksAgain(a)
	})
	if len(swept) > 0 {
		s.mustCommit(ctx, state.Source{}, nil, swept)
	}
	s.touch(onLink...)
}

// onLink are the parts of a page that tell how its link is and what it offers.
var onLink = []snapshot.Part{{Kind: snapshot.Head}, {Kind: snapshot.Dock}, {Kind: snapshot.Composer}}

// linkNoted shows how the link is.
func (s *session) linkNoted(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded && !s.deleted && s.isOn(key) {
		s.touch(onLink...)
	}
}

// linkLost ends what is open on a link that does not come back.
func (s *session) linkLost(ctx context.Context, l state.Link) {
	s.mu.Lock()
	key, _ := s.home()
	here := !s.deleted && (key == l.Key || key == "" && s.state.Summary.Provider == l.Provider)
	s.mu.Unlock()
	if here {
		s.end(ctx, "linkLost", "The link to "+l.DisplayName+" was lost here. What the agent did after this is not known.",
			"The link to "+l.DisplayName+" was lost while this turn ran. "+l.Detail)
	}
}

// gone ends what is open in a session that the agent does not have any more.
func (s *session) gone(ctx context.Context, sentence string) {
	s.end(ctx, "gone", "The agent does not have this session any more. What it did after this is not known.", sentence)
}

// end closes the turn and the requests that are open.
func (s *session) end(ctx context.Context, reason, gap, sentence string) {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	if !open || s.lock() != nil {
		return
	}
	defer s.mu.Unlock()
	if s.state.ActiveTurn != nil {
		s.closeTurn(ctx, reason, gap, sentence+s.goOn())
	} else if swept := s.sweep(func(*approvals.Approval) bool { return true }); len(swept) > 0 {
		s.mustCommit(ctx, state.Source{}, nil, swept)
	}
}

// linkDown returns an approval that may still be answered, and whether its agent
// cannot be told now. The request stays open until the link is back or its end is
// known.
func (s *session) linkDown(approvalID string) (a *approvals.Approval, down bool, err error) {
	if err := s.lock(); err != nil {
		return nil, false, err
	}
	a = s.approval(approvalID)
	key, _ := s.home()
	s.mu.Unlock()
	if a == nil || a.State != approvals.Pending && a.State != approvals.Decided {
		return a, false, nil
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	i := slices.IndexFunc(s.hub.links, func(l state.Link) bool { return l.Key == key })
	return a, i >= 0 && s.hub.links[i].Status.Down(), nil
}

func (s *session) approval(id string) *approvals.Approval {
	if i := slices.IndexFunc(s.approvals, func(a *approvals.Approval) bool { return a.ID == id }); i >= 0 {
		return s.approvals[i]
	}
	return nil
}

// decide records a decision, unless it had been recorded before. Where the disk
// refuses, a decision that only denies is kept in memory and goes on: to be safe
// must not need room on a disk.
func (s *session) decide(ctx context.Context, actor, id, digest, nonce string, d state.Decision) (*approvals.Approval, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	was := s.approval(id)
	if was == nil {
		return nil, ErrNoApproval
	}
	a, err := approvals.Decide(was, actor, digest, nonce, d, s.hub.now())
	if err != nil || a == was {
		return was, err
	}
	err = s.commit(ctx, state.Source{}, nil, []change{{from: was, to: a}})
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, journal.ErrConflict):
		return was, approvals.ErrNotPending
	}
	s.hub.noteJournal(err)
	if !was.Denies(d) {
		// For when the disk takes it again; by that the pages notice, too.
		refused := decided(journal.AuditEntry{Time: s.hub.now(), What: "request refused: not recorded", About: id}, a)
		s.hub.store.Buffer(journal.Batch{Audit: []journal.AuditEntry{refused}})
		return was, err
	}
	return s.keep(was, a)
}

// keep makes a step of an approval true that cannot be recorded yet.
func (s *session) keep(was, a *approvals.Approval) (*approvals.Approval, error) {
	kept := *a
	kept.Unrecorded = true
	a = &kept
	poke(s.hub.troubled)
	n, err := s.plan(state.Source{}, nil, []change{{from: was, to: a}})
	if err != nil {
		return was, err
	}
	s.hub.store.Buffer(n.batch)
	s.install(n)
	return a, nil
}

// step moves an approval on if it is still in the expected state.
func (s *session) step(ctx context.Context, id string, from approvals.State, f func(*approvals.Approval) *approvals.Approval) (*approvals.Approval, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	was := s.approval(id)
	if was == nil || was.State != from {
		return was, approvals.ErrNotPending
	}
	a := f(was)
	if was.Unrecorded {
		return s.keep(was, a)
	}
	if err := s.commit(ctx, state.Source{}, nil, []change{{from: was, to: a}}); err != nil {
		if was.Denies(*was.Decision) && !errors.Is(err, journal.ErrConflict) { // as in decide
			s.hub.noteJournal(err)
			return s.keep(was, a)
		}
		return was, err
	}
	return a, nil
}

// recorded sees to it that all of the session is on disk, and takes the mark from
// decisions that were not.
func (s *session) recorded(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded || s.deleted || s.damaged {
		return nil
	}
	row, err := s.row(s.state, s.open, s.lastEvent, s.cut)
	if err != nil {
		return err
	}
	switch err := s.hub.store.Append(ctx, journal.Batch{Sessions: []journal.Session{row}}); {
	case errors.Is(err, journal.ErrBroken):
		s.broken = true
	case err != nil:
		return err
	}
	if s.broken {
		if err := s.beginAnew(ctx, s.state, 0); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(s.approvals, func(a *approvals.Approval) bool { return a.Unrecorded }) {
		return nil
	}
	list := slices.Clone(s.approvals)
	for i, a := range list {
		if a.Unrecorded {
			done := *a
			done.Unrecorded = false
			list[i] = &done
		}
	}
	s.approvals = list
	s.touch(snapshot.Part{Kind: snapshot.Dock})
	s.tellParent(true)
	return nil
}

// goOn is how a person goes on after a turn that nobody ended.
func (s *session) goOn() string {
	if s.parent != nil {
		return ""
	}
	return " Send a message to go on."
}

// touch says that parts have changed without an event. Call with mu held.
func (s *session) touch(parts ...snapshot.Part) {
	s.seq++
	for _, p := range parts {
		s.changes.note(p, s.seq)
	}
	wake(s.watchers)
}

// view must be called with mu held.
func (s *session) view() snapshot.Session {
	v := snapshot.Session{
		ID: s.id, Seq: s.seq, State: s.state, LastEvent: s.lastEvent,
		Terminals: s.terminals, Approvals: s.approvals, Cut: s.cut,
	}
	if s.parent != nil {
		v.Parent = s.parent.id
	}
	return v
}
