package codex

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"nod/agentconn"
	"nod/state"
)

// TestJoinedTwice: what was in a turn when nod came to it is not shown twice when
// nod comes to it again.
func TestJoinedTwice(t *testing.T) {
	o := newOffice(t)
	o.leave()
	const id = "01a22c00-0000-7000-8000-00000000aaaa"
	said := func(item, text string) object {
		return object{"type": "userMessage", "id": item, "content": []object{{"type": "text", "text": text}}}
	}
	o.server.threads[id] = &played{status: object{"type": "active"}, turns: []object{{"id": "t1", "status": "inProgress", "items": []object{
		said("u1", "change it"),
		{"type": "agentMessage", "id": "m", "text": "which one?", "questions": []object{{"title": "Left or right?"}}},
		said("u2", "the left one"),
		{"type": "hookPrompt", "id": "h", "fragments": []object{{"text": "mind the lock"}}},
	}}}}
	whole := func() bool {
		return len(o.hub.Inbox().Sessions) > 0 && o.view(id).State.ActiveTurn != nil && strings.Contains(o.text(id), "mind the lock")
	}
	o.open()
	o.until("the turn", whole)
	o.server.cut()
	o.until("the link again", func() bool { return strings.Contains(o.text(id), "did not listen") })
	o.server.done(id, object{"type": "agentMessage", "id": "m2", "text": "so be it"})
	o.until("what comes after", func() bool { return strings.Contains(o.text(id), "so be it") })
	for _, once := range []string{"which one?", "Left or right?", "the left one", "mind the lock"} {
		if got := o.text(id); strings.Count(got, once) != 1 {
			t.Errorf("%q is not there once: %s", once, got)
		}
	}
}

// TestQueuedForAnotherTurn: a message that was queued behind a turn that ended
// unheard waits for the one that has begun after it: Codex would take it into that.
func TestQueuedForAnotherTurn(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	if err := o.hub.Queue(t.Context(), id, state.UserMessage("later")); err != nil {
		t.Fatal(err)
	}
	o.leave()
	o.server.end(id, "completed")
	o.server.mu.Lock()
	th := o.server.threads[id]
	th.status = object{"type": "active"}
	th.turns = append(th.turns, object{"id": "turn-x", "status": "inProgress", "items": []object{
		{"type": "userMessage", "id": "ux", "content": []object{{"type": "text", "text": "said in the terminal"}}}}})
	early := false
	o.server.hook = func(_ *websocket.Conn, m message) bool {
		early = early || m.Method == "turn/start" && th.turns[1]["status"] == "inProgress"
		return false
	}
	o.server.mu.Unlock()
	o.open()
	o.until("the other turn", func() bool { st := o.view(id).State; return st.ActiveTurn != nil && st.ActiveTurn.ID == "turn-x" })
	o.server.end(id, "completed")
	o.until("it to be sent", func() bool {
		st := o.view(id).State
		return len(st.QueuedMessages) == 0 && len(st.Turns) == 2 && st.ActiveTurn != nil
	})
	o.server.mu.Lock()
	defer o.server.mu.Unlock()
	if early {
		t.Error("it was sent while another turn ran")
	}
}

// TestTakenUnheard: a message that Codex took into the turn while nod was not there
// does not wait any more, and is shown.
func TestTakenUnheard(t *testing.T) {
	for version, item := range map[string]string{"0.171.0": "u9", "0.122.0": "item-2"} { // which numbers them anew
		t.Run(version, func(t *testing.T) {
			o := newOffice(t)
			o.leave()
			o.server.hook = func(c *websocket.Conn, m message) bool {
				switch m.Method {
				case "initialize":
					o.server.write(c, object{"id": m.ID, "result": object{"userAgent": "nod/" + version + " (test)"}})
				case "thread/resume":
					turns := o.server.threads[o.server.newest].turns
					o.server.write(c, object{"id": m.ID, "result": object{"thread": object{"id": o.server.newest, "cwd": "/w", "turns": turns}, "initialTurnsPage": object{"data": turns}}})
				default:
					return false
				}
				return true
			}
			o.open()
			id := o.begin()
			if err := o.hub.Steer(t.Context(), id, state.UserMessage("mind the gap")); err != nil {
				t.Fatal(err)
			}
			o.leave()
			o.server.done(id, object{"type": "userMessage", "id": item, "content": []object{{"type": "text", "text": "mind the gap"}}})
			o.open()
			o.until("what nod says when it is back", func() bool { return strings.Contains(o.text(id), "did not listen") })
			o.server.say("item/completed", object{"threadId": id, "turnId": "turn-0", "item": object{"type": "agentMessage", "id": "m", "text": "minded"}})
			o.until("what comes after", func() bool { return strings.Contains(o.text(id), "minded") })
			if m := o.view(id).State.SteeringMessage; m != nil {
				t.Errorf("it still waits: %+v", m)
			}
			if !strings.Contains(o.text(id), "mind the gap") {
				t.Errorf("it is not shown: %s", o.text(id))
			}
		})
	}
}

// TestDeletedAndAwake: nod does not subscribe to a thread that a person has
// deleted here when it works: nothing of it is shown, and Codex would keep it loaded.
func TestDeletedAndAwake(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.end(id, "completed")
	o.until("the end", func() bool { return o.view(id).State.ActiveTurn == nil })
	if err := o.hub.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	o.manager.Close()
	o.server.mu.Lock()
	o.server.threads[id].status = object{"type": "active"}
	resumed := 0
	o.server.hook = func(_ *websocket.Conn, m message) bool {
		var p struct{ ThreadID string }
		if _ = json.Unmarshal(m.Params, &p); m.Method == "thread/resume" && p.ThreadID == id {
			resumed++
		}
		return false
	}
	o.server.mu.Unlock()
	c := newConn(place{Provider, Provider, displayName, Config{Log: slog.New(slog.DiscardHandler)}}, o.hub, func(ctx context.Context, _ *conn) (dialled, error) { return dialUnix(ctx, o.server.path) })
	ctx, cancel := context.WithCancel(t.Context())
	ended, ready := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx, func(agentconn.Found) { close(ready) })
	}()
	defer func() { cancel(); <-ended }()
	<-ready
	c.awake(id)
	o.server.mu.Lock()
	defer o.server.mu.Unlock()
	if resumed != 0 {
		t.Errorf("nod subscribed to it %d times", resumed)
	}
}

// TestSubagentKnown: a call about a sub-agent that nod knew before it was started
// again takes nothing from it.
func TestSubagentKnown(t *testing.T) {
	o := newOffice(t)
	o.leave()
	const id, child = "01a22c00-0000-7000-8000-00000000aaaa", "01a22c00-0000-7000-8000-00000000cccc"
	call := func(item, tool string) object {
		return object{"type": "collabAgentToolCall", "id": item, "status": "completed", "tool": tool, "prompt": "look", "receiverThreadIds": []string{child}}
	}
	o.server.threads[id] = &played{status: object{"type": "active"}, turns: []object{{"id": "t1", "status": "inProgress", "items": []object{
		{"type": "userMessage", "id": "u1", "content": []object{{"type": "text", "text": "split it"}}}, call("c1", "spawnAgent"),
	}}}}
	o.server.hook = func(c *websocket.Conn, m message) bool {
		var p struct{ ThreadID string }
		_ = json.Unmarshal(m.Params, &p)
		if p.ThreadID == child {
			o.server.write(c, object{"id": m.ID, "result": object{"model": "m", "thread": object{"id": child, "cwd": "/w", "status": object{"type": "idle"}, "parentThreadId": id}}})
		}
		return p.ThreadID == child
	}
	o.open()
	o.until("the sub-agent", func() bool { _, err := o.hub.Session(child); return err == nil })
	o.server.say("turn/started", object{"threadId": child, "turn": object{"id": "k1"}})
	o.server.say("turn/plan/updated", object{"threadId": child, "turnId": "k1", "plan": []object{{"step": "look", "status": "completed"}}})
	o.server.say("turn/completed", object{"threadId": child, "turn": object{"id": "k1", "status": "completed"}})
	o.until("its turn", func() bool { return len(o.view(child).State.Turns) == 1 })
	o.leave()
	o.open()
	o.server.done(id, call("c2", "sendInput"))
	o.server.done(id, object{"type": "agentMessage", "id": "m", "text": "it looks"})
	o.until("what comes after the call", func() bool { return strings.Contains(o.text(id), "it looks") })
	if o.view(child).State.Meta["nod.plan"] == nil {
		t.Errorf("its plan is gone: %v", o.view(child).State.Meta)
	}
}

// TestLeaveWhileSending: nod leaves a thread that rested at the moment at which a
// person writes to it.
func TestLeaveWhileSending(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.end(id, "completed")
	o.until("the end", func() bool { return o.view(id).State.ActiveTurn == nil })
	o.manager.Close()
	c := newConn(place{Provider, Provider, displayName, Config{Log: slog.New(slog.DiscardHandler)}}, o.hub, func(ctx context.Context, _ *conn) (dialled, error) { return dialUnix(ctx, o.server.path) })
	ctx, cancel := context.WithCancel(t.Context())
	ended, ready := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx, func(agentconn.Found) { close(ready) })
	}()
	defer func() { cancel(); <-ended }()
	<-ready
	o.until("it is joined", func() bool { return c.isLive(id) })
	resumed := o.server.called("thread/resume")
	var late func()
	o.server.mu.Lock()
	o.server.hook = func(w *websocket.Conn, m message) bool {
		switch m.Method {
		case "turn/start": // it is answered when the thread has been left
			th := o.server.threads[id]
			th.turns, th.status = append(th.turns, object{"id": "turn-1", "status": "inProgress", "items": []object{}}), object{"type": "active"}
			o.server.tell("thread/status/changed", object{"threadId": id, "status": th.status})
			late = func() { o.server.write(w, object{"id": m.ID, "result": object{"turn": object{"id": "turn-1"}}}) }
			return true
		case "thread/unsubscribe":
			o.server.write(w, object{"id": m.ID, "result": object{}})
			late()
			return true
		}
		return false
	}
	o.server.mu.Unlock()
	sent := make(chan error, 1)
	go func() {
		sent <- c.Dispatch(ctx, o.view(id).State, &state.SessionTurnStarted{Message: state.UserMessage("more")})
	}()
	o.until("the message", func() bool { return o.server.called("turn/start") == 2 })
	c.leave(id)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	o.until("nod to listen", func() bool { return o.server.called("thread/resume") > resumed && c.isLive(id) })
}

// TestUnanswered: of what Codex does not answer nod does not say that it was refused.
func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose time costs none
		c := newConn(place{Provider, Provider, displayName, Config{Log: slog.New(slog.DiscardHandler)}}, nil, nil)
		c.ctx, c.wire, c.calls = t.Context(), &paper{}, map[int]*call{}
		err := publicly(c.call(t.Context(), "turn/start", object{}, nil), "Codex did not take the message")
		if got := agentconn.Sentence(err); !strings.Contains(got, "It may have done it all the same") {
			t.Errorf("said %q", got)
		}
	})
}
