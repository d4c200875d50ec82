package hub

import (
	"cmp"
	"slices"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
)

// Session returns a snapshot of a session.
func (h *Hub) Session(id string) (snapshot.Session, error) {
	s, err := h.find(id)
	if err != nil {
		return snapshot.Session{}, err
	}
	s.mu.Lock()
	v := s.view()
	s.mu.Unlock()
	v.Link = h.link(v.State.Summary.Provider)
	return v, nil
}

// Since returns a snapshot and the parts that changed after seq, in page order.
// A part within a turn that is itself in the list is left out.
func (h *Hub) Since(id string, seq uint64) (snapshot.Session, []snapshot.Part, error) {
	s, err := h.find(id)
	if err != nil {
		return snapshot.Session{}, nil, err
	}
	s.mu.Lock()
	v := s.view()
	var parts []snapshot.Part
	for p, at := range s.changedAt {
		if at > seq {
			parts = append(parts, p)
		}
	}
	parts = slices.DeleteFunc(parts, func(p snapshot.Part) bool {
		return (p.Kind == snapshot.Response || p.Kind == snapshot.Foot) && s.changedAt[snapshot.Part{Kind: snapshot.Turn, Turn: p.Turn}] > seq
	})
	s.mu.Unlock()
	slices.SortFunc(parts, func(a, b snapshot.Part) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Index, b.Index))
	})
	v.Link = h.link(v.State.Summary.Provider)
	return v, parts, nil
}

// ApprovalView returns an approval and the session it belongs to.
func (h *Hub) ApprovalView(id string) (*approvals.Approval, snapshot.Session, error) {
	h.mu.Lock()
	s := h.asked[id]
	h.mu.Unlock()
	if s == nil {
		return nil, snapshot.Session{}, ErrNoApproval
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
	h.mu.Lock()
	in := snapshot.Inbox{Rev: h.rev, Links: slices.Clone(h.links), Trouble: h.trouble}
	order := slices.Clone(h.order)
	h.mu.Unlock()
	for _, s := range slices.Backward(order) {
		s.mu.Lock()
		v := s.view()
		s.mu.Unlock()
		v.Link = h.link(v.State.Summary.Provider)
		in.Sessions = append(in.Sessions, v)
	}
	return in
}

func (h *Hub) link(provider string) state.Link {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.IndexFunc(h.links, func(l state.Link) bool { return l.Provider == provider }); i >= 0 {
		return h.links[i]
	}
	return state.Link{Provider: provider, DisplayName: provider, Status: state.LinkMissing, Detail: provider + " is not here any more."}
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
