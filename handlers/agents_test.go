package handlers

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"nod/agentconn"
	"nod/state"
)

// TestC53ConnectAgain: whoever sees that a link is lost has it made at once, and reads
// why it cannot be.
func TestC53ConnectAgain(t *testing.T) {
	s := newSite(t)
	link := state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Epoch: "e1"}
	for status, offered := range map[state.LinkStatus]bool{state.LinkUp: false, state.LinkLost: true, state.LinkStalled: true, state.LinkConnecting: false} {
		link.Status = status
		s.hub.LinkChanged(t.Context(), link)
		if got := strings.Contains(s.get(s.in, "/").body, "Connect again"); got != offered {
			t.Errorf("%s: offered is %v", status, got)
		}
	}
	link.Status, link.Lasting = state.LinkUp, true
	s.hub.LinkChanged(t.Context(), link)
	if !strings.Contains(s.get(s.in, "/").body, `name="agent" value="codex"`) {
		t.Error("a link to a runtime that goes on by itself cannot be made again")
	}

	again := url.Values{"agent": {"codex"}}
	if r := s.post(s.in, "/agents/connect", again); r.status != http.StatusSeeOther || r.header.Get("Location") != "/" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if got := s.agent.listed; len(got) != 1 || got[0] != "connect codex" {
		t.Errorf("asked for %q", got)
	}
	s.agent.fail = &agentconn.PublicError{Message: "Codex is not installed.", Err: errors.New("a path that nobody is to read")}
	if r := s.post(s.in, "/agents/connect", again); r.status != http.StatusBadGateway || !strings.Contains(r.body, "Codex is not installed.") || strings.Contains(r.body, "a path") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
