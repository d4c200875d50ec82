package codex

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"nod/agentconn"
	"nod/state"
)

// TestTakenUnheard: a message that Codex took into the turn while nod was not there
// does not wait any more.
func TestTakenUnheard(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	if err := o.hub.Steer(t.Context(), id, state.UserMessage("mind the gap")); err != nil {
		t.Fatal(err)
	}
	o.leave()
	o.server.done(id, object{"type": "userMessage", "id": "u9", "content": []object{{"type": "text", "text": "mind the gap"}}})
	o.open()
	o.until("the message", func() bool { return strings.Contains(o.text(id), "mind the gap") })
	if m := o.view(id).State.SteeringMessage; m != nil {
		t.Errorf("it still waits: %+v", m)
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
