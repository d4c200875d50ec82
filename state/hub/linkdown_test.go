package hub

import (
	"encoding/json"
	"errors"
	"testing"

	"nod/state"
	"nod/state/approvals"
)

// link changes how the link is, of an agent that outlives nod.
func (h *house) link(status state.LinkStatus, epoch string) {
	h.t.Helper()
	h.hub.LinkChanged(h.t.Context(), state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: status, Epoch: epoch, Lasting: true})
}

// lastingHouse is a house whose agent outlives nod.
func lastingHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t)
	h.link(state.LinkUp, "e1")
	if _, err := h.hub.Begin(t.Context(), "codex", h.view().State.Summary, nil); err != nil {
		t.Fatal(err)
	}
	return h
}

// again has the agent ask what it asked before.
func (h *house) again(a *approvals.Approval, epoch, id string) {
	h.t.Helper()
	r := a.Request
	r.Epoch, r.UpstreamID = epoch, []byte(id)
	h.hub.Ask(h.t.Context(), r)
}

// sent waits for what is on its way, and returns what has reached the agent.
func (h *house) sent() []state.Decision {
	h.hub.delivering.Wait()
	h.agent.mu.Lock()
	defer h.agent.mu.Unlock()
	return h.agent.answers
}

// TestR6AllowIsRefusedWhileTheLinkIsDown: it is neither recorded nor sent later.
func TestR6AllowIsRefusedWhileTheLinkIsDown(t *testing.T) {
	for _, status := range []state.LinkStatus{state.LinkLost, state.LinkConnecting, state.LinkIdle} {
		h := lastingHouse(t)
		a := h.ask("7")
		h.link(status, "e1")
		if _, err := h.decide(a, "accept"); !errors.Is(err, ErrLinkDown) {
			t.Errorf("%s: %v", status, err)
		}
		h.link(state.LinkUp, "e1")
		h.again(a, "e1", "7")
		if got := h.approval(a.ID); got.State != approvals.Pending || len(h.sent()) != 0 {
			t.Errorf("%s: it is %s, and %v reached the agent", status, got.State, h.sent())
		}
	}
}

// TestR6DenialWaitsForTheLink: it is recorded, outlives nod, and is sent once when
// the agent asks the same again, or says that it still waits.
func TestR6DenialWaitsForTheLink(t *testing.T) {
	for name, asks := range map[string]func(h *house, a *approvals.Approval){
		"asked again": func(h *house, a *approvals.Approval) { h.again(a, "e1", "7") },
		"still waited": func(h *house, a *approvals.Approval) {
			h.hub.Waiting(t.Context(), h.uri, "e1", []json.RawMessage{[]byte("7")})
		},
	} {
		for _, restarts := range []bool{false, true} {
			h := lastingHouse(t)
			a := h.ask("7")
			h.link(state.LinkLost, "e1")
			if got, err := h.decide(a, "decline"); err != nil || got.State != approvals.Decided {
				t.Fatalf("%s: %+v, %v", name, got, err)
			}
			if restarts {
				h.restart()
				h.hub.LinkChanged(t.Context(), state.Link{Key: "codex", Status: state.LinkConnecting, Lasting: true})
			}
			if n := len(h.sent()); n != 0 {
				t.Fatalf("%s: %d answers went over a link that is down", name, n)
			}
			h.link(state.LinkUp, "e1")
			for range 3 {
				asks(h, a)
			}
			if got := h.sent(); len(got) != 1 || got[0].OptionID != "decline" {
				t.Errorf("%s, restart %v: %+v reached the agent", name, restarts, got)
			}
			if got := h.approval(a.ID); got.State != approvals.Sent || got.Actor != "me" {
				t.Errorf("%s, restart %v: it is %s", name, restarts, got.State)
			}
		}
	}
}

// TestR6DenialOfAnotherRun: what was denied while the link was down and is asked
// anew over another connection is denied there; an open request is a new one, which
// a person is asked, and so is anything else.
func TestR6DenialOfAnotherRun(t *testing.T) {
	h := lastingHouse(t)
	denied := h.ask("7")
	h.link(state.LinkLost, "e1")
	if _, err := h.decide(denied, "decline"); err != nil {
		t.Fatal(err)
	}
	h.link(state.LinkUp, "e2")
	other := denied.Request
	other.Params = json.RawMessage(`{"other":1}`)
	other.Epoch, other.UpstreamID = "e2", []byte("8")
	h.hub.Ask(t.Context(), other)
	if as := h.view().Approvals; as[len(as)-1].State != approvals.Pending || len(h.sent()) != 0 {
		t.Errorf("another request was answered with the denial: %s", as[len(as)-1].State)
	}
	h.again(denied, "e2", "9")
	if got := h.sent(); len(got) != 1 || got[0].OptionID != "decline" {
		t.Fatalf("%+v reached the agent", got)
	}
	as := h.view().Approvals
	if got := as[len(as)-1]; got.State != approvals.Sent || got.Actor != "me" || got.Request.Epoch != "e2" {
		t.Errorf("the new request is %+v", got)
	}
	if got := h.approval(denied.ID); got.State != approvals.Superseded {
		t.Errorf("the old one is %s", got.State)
	}
	h.again(denied, "e2", "10") // one denial answers one request
	if as := h.view().Approvals; as[len(as)-1].State != approvals.Pending || len(h.sent()) != 1 {
		t.Error("a denial was sent twice")
	}
	h.crash() // all of it is on disk
	if got := h.approval(denied.ID); got.State != approvals.Superseded {
		t.Errorf("after a crash it is %s", got.State)
	}
}

// TestR6AllowIsNotCarriedOver: what was approved and may not have arrived is asked
// anew.
func TestR6AllowIsNotCarriedOver(t *testing.T) {
	h := lastingHouse(t)
	a := h.ask("7")
	h.agent.fail = errors.New("the pipe broke")
	if _, err := h.decide(a, "accept"); err != nil {
		t.Fatal(err)
	}
	h.agent.fail = nil
	for _, epoch := range []string{"e1", "e2"} {
		h.link(state.LinkLost, "e1")
		h.link(state.LinkUp, epoch)
		h.again(a, epoch, "7")
		as := h.view().Approvals
		if got := as[len(as)-1]; got.ID == a.ID || got.State != approvals.Pending || len(h.sent()) != 0 {
			t.Errorf("epoch %s: it is %s, and %v reached the agent", epoch, got.State, h.sent())
		}
	}
	if got := h.approval(a.ID); got.State != approvals.DeliveryUnknown {
		t.Errorf("the old one is %s", got.State)
	}
}

// TestR6HeldDenialEnds with its turn, or when the agent had another answer.
func TestR6HeldDenialEnds(t *testing.T) {
	for name, end := range map[string]func(h *house){
		"turn":      func(h *house) { h.apply(&state.SessionTurnComplete{TurnID: "turn-0"}) },
		"elsewhere": func(h *house) { h.hub.Waiting(t.Context(), h.uri, "e1", nil) },
		"gone":      func(h *house) { h.hub.Gone(t.Context(), h.uri, "It is gone.") },
	} {
		h := lastingHouse(t)
		a := h.ask("7")
		h.link(state.LinkLost, "e1")
		if _, err := h.decide(a, "decline"); err != nil {
			t.Fatal(err)
		}
		h.link(state.LinkUp, "e1")
		end(h)
		if got := h.approval(a.ID); got.Open() || len(h.sent()) != 0 {
			t.Errorf("%s: it is %s", name, got.State)
		}
	}
}
