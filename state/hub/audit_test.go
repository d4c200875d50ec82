package hub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
)

// changedAudit is a journal whose audit somebody has changed.
type changedAudit struct{ journal.Store }

func (changedAudit) VerifyAudit(context.Context) (int, error) {
	return 3, fmt.Errorf("%w: entry 4 is missing", journal.ErrChain)
}

// TestR42PagesTellOfAChangedAudit, and nod serves all the same.
func TestR42PagesTellOfAChangedAudit(t *testing.T) {
	h := newHouse(t)
	if in := h.hub.Inbox(); in.Trouble != "" {
		t.Errorf("before: %s", in.Trouble)
	}
	hub := newHub(changedAudit{h.store}, h.hub.log)
	hub.checkAudit(t.Context())
	if in := hub.Inbox(); !strings.Contains(in.Trouble, "nod audit check") || in.Rev == 0 {
		t.Errorf("the inbox says %q", in.Trouble)
	}
}

// TestR42WhatBecameOfADecision: each step is an entry, of which the decision's
// holds all that was shown and answered.
func TestR42WhatBecameOfADecision(t *testing.T) {
	h := newHouse(t)
	a := h.ask("1")
	if _, err := h.hub.Decide(t.Context(), "device", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: "accept", Address: "192.0.2.7"}); err != nil {
		t.Fatal(err)
	}
	h.hub.Resolved(t.Context(), h.uri, "e1", a.Request.UpstreamID, state.EndedAnswered)
	left := h.ask("2")
	h.hub.Resolved(t.Context(), h.uri, "e1", left.Request.UpstreamID, state.EndedElsewhere)
	about := func(id string) (whats []string, first journal.AuditEntry) {
		entries, err := h.store.AuditAbout(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			whats = append(whats, e.What)
		}
		return whats, entries[0]
	}
	whats, decision := about(a.ID)
	if want := []string{"request decided", "request sent", "request confirmed"}; !slices.Equal(whats, want) {
		t.Errorf("%q, not %q", whats, want)
	}
	if decision.Actor != "device" || decision.Address != "192.0.2.7" {
		t.Errorf("by %s from %s", decision.Actor, decision.Address)
	}
	var shown approvals.Approval
	if err := state.Unmarshal(decision.Detail, &shown); err != nil {
		t.Fatal(err)
	}
	if approvals.Digest(shown.Request) != a.Digest || shown.Decision.OptionID != "accept" || shown.Nonce != "" {
		t.Errorf("it holds %s", decision.Detail)
	}
	whats, end := about(left.ID)
	if want := []string{"request answered-elsewhere"}; !slices.Equal(whats, want) {
		t.Errorf("%q, not %q", whats, want)
	}
	if end.Actor != "" || !strings.Contains(string(end.Detail), left.Request.Title) {
		t.Errorf("by %q: %s", end.Actor, end.Detail)
	}
}
