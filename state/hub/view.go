package hub

import (
	"cmp"
	"context"
	"math"
	"slices"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
)

// Session returns a snapshot of a session.
func (h *Hub) Session(id string) (snapshot.Session, error) {
	v, _, err := h.Since(id, math.MaxUint64)
	return v, err
}

// Since returns a snapshot and the parts that changed after seq, in page order.
// A part within a turn that is itself in the list is left out.
func (h *Hub) Since(id string, seq uint64) (snapshot.Session, []snapshot.Part, error) {
	s, err := h.find(id)
	if err != nil {
		return snapshot.Session{}, nil, err
	}
	if err := s.lock(); err != nil {
		return snapshot.Session{}, nil, err
	}
	v, parts := s.view(), s.changes.since(seq)
	s.mu.Unlock()
	slices.SortFunc(parts, func(a, b snapshot.Part) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Index, b.Index))
	})
	h.complete(s, &v)
	return v, parts, nil
}

// complete adds what is not the session's own: its link, its sub-agents, and what
// they wait for, in the order in which it was asked, so that no new request comes
// before one that is there. Whatever of it is newer than the cursor is sent once more.
func (h *Hub) complete(s *session, v *snapshot.Session) {
	v.Link = h.link(s.liveOn(), v.State.Summary.Provider)
	below := h.below(s)
	if len(below) == 0 {
		return
	}
	v.Approvals = slices.Clone(v.Approvals)
	for _, c := range below {
		c.mu.Lock()
		summary, asked := c.state.Summary, c.approvals
		c.mu.Unlock()
		if c.parent == s {
			v.Children = append(v.Children, snapshot.Child{ID: c.id, URI: c.uri, Summary: summary})
		}
		for _, a := range asked {
			if a.Open() {
				v.Approvals = append(v.Approvals, a)
			}
		}
	}
	slices.SortStableFunc(v.Approvals, func(a, b *approvals.Approval) int { return cmp.Compare(a.AskedAt, b.AskedAt) })
}

// below returns a session's sub-agents and theirs.
func (h *Hub) below(s *session) []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.below()
}

// below must be called with the hub's mu held.
func (s *session) below() (out []*session) {
	for _, c := range s.children {
		out = append(append(out, c), c.below()...)
	}
	return out
}

// ApprovalView returns an approval and the session it belongs to.
func (h *Hub) ApprovalView(ctx context.Context, id string) (*approvals.Approval, snapshot.Session, error) {
	s, err := h.whoAsked(ctx, id)
	if err != nil {
		return nil, snapshot.Session{}, err
	}
	v, err := h.Session(s.id)
	if err != nil {
		return nil, v, err
	}
	i := slices.IndexFunc(v.Approvals, func(a *approvals.Approval) bool { return a.ID == id })
	if i < 0 { // asked this very moment
		return nil, v, ErrNoApproval
	}
	return v.Approvals[i], v, nil
}

// Inbox returns a snapshot of all sessions and links.
func (h *Hub) Inbox() snapshot.Inbox {
	in, archived := h.list()
	in.Archived = len(archived)
	return in
}

// Archived returns the sessions that were put away, the one first that was
// active last.
func (h *Hub) Archived() []snapshot.Session {
	_, archived := h.list()
	slices.SortStableFunc(archived, func(a, b snapshot.Session) int { return cmp.Compare(b.LastEvent, a.LastEvent) })
	return archived
}

func (h *Hub) list() (in snapshot.Inbox, archived []snapshot.Session) {
	h.mu.Lock()
	in = snapshot.Inbox{Rev: h.rev, Links: slices.Clone(h.links), Trouble: cmp.Or(h.trouble, h.tampered), Notices: slices.Clone(h.notices)}
	order := slices.Clone(h.order)
	h.mu.Unlock()
	for _, s := range slices.Backward(order) {
		if s.parent != nil {
			continue
		}
		s.mu.Lock()
		v := s.view()
		s.mu.Unlock()
		h.complete(s, &v)
		if v.State.Summary.Status.Archived() {
			archived = append(archived, v)
		} else {
			in.Sessions = append(in.Sessions, v)
		}
	}
	return in, archived
}

// link returns the link of that key, else the first of the provider.
func (h *Hub) link(key, provider string) state.Link {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.links, func(l state.Link) bool { return l.Key == key })
	if i < 0 {
		i = slices.IndexFunc(h.links, func(l state.Link) bool { return l.Provider == provider })
	}
	if i >= 0 {
		return h.links[i]
	}
	return state.Link{Key: provider, Provider: provider, DisplayName: provider, Status: state.LinkMissing, Detail: provider + " is not here any more."}
}

// Watch returns a channel that holds a token whenever a session (if id is not
// "") or the inbox has changed since the last receive, and a function that ends
// the watch. Watch first, then read: so nothing falls in between.
func (h *Hub) Watch(id string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	s := h.sessions[id]
	h.watchers[c] = struct{}{}
	h.mu.Unlock()
	if s != nil {
		s.mu.Lock()
		s.watchers[c] = struct{}{}
		s.mu.Unlock()
	}
	return c, func() {
		h.mu.Lock()
		delete(h.watchers, c)
		h.mu.Unlock()
		if s != nil {
			s.mu.Lock()
			delete(s.watchers, c)
			s.mu.Unlock()
		}
	}
}
