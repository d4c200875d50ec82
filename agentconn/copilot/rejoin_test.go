package copilot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
)

// TestAnswerWhileReading: what a person answers while nod still reads what has happened
// reaches Copilot, once nod knows that it is waited for.
func TestAnswerWhileReading(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true,
		event1(1, "user.message", `{"messageId":"m-`+id+`","content":"hello","delivery":"idle"}`),
		event1(1, "permission.requested", asksToRun))
	a := h.until(id, "a card", func(v snapshot.Session) bool { return len(v.Approvals) == 1 }).Approvals[0]
	h.server.mu.Lock()
	h.server.working = true
	h.server.slow = "session.eventLog.read"
	h.server.mu.Unlock()
	h.server.cut()
	h.server.called("session.eventLog.read", 1)
	_, err := h.hub.Decide(context.Background(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: a.Request.Options[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	h.server.called("session.permissions.handlePendingPermissionRequest", 1)
	if v, _ := h.hub.Session(id); v.Approvals[0].State == approvals.AnsweredElsewhere {
		t.Errorf("it is %s", v.Approvals[0].State)
	}
}

// TestAnswerFirst: where an answer is what joins a session, the session goes on with
// what it waits for, and its folder is trusted as far as a person has said.
func TestAnswerFirst(t *testing.T) {
	l := newLink(t)
	a := l.ask("r1", "permission.requested", `"permissionRequest":{"kind":"url","url":"https://a.example/"},"promptRequest":{"kind":"url","url":"https://a.example/","intention":"look"}`)
	l.conn.leave(l.id)
	_ = l.decide(a, state.Decision{OptionID: a.Request.Options[0].ID}) // this peer has no log that tells of the request
	said := l.said("session.resume")
	if len(said) != 1 || !strings.Contains(said[0], `"continuePendingWork":true`) || !strings.Contains(said[0], `"enableFileHooks":false`) {
		t.Errorf("joined with %s", said)
	}
}

// TestToldAgain: a log that is told from its begin again, in the middle of a turn, tells
// nothing twice, also where a message was said into an earlier turn.
func TestToldAgain(t *testing.T) {
	h := newHouse(t)
	h.session()
	h.server.happens("5", false,
		event1(1, "user.message", `{"messageId":"m1","content":"first","delivery":"idle"}`),
		event1(9, "user.message", `{"messageId":"m9","content":"steered","delivery":"steering"}`),
		event1(1, "assistant.message", `{"messageId":"b","content":"yes"}`), event1(1, "session.idle", `{}`),
		event1(2, "user.message", `{"messageId":"m2","content":"second","delivery":"idle"}`),
		event1(2, "assistant.message_delta", `{"messageId":"c","deltaContent":"one "}`))
	h.server.mu.Lock()
	h.server.working = true
	h.server.mu.Unlock()
	h.server.say("session.lifecycle", map[string]any{"type": "session.updated", "sessionId": "5"})
	h.until("5", "the session", func(v snapshot.Session) bool { return v.State.ActiveTurn != nil && shown(v) == "yes|one |" })
	h.server.cut()
	h.server.happens("5", false, event1(3, "assistant.message_delta", `{"messageId":"c","deltaContent":"two"}`))
	h.server.called("connect", 2)
	h.server.called("session.eventLog.read", 2)
	h.server.happens("5", true, event1(4, "assistant.message_delta", `{"messageId":"c","deltaContent":"!"}`))
	v := h.until("5", "the rest", func(v snapshot.Session) bool { return len(shown(v)) > 12 })
	if len(v.State.Turns) != 1 || v.State.ActiveTurn == nil || v.State.ActiveTurn.ID != "m2" || shown(v) != "yes|one two!|" {
		t.Errorf("%d turns, active %+v, %q", len(v.State.Turns), v.State.ActiveTurn, shown(v))
	}
}

// TestOpenedElsewhere: a session that another process has opened meanwhile is not gone
// on with: it would be a second one.
func TestOpenedElsewhere(t *testing.T) {
	h := newHouse(t)
	id := h.session()
	h.server.happens(id, true, event1(1, "session.idle", `{}`))
	h.until(id, "rest", func(v snapshot.Session) bool { return v.State.ActiveTurn == nil })
	h.server.mu.Lock()
	h.server.inUse = []string{id}
	h.server.mu.Unlock()
	if err := h.hub.Send(t.Context(), id, state.UserMessage("hello?")); err == nil || !strings.Contains(err.Error(), "open in another program") {
		t.Errorf("sent: %v", err)
	}
	h.server.called("session.detach", 1)
	h.server.mu.Lock()
	h.server.inUse = nil
	h.server.mu.Unlock()
	if err := h.hub.Send(t.Context(), id, state.UserMessage("hello again")); err != nil {
		t.Error(err)
	}
	h.server.called("session.resume", 1)
}

// TestYield: a session that rests is left to the terminal that opens it, and one that
// works is not.
func TestYield(t *testing.T) {
	t.Setenv("COPILOT_HOME", t.TempDir())
	l := newLink(t)
	folder := sessionFolder(l.id)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"workspace.yaml": "cwd: /w\n", "events.jsonl": "", fmt.Sprintf("inuse.%d.lock", os.Getpid()): ""} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := terminals{l.conn.cfg}.NewConn(l.hub).(*watcher)
	l.until("a turn", func() bool { v, err := l.hub.Session(l.id); return err == nil && v.State.ActiveTurn != nil })
	w.look(t.Context())
	if l.conn.session(l.id) == nil {
		t.Error("it was left in the middle of a turn")
	}
	l.tell(l.id, "session.idle", "{}")
	l.until("it is followed", func() bool { w.look(t.Context()); return w.followed[l.id] != nil })
	l.until("it is left", func() bool { return l.conn.session(l.id) == nil && len(l.said("session.detach")) == 1 })
	w.followed[l.id].log.close()
}

// TestForkTrust: a fork runs no hooks of a folder that nobody trusts, where nod's own
// server opens it.
func TestForkTrust(t *testing.T) {
	t.Setenv("COPILOT_HOME", t.TempDir())
	l := newLink(t)
	l.conn.room.provider = Provider
	_ = l.conn.attach(t.Context(), "5", nil) // this peer does not describe it
	if said := l.said("session.resume"); len(said) != 1 || !strings.Contains(said[0], `"enableFileHooks":false`) || !strings.Contains(said[0], `"enableConfigDiscovery":false`) {
		t.Errorf("joined with %s", said)
	}
}

// TestHeardBounded: what is remembered to tell events apart that are sent again does not
// grow with the turns.
func TestHeardBounded(t *testing.T) {
	l := newLink(t)
	for n := range 50 {
		l.tell(l.id, "user.message", fmt.Sprintf(`{"messageId":"n%d","content":"go"}`, n))
		for range 10 {
			l.tell(l.id, "assistant.message_delta", `{"messageId":"m","deltaContent":"x"}`)
		}
		l.tell(l.id, "session.idle", "{}")
	}
	l.until("the turns", func() bool { v, err := l.hub.Session(l.id); return err == nil && len(v.State.Turns) == 51 })
	l.conn.alone(func() {
		if h := l.conn.sessions[l.id].heard; len(h.now)+len(h.before) > 50 {
			t.Errorf("%d ids are remembered", len(h.now)+len(h.before))
		}
	})
}

// TestOthersSession: what another client has begun keeps its provider and its hooks.
func TestOthersSession(t *testing.T) {
	t.Setenv("COPILOT_PROVIDER_BASE_URL", "http://127.0.0.1:9/v1")
	l := newLink(t)
	for name, own := range map[string]bool{"nod": true, "editor": false} {
		l.peer.mu.Lock()
		l.peer.before = func(m message) any {
			if m.Method != "session.getMetadata" {
				return nil
			}
			return map[string]any{"session": map[string]any{"clientName": name}}
		}
		l.peer.mu.Unlock()
		m := &state.SessionSummary{Resource: uriOf(name), Provider: l.conn.room.provider, Status: state.StatusIdle, WorkingDirectory: new(state.FileURI("/w"))}
		_ = l.conn.attach(t.Context(), name, m) // this peer has no log
		said := l.said("session.resume")
		if is := said[len(said)-1]; strings.Contains(is, "127.0.0.1:9") != own || strings.Contains(is, "enableFileHooks") != own {
			t.Errorf("of %s: joined with %s", name, is)
		}
	}
}
