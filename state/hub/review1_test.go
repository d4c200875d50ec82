package hub

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"nod/state"
	"nod/state/journal"
)

// TestReview1BeginTwice: what a server tells of a thread and what a call is answered
// with may make one session known at the same moment.
func TestReview1BeginTwice(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.Context(), t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), store, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close(t.Context()); _ = store.Close() }()
	failed := 0
	for n := range 100 {
		var all sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			all.Go(func() {
				m := &state.SessionSummary{Resource: fmt.Sprintf("%sx-%d", uriScheme, n), Provider: "codex"}
				_, errs[i] = h.Begin(t.Context(), "codex", m, nil, &state.SessionReady{})
			})
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				failed++
				t.Log(err)
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of 200 failed", failed)
	}
}

// TestReview1StaleInput: a request of another run of the agent is no longer asked,
// in the session's state as well.
func TestReview1StaleInput(t *testing.T) {
	h := newHouse(t)
	up := state.Link{Key: "codex", Provider: "codex", Status: state.LinkUp, Epoch: "e1", Lasting: true}
	if _, err := h.hub.Begin(t.Context(), "codex", h.view().State.Summary, nil); err != nil {
		t.Fatal(err)
	}
	h.hub.LinkChanged(t.Context(), up)
	q := &state.InputRequest{ID: "e1/7"}
	h.hub.Ask(t.Context(), state.Request{
		Session: h.uri, TurnID: h.view().State.ActiveTurn.ID, Provider: "codex", Epoch: "e1", UpstreamID: []byte("7"), Method: "ask", Params: []byte(`{}`),
		Kind: state.RequestPermissions, Questions: q, Options: []state.ConfirmationOption{{ID: "turn", Kind: state.OptionApprove}},
	}, on(h.uri, &state.SessionInputRequested{Request: *q}))
	up.Epoch = "e2"
	h.hub.LinkChanged(t.Context(), up)
	v := h.view()
	if a := v.Approvals[0]; a.Open() {
		t.Fatalf("the card is %s", a.State)
	}
	if n := len(v.State.InputRequests); n != 0 || v.State.Summary.Status.Activity() == state.StatusInputNeeded {
		t.Errorf("%d requests for input are left, and the session is said to need somebody: %v", n, v.State.Summary.Status)
	}
}

// TestReview1ChildMoves: a session is live on another link now, and so are its
// sub-agents: what they wait for can be answered, and outlives the first link.
func TestReview1ChildMoves(t *testing.T) {
	h := newHouse(t)
	h.hub.SetUpstream(h.agent, []state.Link{{Key: "codex", Provider: "codex", Status: state.LinkUp, Epoch: "e1"}, {Key: "codex@daemon", Provider: "codex", Status: state.LinkUp, Epoch: "e2"}})
	begin := func(link string) {
		if _, err := h.hub.Begin(t.Context(), link, h.view().State.Summary, nil); err != nil {
			t.Fatal(err)
		}
	}
	begin("codex")
	turn, child := h.view().State.ActiveTurn.ID, uriScheme+"kid"
	h.apply(&state.SessionToolCallStart{TurnID: turn, ToolCallID: "c", ToolName: "spawnAgent"},
		&state.SessionToolCallReady{TurnID: turn, ToolCallID: "c", Confirmed: state.ConfirmedNotNeeded},
		&state.SessionToolCallContentChanged{TurnID: turn, ToolCallID: "c", Content: []state.ToolResultContent{state.SubagentContent(child, "kid")}})
	begin("codex@daemon")
	h.hub.Ask(t.Context(), state.Request{Session: child, Provider: "codex", Epoch: "e2", UpstreamID: []byte("7"), Method: "ask", Params: []byte(`{}`),
		Kind: state.RequestCommand, Input: "ls", Options: []state.ConfirmationOption{{ID: "accept", Kind: state.OptionApprove}}})
	h.hub.LinkChanged(t.Context(), state.Link{Key: "codex", Provider: "codex", Status: state.LinkLost})
	v, err := h.hub.Session("kid")
	if err != nil || len(v.Approvals) != 1 {
		t.Fatal(v.Approvals, err)
	}
	if a := v.Approvals[0]; !a.Open() {
		t.Errorf("the card is %s because of a link that the session is not on", a.State)
	}
}
