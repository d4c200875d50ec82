package copilot

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"nod/agentconn"
	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
)

// shown is all that the messages of a session say.
func shown(v snapshot.Session) string {
	var b strings.Builder
	for n := range snapshot.TurnCount(v.State) {
		for i := range snapshot.PartCount(v.State, n) {
			if p, ok := snapshot.PartAt(v.State, n, i).(*state.MarkdownPart); ok && !snapshot.Superseded(v.State, n, i) {
				b.WriteString(p.Content.String() + "|")
			}
		}
	}
	return b.String()
}

const asksToRun = `{"requestId":"r1","permissionRequest":{"kind":"shell","toolCallId":"c1"},"promptRequest":{"kind":"commands","toolCallId":"c1","fullCommandText":"ls","commandIdentifiers":["ls"]}}`

// TestCut: what comes while the link is lost is told by the session's log: a stream
// goes on where it was, what was asked waits on the same card, and nothing is there
// twice.
func TestCut(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true,
		event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`),
		event1(1, "assistant.turn_start", `{"turnId":"0"}`),
		event1(1, "assistant.message_delta", `{"messageId":"a","deltaContent":"one "}`),
		event1(1, "permission.requested", asksToRun))
	first := h.until(id, "a card", func(v snapshot.Session) bool { return len(v.Approvals) == 1 && shown(v) == "one |" })
	h.server.mu.Lock()
	h.server.working = true
	h.server.mu.Unlock()
	h.server.happens(id, false,
		event1(2, "assistant.message_delta", `{"messageId":"a","deltaContent":"two "}`),
		event1(3, "assistant.message_delta", `{"messageId":"a","deltaContent":"three"}`))
	h.server.cut()
	v := h.until(id, "the rest of the stream", func(v snapshot.Session) bool { return shown(v) == "one two three|" })
	if len(v.Approvals) != 1 || v.Approvals[0].ID != first.Approvals[0].ID || v.Approvals[0].State != approvals.Pending || v.State.ActiveTurn == nil {
		t.Errorf("the request is %+v", v.Approvals)
	}
	h.server.happens(id, true,
		event1(1, "permission.completed", `{"requestId":"r1","result":{"kind":"approved"}}`),
		event1(1, "assistant.message", `{"messageId":"a","content":"one two three."}`),
		event1(1, "session.idle", `{}`))
	v = h.until(id, "the end", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	if shown(v) != "one two three.|" || len(v.State.Turns) != 1 || v.State.Turns[0].State != state.TurnComplete || v.Approvals[0].Open() {
		t.Errorf("%q, %d turns, %s", shown(v), len(v.State.Turns), v.Approvals[0].State)
	}
}

// TestCutAfterTheEnd: a turn that has ended meanwhile ends, and one that began
// meanwhile is there.
func TestCutAfterTheEnd(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true,
		event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`),
		event1(1, "assistant.message_delta", `{"messageId":"a","deltaContent":"one"}`))
	h.until(id, "a text", func(v snapshot.Session) bool { return shown(v) == "one|" })
	h.server.happens(id, false,
		event1(1, "assistant.message", `{"messageId":"a","content":"one and all"}`), event1(1, "session.idle", `{}`),
		event1(2, "user.message", `{"messageId":"m2","content":"and then?","delivery":"idle"}`),
		event1(2, "assistant.message", `{"messageId":"b","content":"this"}`), event1(2, "session.idle", `{}`))
	h.server.cut()
	v := h.until(id, "two turns", func(v snapshot.Session) bool { return len(v.State.Turns) == 2 && v.State.ActiveTurn == nil })
	if shown(v) != "one and all|this|" || v.State.Turns[1].Message.Text != "and then?" {
		t.Errorf("%q", shown(v))
	}
	// The place in the log is known, and is where the next reading begins.
	h.server.called("session.eventLog.tail", 1)
	h.until(id, "a cursor", func(v snapshot.Session) bool { return v.State.Meta[cursorKey] != nil })
}

// TestServerEnded: a turn that a new run of the server does not go on with is ended,
// and says so.
func TestServerEnded(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true, event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`))
	h.server.cut()
	v := h.until(id, "the end of the turn", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	if v.State.Turns[0].State == state.TurnComplete {
		t.Errorf("the turn is %s", v.State.Turns[0].State)
	}
	if err := h.hub.Send(t.Context(), id, state.UserMessage("again")); err != nil {
		t.Error(err)
	}
}

// TestAnotherTerminal: a terminal that serves at an address where another one did
// before does not get the other one's session.
func TestAnotherTerminal(t *testing.T) {
	t.Setenv("COPILOT_HOME", t.TempDir())
	h := newHouseOf(t, func(r *remote) agentconn.Adapter { return r })
	id := h.session()
	h.server.happens(id, true, event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`))
	h.server.cut()
	h.until(id, "the end of the turn", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	for _, m := range h.server.calls {
		if m.Method == "session.resume" {
			t.Error("it was opened there")
		}
	}
}

// TestNotLoggedIn: without a login nothing is started, and a person is told which of
// three things to do.
func TestNotLoggedIn(t *testing.T) {
	t.Setenv("COPILOT_PROVIDER_BASE_URL", "")
	h := newHouse(t)
	h.server.mu.Lock()
	h.server.loggedOut = true
	h.server.mu.Unlock()
	_, err := h.manager.CreateSession(t.Context(), state.NewSession{Provider: h.adapter.Provider(), Folder: "/w"})
	for _, want := range []string{"copilot login", "COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"} {
		if !strings.Contains(agentconn.Sentence(err), want) {
			t.Errorf("it says nothing of %s: %v", want, err)
		}
	}
	h.server.mu.Lock()
	for _, m := range h.server.calls {
		if m.Method == "session.create" {
			t.Error("a session was started")
		}
	}
	h.server.mu.Unlock()
	t.Setenv("COPILOT_PROVIDER_BASE_URL", "http://127.0.0.1:9/v1") // a model provider of one's own
	h.session()
}

// TestFiftySessions: one server holds them all, each with what was said in it.
func TestFiftySessions(t *testing.T) {
	h := newHouse(t)
	var ids []string
	for n := range 50 {
		id := h.session()
		ids = append(ids, id)
		v, err := h.hub.Session(id)
		if err != nil || v.State.ActiveTurn == nil {
			t.Fatalf("no turn began: %v", err)
		}
		h.server.happens(id, true, event1(n, "user.message", `{"messageId":"`+v.State.ActiveTurn.ID+`","content":"hello","delivery":"idle"}`),
			event1(n, "assistant.message_delta", fmt.Sprintf(`{"messageId":"a%d","deltaContent":"one %d"}`, n, n)))
	}
	h.server.mu.Lock()
	h.server.working = true
	h.server.mu.Unlock()
	for n, id := range ids {
		h.server.happens(id, false, event1(n, "assistant.message", fmt.Sprintf(`{"messageId":"a%d","content":"one %d and all"}`, n, n)), event1(n, "session.idle", `{}`))
	}
	h.server.cut()
	for n, id := range ids {
		v := h.until(id, "its end", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil && len(v.State.Turns) == 1 })
		if want := fmt.Sprintf("one %d and all|", n); shown(v) != want {
			t.Errorf("%s says %q, not %q", id, shown(v), want)
		}
	}
}

// TestLostCall: a call that is in flight when the server goes ends with it.
func TestLostCall(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true, event1(1, "session.idle", `{}`))
	h.until(id, "rest", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	h.server.mu.Lock()
	h.server.silent["session.send"] = true
	h.server.mu.Unlock()
	result := make(chan error, 1)
	go func() { result <- h.hub.Send(t.Context(), id, state.UserMessage("is anybody there?")) }()
	h.server.called("session.send", 2)
	h.server.cut()
	select {
	case err := <-result:
		if err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it still waits")
	}
}

// TestInUse: a session that another process has open is never opened a second time.
func TestInUse(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true, event1(1, "session.idle", `{}`))
	h.until(id, "rest", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	h.server.mu.Lock()
	h.server.inUse = []string{id}
	h.server.mu.Unlock()
	h.server.cut()
	h.server.called("connect", 2)
	err := h.hub.Send(t.Context(), id, state.UserMessage("hello?"))
	for err != nil && strings.Contains(err.Error(), "link") { // it is being made
		err = h.hub.Send(t.Context(), id, state.UserMessage("hello?"))
	}
	if err == nil || !strings.Contains(err.Error(), "open in another program") {
		t.Errorf("sent: %v", err)
	}
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	for _, m := range h.server.calls {
		if m.Method == "session.resume" {
			t.Error("it was opened")
		}
	}
}

// TestMeet: a session that others open on the server is there by itself, with what
// was said in it.
func TestMeet(t *testing.T) {
	h := newHouse(t)
	h.session()
	h.server.happens("5", false,
		event1(1, "user.message", `{"messageId":"m1","content":"from a terminal","delivery":"idle"}`),
		event1(1, "assistant.message", `{"messageId":"b","content":"yes"}`), event1(1, "session.idle", `{}`),
		event1(2, "user.message", `{"messageId":"m2","content":"more","delivery":"idle"}`))
	h.server.mu.Lock()
	h.server.working = true
	h.server.mu.Unlock()
	h.server.say("session.lifecycle", map[string]any{"type": "session.updated", "sessionId": "5"})
	v := h.until("5", "the session", func(v snapshot.Session) bool { return v.State.ActiveTurn != nil })
	if len(v.State.Turns) != 1 || shown(v) != "yes|" || v.State.Summary.Title != "from a terminal" || state.FilePath(state.Value(v.State.Summary.WorkingDirectory)) != "/w" {
		t.Errorf("%+v %q", v.State.Summary, shown(v))
	}
}

// TestManyTurns: of a long session the newest turns are shown, and it says so.
func TestManyTurns(t *testing.T) {
	h := newHouse(t)
	h.session()
	for n := range maxTurns + 50 {
		h.server.happens("5", false,
			event1(n, "user.message", fmt.Sprintf(`{"messageId":"m%d","content":"number %d","delivery":"idle"}`, n, n)),
			event1(n, "assistant.message", fmt.Sprintf(`{"messageId":"a%d","content":"yes"}`, n)), event1(n, "session.idle", `{}`))
	}
	h.server.say("session.lifecycle", map[string]any{"type": "session.updated", "sessionId": "5"})
	v := h.until("5", "the turns", func(v snapshot.Session) bool { return len(v.State.Turns) >= maxTurns && v.State.ActiveTurn == nil })
	first := v.State.Turns[0]
	if len(v.State.Turns) != maxTurns || first.Message.Text != "number 50" {
		t.Errorf("%d turns, the first of which is %q", len(v.State.Turns), first.Message.Text)
	}
	if p, ok := first.ResponseParts[0].(*state.NotificationPart); !ok || p.Meta["nod.gap"] == nil {
		t.Errorf("it does not say that there were others: %+v", first.ResponseParts[0])
	}
}

// TestOddMessages: what cannot be read takes nothing with it.
func TestOddMessages(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true,
		event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`),
		`{"id":7,"type":"assistant.message"}`, `"text"`, event1(1, "brand.new", `{"x":1}`),
		event1(1, "assistant.message_delta", `{"messageId":5,"deltaContent":"x"}`),
		`{"id":"n","type":"assistant.message","timestamp":"yesterday","data":{"messageId":"a","content":"still here"}}`,
		event1(1, "session.idle", `null`))
	v := h.until(id, "the end", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil && len(v.State.Turns) == 1 })
	if shown(v) != "still here|" {
		t.Errorf("%q", shown(v))
	}
}
