package hub

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
	"nod/state/snapshot"
)

// head is a session's row in the journal: what a list shows of it while it is not
// loaded.
type head struct {
	Summary   *state.SessionSummary `json:"summary"`
	LastEvent int64                 `json:"lastEvent"`
	Parent    string                `json:"parent,omitzero"` // URI
	Cut       int                   `json:"cut,omitzero"`
	Last      state.TurnState       `json:"last,omitzero"` // of the last turn that ended
	Link      string                `json:"link,omitzero"` // key of the lasting link that it is live on
}

// row returns the session's row.
func (s *session) row(st *state.Session, open bool, at int64, cut int) (journal.Session, error) {
	h := head{Summary: st.Summary, LastEvent: at, Cut: cut, Last: lastTurn(st)}
	if s.parent != nil {
		h.Parent = s.parent.uri
	}
	if s.lasting {
		h.Link = s.link
	}
	raw, err := state.Marshal(h)
	return journal.Session{URI: s.uri, Head: raw, Open: open}, err
}

// lastTurn is how the last turn ended, "" if there was none.
func lastTurn(st *state.Session) state.TurnState {
	if n := len(st.Turns); n > 0 {
		return st.Turns[n-1].State
	}
	return ""
}

// New brings the sessions back from the journal: their summaries, and the rest
// when somebody wants it. Whatever was open when the last process ended is
// closed, and says so, unless its agent outlives nod: then it waits for the link.
func New(ctx context.Context, store journal.Store, log *slog.Logger) (*Hub, error) {
	h := newHub(store, log)
	clean, err := store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	store.OnHealth(h.health)
	rows, err := store.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	removed, err := store.Deleted(ctx)
	if err != nil {
		return nil, err
	}
	for _, uri := range removed {
		h.removed[strings.TrimPrefix(uri, uriScheme)] = true
	}
	for _, row := range rows {
		s := newSession(h, row.URI, nil)
		if err := s.adopt(row); err != nil { // one that cannot be read must not take the others along
			s.unreadable(err)
		}
		h.add(s)
	}
	for _, s := range h.order {
		s.mu.Lock()
		_, lasting := s.home()
		closes := s.open && !lasting
		s.mu.Unlock()
		if closes {
			s.closeAfterRestart(ctx, clean)
		}
	}
	go h.keep()
	return h, nil
}

// adopt takes over what a row tells. A row without a head is of an older nod: all
// of it has to be read.
func (s *session) adopt(row journal.Session) error {
	s.open = row.Open
	var h head
	if len(row.Head) > len(`{}`) {
		if err := state.Unmarshal(row.Head, &h); err != nil {
			return err
		}
		s.state, s.lastEvent, s.cut = stub(h.Summary, h.Last), h.LastEvent, h.Cut
		s.link, s.lasting = h.Link, h.Link != ""
		s.parent = s.hub.sessions[strings.TrimPrefix(h.Parent, uriScheme)] // nil for ""
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(context.Background())
}

// stub is the state of a session of which no more is known than the summary and
// how its last turn ended ("": it had none).
func stub(m *state.SessionSummary, last state.TurnState) *state.Session {
	st := &state.Session{Summary: m, Lifecycle: state.LifecycleReady, Turns: []*state.Turn{}}
	if last != "" {
		st.Turns = append(st.Turns, &state.Turn{State: last})
	}
	return st
}

// unreadable shows a session that cannot be read as one that failed, so that
// nobody looks for it in vain. Nothing of it is written again.
func (s *session) unreadable(err error) {
	s.hub.log.Error("a session cannot be read", "session", s.uri, "err", err)
	m := &state.SessionSummary{Resource: s.uri, Title: "A session that cannot be read", CreatedAt: s.lastEvent, ModifiedAt: s.lastEvent}
	if s.state != nil {
		known := *s.state.Summary
		m = &known
	}
	m.Status = m.Status&state.StatusIsArchived | state.StatusError
	st := stub(m, state.TurnError)
	st.Turns = []*state.Turn{}
	st.Lifecycle = state.LifecycleCreationFailed
	st.CreationError = &state.ErrorInfo{ErrorType: "nod.unreadable", Message: "nod's journal holds this session, but it cannot be read. The log says why. A backup may still have it."}
	s.state, s.loaded, s.damaged, s.open = st, true, true, false
}

// lock takes mu and sees to it that the session is loaded.
func (s *session) lock() error {
	s.mu.Lock()
	if s.deleted {
		s.mu.Unlock()
		return ErrNoSession
	}
	s.lastUsed = s.hub.now()
	if s.loaded {
		return nil
	}
	if err := s.load(context.Background()); err != nil {
		s.unreadable(err)
	}
	return nil
}

// load reads the newest snapshot and what came after it. Call with mu held.
func (s *session) load(ctx context.Context) error {
	newest, err := s.hub.store.Newest(ctx, s.uri)
	if err != nil {
		return err
	}
	n := &next{seq: newest.Seq}
	if err := s.decode(n, newest.Data); err != nil {
		return err
	}
	bytes := 0
	for e, err := range s.hub.store.Events(ctx, s.uri, newest.Seq) {
		if err != nil {
			return err
		}
		if err := s.replay(n, e); err != nil {
			return err
		}
		bytes += len(e.Action)
	}
	maps.Copy(s.changesets, n.changesets)
	s.lastEvent = max(s.lastEvent, n.at)
	stored, err := s.hub.store.Approvals(ctx, s.uri)
	if err != nil {
		return err
	}
	list := make([]*approvals.Approval, len(stored))
	for i, r := range stored {
		list[i] = new(approvals.Approval)
		if err := state.Unmarshal(r.Record, list[i]); err != nil {
			return err
		}
	}
	// Not every number has an event, and none is given twice while this process lives.
	s.seq = max(s.seq, n.seq)
	s.state, s.terminals, s.approvals, s.loaded = n.state, n.terminals, list, true
	s.changes, s.shownIn, s.sources = changes{}, map[string]snapshot.Part{}, nil
	s.changes.reset(s.seq) // an older cursor of this process gets the whole page
	s.log = upkeep{tidied: newest.Seq, snapshot: len(newest.Data), since: bytes}
	s.hub.noteAsked(s, list)
	return nil
}

// unload forgets what the journal has. Call with mu held.
func (s *session) unload() {
	s.state, s.loaded = stub(s.state.Summary, lastTurn(s.state)), false
	s.terminals, s.changesets, s.approvals = snapshot.Terminals{}, map[string]*state.Changeset{}, nil
	s.changes, s.shownIn, s.sources = changes{}, map[string]snapshot.Part{}, nil
}

// channelsAt returns a session's snapshots of AHP's form: itself, then its
// terminals and changesets in the order of their URIs.
func channelsAt(uri string, seq uint64, st *state.Session, terminals snapshot.Terminals, changesets map[string]*state.Changeset) []state.Snapshot {
	out := []state.Snapshot{{Resource: uri, State: st, FromSeq: seq}}
	all := maps.Collect(terminals.All())
	for _, uri := range slices.Sorted(maps.Keys(all)) {
		out = append(out, state.Snapshot{Resource: uri, State: all[uri], FromSeq: seq})
	}
	for _, uri := range slices.Sorted(maps.Keys(changesets)) {
		out = append(out, state.Snapshot{Resource: uri, State: changesets[uri], FromSeq: seq})
	}
	return out
}

// decode is the reverse of channelsAt.
func (s *session) decode(n *next, raw json.RawMessage) error {
	channels, err := channelsOf(raw, s.uri)
	if err != nil {
		return err
	}
	s.changesets = map[string]*state.Changeset{}
	for _, c := range channels {
		switch st := c.State.(type) {
		case *state.Session:
			n.state = st
		case *state.Terminal:
			n.terminals = n.terminals.With(c.Resource, st)
		case *state.Changeset:
			s.changesets[c.Resource] = st
		}
	}
	if n.state == nil {
		return errNoState
	}
	return nil
}

// replay makes one event of the journal part of what the session will be.
func (s *session) replay(n *next, e journal.Event) error {
	a, err := state.UnmarshalAction(e.Action)
	if err != nil {
		return err
	}
	n.seq, n.at = e.Seq, e.Time
	return s.perform(n, state.Envelope{Channel: e.Channel, Action: a}, e.Action)
}

// closeAfterRestart ends what the last process left open.
func (s *session) closeAfterRestart(ctx context.Context, clean bool) {
	if s.lock() != nil { // it was deleted, which cannot be yet
		return
	}
	defer s.mu.Unlock()
	if s.damaged {
		return
	}
	if s.state.ActiveTurn != nil {
		gap := ""
		if !clean {
			gap = "nod ended without warning here. The last streamed text may be missing: what came within some 25 ms of it."
		}
		s.closeTurn(ctx, "restart", gap, "nod was stopped while this turn ran, and the agent's process ended with it. "+
			"What was done until then is above."+s.goOn())
		return
	}
	s.mustCommit(ctx, state.Source{}, nil, s.sweep(func(*approvals.Approval) bool { return true }))
	if s.open { // nothing was open after all
		s.open = false
		if row, err := s.row(s.state, false, s.lastEvent, s.cut); err == nil {
			s.hub.store.Buffer(journal.Batch{Sessions: []journal.Session{row}})
		}
	}
}

// ---- sub-agents ----

// startChildren makes sessions of the sub-agents that a tool call begins to refer
// to. They begin in the same transaction.
func (s *session) startChildren(n *next, a state.Action) error {
	var content []state.ToolResultContent
	switch a := a.(type) {
	case *state.SessionToolCallContentChanged:
		content = a.Content
	case *state.SessionToolCallComplete:
		content = a.Result.Content
	}
	for _, c := range content {
		uri := state.Value(c.Resource)
		if c.Type != state.ContentSubagent || !s.hub.newChild(uri) || slices.ContainsFunc(n.children, func(x *session) bool { return x.uri == uri }) {
			continue
		}
		child := newSession(s.hub, uri, s)
		m := *s.state.Summary
		child.state = &state.Session{
			Summary: &state.SessionSummary{
				Resource: uri, Provider: m.Provider, Title: state.TitleOf(state.Value(c.Title)), Status: state.StatusIdle,
				CreatedAt: n.at, ModifiedAt: n.at, Model: m.Model, WorkingDirectory: m.WorkingDirectory,
			},
			Lifecycle: state.LifecycleReady, Turns: []*state.Turn{},
		}
		child.loaded, child.lastEvent = true, n.at
		first, err := child.begins(n.at)
		if err != nil {
			return err
		}
		n.batch.Sessions = append(n.batch.Sessions, first.Sessions...)
		n.batch.Snapshots = append(n.batch.Snapshots, first.Snapshots...)
		n.children = append(n.children, child)
	}
	return nil
}

// begins returns the batch of a session without events.
func (s *session) begins(at int64) (journal.Batch, error) {
	raw, err := state.Marshal(channelsAt(s.uri, 0, s.state, s.terminals, s.changesets))
	if err != nil {
		return journal.Batch{}, err
	}
	row, err := s.row(s.state, false, at, 0)
	return journal.Batch{
		Sessions:  []journal.Session{row},
		Snapshots: []journal.Snapshot{{Session: s.uri, Data: raw}},
	}, err
}

// tellParent marks what the pages above show of a sub-agent: its state beside the
// call that started it, and what it waits for. Call with mu held.
func (s *session) tellParent(asked bool) {
	from := s.uri
	for p := s.parent; p != nil; p = p.parent {
		p.mu.Lock()
		if asked && !p.deleted && p.state.Summary.Status.Archived() {
			p.bringBack()
		}
		if p.loaded {
			parts := []snapshot.Part{{Kind: snapshot.Head}}
			if asked {
				parts = append(parts, snapshot.Part{Kind: snapshot.Dock}, snapshot.Part{Kind: snapshot.Composer})
			}
			if shown, ok := p.whereShown(from); ok {
				parts = append(parts, shown)
			}
			p.touch(parts...)
		}
		p.mu.Unlock()
		from = p.uri
	}
}

// bringBack takes a session out of the archive, because a sub-agent of it asks.
// Call with mu held.
func (s *session) bringBack() {
	if !s.loaded {
		if err := s.load(context.Background()); err != nil {
			s.unreadable(err)
			return
		}
	}
	s.mustCommit(context.Background(), state.Source{}, []state.Envelope{{Channel: s.uri, Action: &state.SessionIsArchivedChanged{}}}, nil)
}
