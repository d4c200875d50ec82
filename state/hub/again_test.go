package hub

import (
	"encoding/json"
	"testing"

	"nod/state"
	"nod/state/approvals"
)

// TestR4OtherContentIsAnotherRequest: what is asked under the id of an open request
// with other content takes its place, and no answer to the first reaches the agent.
func TestR4OtherContentIsAnotherRequest(t *testing.T) {
	for name, held := range map[string]bool{"pending": false, "a denial that is held": true} {
		h := lastingHouse(t)
		old := h.ask("7")
		if held {
			h.link(state.LinkLost, "e1")
			if _, err := h.decide(old, "decline"); err != nil {
				t.Fatal(err)
			}
			h.link(state.LinkUp, "e1")
		}
		r := old.Request
		r.Params, r.Input = json.RawMessage(`{"command":"rm -rf /"}`), "rm -rf /"
		h.hub.Ask(t.Context(), r)
		h.hub.Ask(t.Context(), r) // once more is the same
		as := h.view().Approvals
		a := as[len(as)-1]
		if len(as) != 2 || a.State != approvals.Pending || a.Request.Input != "rm -rf /" {
			t.Fatalf("%s: %d requests, the newest is %s %q", name, len(as), a.State, a.Request.Input)
		}
		if was := h.approval(old.ID); was.Open() || len(h.sent()) > 0 {
			t.Errorf("%s: the old one is %s, sent was %v", name, was.State, h.sent())
		}
		if _, err := h.decide(old, "accept"); err == nil {
			t.Errorf("%s: the old one can be answered", name)
		}
	}
}
