package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
	"nod/state/snapshot"
)

// begin has the open turn's call c refer to sub-agents.
func (h *house) begin(uris ...string) {
	h.t.Helper()
	turn := h.view().State.ActiveTurn.ID
	var content []state.ToolResultContent
	for _, uri := range uris {
		content = append(content, state.SubagentContent(uri, "Look around"))
	}
	h.apply(&state.SessionToolCallStart{TurnID: turn, ToolCallID: "c", ToolName: "agent"},
		&state.SessionToolCallReady{TurnID: turn, ToolCallID: "c", Confirmed: state.ConfirmedNotNeeded},
		&state.SessionToolCallContentChanged{TurnID: turn, ToolCallID: "c", Content: content})
}

// of returns a house that speaks of a sub-agent of this one.
func (h *house) of(id string) *house {
	return &house{t: h.t, dir: h.dir, store: h.store, hub: h.hub, agent: h.agent, id: id, uri: uriScheme + id}
}

// TestSubagent begins with the call that refers to it, lives by itself, and comes
// back with its parent.
func TestSubagent(t *testing.T) {
	h := newHouse(t)
	h.begin(uriScheme + "kid")
	kid := h.of("kid")
	if v := h.view(); len(v.Children) != 1 || v.Children[0].ID != "kid" || v.Children[0].Summary.Title != "Look around" {
		t.Fatalf("sub-agents %+v", v.Children)
	}
	if in := h.hub.Inbox(); len(in.Sessions) != 1 {
		t.Errorf("%d sessions are in the list", len(in.Sessions))
	}
	cursor := h.view().Seq
	kid.apply(&state.SessionTurnStarted{TurnID: "k", Message: state.UserMessage("look")},
		&state.SessionResponsePart{TurnID: "k", Part: &state.MarkdownPart{ID: "m", Content: state.NewText("I see.")}})
	if _, parts, err := h.hub.Since(h.id, cursor); err != nil || !slices.Contains(parts, snapshot.Part{Kind: snapshot.Response}) {
		t.Errorf("the parent's page gets %v, %v", parts, err)
	}
	if v := kid.view(); v.Parent != h.id || v.State.Summary.Provider != "codex" || state.Value(v.State.Summary.WorkingDirectory) != "file:///w" {
		t.Errorf("it is %+v, of %q", v.State.Summary, v.Parent)
	}
	kid.apply(&state.SessionTurnComplete{TurnID: "k"})
	kid.begun(t, "grandkid")
	h.crash()
	kid = h.of("kid")
	v := h.view()
	if len(v.Children) != 1 || v.Children[0].ID != "kid" || v.State.ActiveTurn != nil {
		t.Fatalf("after a crash: sub-agents %+v", v.Children)
	}
	if st := kid.view().State; len(st.Turns) != 2 || st.Turns[0].State != state.TurnComplete || !strings.Contains(text(t, st), "I see.") || st.Turns[1].State != state.TurnError {
		t.Errorf("after a crash it is %s", text(t, st))
	}
	if v := kid.view(); len(v.Children) != 1 || v.Children[0].ID != "grandkid" || v.Parent != h.id {
		t.Errorf("its own sub-agents are %+v", v.Children)
	}
	if in := h.hub.Inbox(); len(in.Sessions) != 1 {
		t.Errorf("%d sessions are in the list", len(in.Sessions))
	}
}

// begun starts a turn that starts a sub-agent.
func (h *house) begun(t *testing.T, id string) {
	t.Helper()
	h.apply(&state.SessionTurnStarted{TurnID: fmt.Sprint("of ", id), Message: state.UserMessage("deeper")})
	h.begin(uriScheme + id)
}

// TestSubagentStartsOnce, however often it is referred to.
func TestSubagentStartsOnce(t *testing.T) {
	h := newHouse(t)
	h.begin(uriScheme+"kid", uriScheme+"kid")
	h.begin(uriScheme + "kid")
	h.apply(&state.SessionToolCallComplete{TurnID: "turn-0", ToolCallID: "c", Result: state.ToolCallResult{Content: []state.ToolResultContent{state.SubagentContent(uriScheme+"kid", "x"), state.SubagentContent(uriScheme+"two", "y")}}})
	for _, when := range []string{"live", "after a restart"} {
		var ids []string
		for _, c := range h.view().Children {
			ids = append(ids, c.ID)
		}
		if !slices.Equal(ids, []string{"kid", "two"}) {
			t.Errorf("%s: sub-agents %v", when, ids)
		}
		h.restart()
	}
}

// TestSubagentAsks: what it waits for shows on every page above it, and can be
// decided there.
func TestSubagentAsks(t *testing.T) {
	h := newHouse(t)
	h.begin(uriScheme + "kid")
	kid := h.of("kid")
	kid.begun(t, "grandkid")
	grandkid := h.of("grandkid")
	grandkid.apply(&state.SessionTurnStarted{TurnID: "g", Message: state.UserMessage("deeper still")})
	own := h.ask("1")
	cursor, rev := h.view().Seq, h.hub.Inbox().Rev
	asked := grandkid.ask("2")
	if _, parts, err := h.hub.Since(h.id, cursor); err != nil || !contains(parts, snapshot.Dock, snapshot.Composer) {
		t.Errorf("the page above gets %v, %v", parts, err)
	}
	for name, list := range map[string][]*approvals.Approval{
		"the page above": h.view().Approvals, "the one in between": append([]*approvals.Approval{own}, kid.view().Approvals...),
		"the inbox": h.hub.Inbox().Sessions[0].Approvals,
	} {
		if len(list) != 2 || list[0].ID != own.ID || list[1].ID != asked.ID {
			t.Errorf("%s shows %d requests", name, len(list))
		}
	}
	if h.hub.Inbox().Rev == rev {
		t.Error("the inbox is not told")
	}
	if _, v, err := h.hub.ApprovalView(t.Context(), asked.ID); err != nil || v.ID != "grandkid" {
		t.Errorf("its page is of %s, %v", v.ID, err)
	}
	cursor = h.view().Seq
	if got, err := h.decide(asked, "accept"); err != nil || got.State != approvals.Sent || len(h.agent.answers) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	h.hub.Resolved(t.Context(), grandkid.uri, "e1", json.RawMessage("2"), state.EndedAnswered)
	if got := grandkid.view().Approvals[0].State; got != approvals.Confirmed {
		t.Errorf("it is %s", got)
	}
	if v := h.view(); len(v.Approvals) != 1 {
		t.Errorf("the page above still shows %d requests", len(v.Approvals))
	}
	if _, parts, err := h.hub.Since(h.id, cursor); err != nil || !contains(parts, snapshot.Dock) {
		t.Errorf("the page above gets %v, %v", parts, err)
	}
}

// TestSubagentIsLostWithTheLink, and says so itself.
func TestSubagentIsLostWithTheLink(t *testing.T) {
	h := newHouse(t)
	h.begin(uriScheme + "kid")
	kid := h.of("kid")
	kid.apply(&state.SessionTurnStarted{TurnID: "k", Message: state.UserMessage("look")})
	a := kid.ask("1")
	h.hub.LinkChanged(t.Context(), state.Link{Key: "codex", Provider: "codex", DisplayName: "Codex", Status: state.LinkLost, Epoch: "e1"})
	if st := kid.view().State; st.ActiveTurn != nil || len(gaps(st)) != 1 {
		t.Errorf("it is %s", text(t, st))
	}
	if got := h.approval(a.ID).State; got != approvals.Expired {
		t.Errorf("its request is %s", got)
	}
}

// TestHostileSubagents: an agent begins no session under a name that is not nod's
// own kind, or that another has.
func TestHostileSubagents(t *testing.T) {
	h := newHouse(t)
	other, err := h.hub.Create(t.Context(), state.NewSession{Provider: "codex", Folder: "/w"}, "another")
	if err != nil {
		t.Fatal(err)
	}
	h.begin("", uriScheme, uriScheme+"..", uriScheme+"../x", uriScheme+"a/b", uriScheme+"a?b", uriScheme+"a#b", uriScheme+"a%2fb", uriScheme+"A",
		uriScheme+"é", uriScheme+"a b", uriScheme+"a\x00", uriScheme+"a\n", uriScheme+`"><script>`, uriScheme+strings.Repeat("a", 101),
		"kid", "http://evil.test/kid", "AHP-session:/kid", "ahp-session://kid", "file:///etc/passwd", h.uri, uriScheme+other)
	if c := h.view().Children; len(c) != 0 {
		t.Errorf("it began %+v", c)
	}
	if in := h.hub.Inbox(); len(in.Sessions) != 2 {
		t.Errorf("%d sessions are there", len(in.Sessions))
	}
	if v, err := h.hub.Session(other); err != nil || v.Parent != "" || v.State.Summary.Title != "another" {
		t.Errorf("the other session is %+v, %v", v.State.Summary, err)
	}
	rows, err := h.store.Sessions(t.Context())
	if err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestDeleteTakesSubagentsAlong, from memory and from the journal.
func TestDeleteTakesSubagentsAlong(t *testing.T) {
	h := newHouse(t)
	h.begin(uriScheme + "kid")
	kid := h.of("kid")
	kid.begun(t, "grandkid")
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	if err := h.hub.Delete(t.Context(), h.id); err == nil {
		t.Error("it was deleted while a sub-agent works")
	}
	kid.apply(&state.SessionTurnComplete{TurnID: "of grandkid"})
	if err := h.hub.Delete(t.Context(), h.id); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"live", "after a restart"} {
		for _, id := range []string{h.id, "kid", "grandkid"} {
			if _, err := h.hub.Session(id); err == nil {
				t.Errorf("%s: %s is still there", when, id)
			}
			if _, err := h.store.Newest(t.Context(), uriScheme+id); err != journal.ErrNotFound {
				t.Errorf("%s: the journal still has %s: %v", when, id, err)
			}
		}
		h.restart()
	}
}

// TestDeleteOneSubagent is not done: it goes with its parent.
func TestDeleteOneSubagent(t *testing.T) {
	h := newHouse(t)
	h.begin(uriScheme+"one", uriScheme+"two")
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	if err := h.hub.Delete(t.Context(), "one"); !errors.Is(err, ErrSubagent) {
		t.Errorf("%v", err)
	}
	for _, when := range []string{"live", "after a restart"} {
		if c := h.view().Children; len(c) != 2 {
			t.Errorf("%s: sub-agents %+v", when, c)
		}
		h.restart()
	}
}

// TestSubagentMovesAlong: a session is live on another link now, and so are its
// sub-agents: what they wait for can be answered, and outlives the first link.
func TestSubagentMovesAlong(t *testing.T) {
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

// TestR16InTheOrderAsked: on a page that shows what sub-agents wait for, too, what is
// asked later stands later, whoever asks it.
func TestR16InTheOrderAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.begin(uriScheme + "kid")
		kid := h.of("kid")
		kid.apply(&state.SessionTurnStarted{TurnID: "k", Message: state.UserMessage("look")})
		for i, who := range []*house{kid, h, kid, h} {
			id := fmt.Sprint(i + 1)
			turn := who.view().State.ActiveTurn.ID
			h.hub.Ask(t.Context(), state.Request{Session: who.uri, TurnID: turn, Provider: "codex", Epoch: "e1", UpstreamID: []byte(id), Params: []byte(`{}`), Kind: state.RequestCommand, Input: id})
			time.Sleep(time.Second)
			var order []string
			for _, a := range h.view().Approvals {
				order = append(order, a.Request.Input)
			}
			if got := strings.Join(order, ""); got != "1234"[:i+1] {
				t.Errorf("the order is %s", got)
			}
		}
	})
}
