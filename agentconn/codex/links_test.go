package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"nod/agentconn"
	"nod/state"
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
	"nod/state/snapshot"
)

// TestRedialFails: one attempt to link anew that fails must not end what
// runs on a server that is there.
func TestRedialFails(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.ask(id, "a")
	o.until("a card", func() bool { return len(o.pending(id)) == 1 })
	o.server.mu.Lock()
	o.server.frozen = true
	o.server.mu.Unlock()
	o.server.cut()
	o.until("the loss", func() bool { return o.link().Status == state.LinkLost })
	o.until("an attempt", func() bool { return o.server.refused() > 1 })
	o.server.mu.Lock()
	o.server.frozen = false
	o.server.mu.Unlock()
	o.until("the link again", func() bool { return o.link().Status == state.LinkUp })
	v := o.view(id)
	if v.State.ActiveTurn == nil {
		t.Errorf("the turn runs on the server, and is ended here: %+v", v.State.Turns[0].Error)
	}
	if v.Approvals[0].State != approvals.Pending {
		t.Errorf("the card is %s", v.Approvals[0].State)
	}
}

// TestStopWhileLinking: nod is stopped while a link is being made.
func TestStopWhileLinking(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.leave()
	var hold atomic.Bool
	hold.Store(true)
	o.server.mu.Lock()
	o.server.hook = func(_ *websocket.Conn, m message) bool { return hold.Load() && m.Method == "initialize" }
	o.server.mu.Unlock()
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.Context(), o.dir, log)
	if err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(t.Context(), store, log)
	if err != nil {
		t.Fatal(err)
	}
	a := socket{place{Provider, Provider, displayName, Config{Log: log}}, o.server.path}
	m := agentconn.NewManager(h, []agentconn.Adapter{a}, log)
	h.SetUpstream(m, []state.Link{{Key: Provider, Provider: Provider, DisplayName: displayName, Status: state.LinkIdle}})
	m.Start()
	o.until("an attempt", func() bool { return o.server.called("initialize") == 2 })
	m.Close()
	_ = h.Close(context.Background())
	_ = store.Close()
	hold.Store(false)
	o.open()
	o.until("a look", func() bool { return o.server.called("thread/resume") > 0 })
	if v := o.view(id); v.State.ActiveTurn == nil {
		t.Errorf("the turn runs on the server, and is ended here: %+v", v.State.Turns[0].Error)
	}
}

// TestLongThread: a thread of more than a page that works and asks while
// nod reads its history.
func TestLongThread(t *testing.T) {
	o := newOffice(t)
	o.leave()
	const id = "01a22c00-0000-7000-8000-00000000aaaa"
	th := &played{status: object{"type": "active", "activeFlags": []string{"waitingOnApproval"}}}
	for n := range 30 {
		th.turns = append(th.turns, object{"id": fmt.Sprintf("old-%02d", n), "status": "completed", "items": []object{
			{"type": "userMessage", "id": fmt.Sprint("u", n), "content": []object{{"type": "text", "text": fmt.Sprintf("question %02d", n)}}}}})
	}
	th.turns = append(th.turns, object{"id": "new", "status": "inProgress", "items": []object{
		{"type": "userMessage", "id": "un", "content": []object{{"type": "text", "text": "change it"}}},
		{"type": "fileChange", "id": "f", "status": "inProgress", "changes": []object{{"path": "/w/x", "kind": object{"type": "update"}, "diff": "@@ -1 +1 @@\n-a\n+b\n"}}}}})
	th.pending = []object{{"id": 7, "method": "item/fileChange/requestApproval", "params": object{"threadId": id, "turnId": "new", "itemId": "f"}}}
	o.server.threads[id] = th
	o.server.hook = func(c *websocket.Conn, m message) bool {
		newest := slices.Clone(th.turns)
		slices.Reverse(newest)
		switch m.Method {
		case "thread/resume":
			o.server.write(c, object{"id": m.ID, "result": object{"thread": object{"id": id, "cwd": "/w", "status": th.status, "source": "cli"}, "model": "m",
				"initialTurnsPage": object{"data": newest[:25], "nextCursor": "25"}}})
			for _, p := range th.pending {
				o.server.write(c, p)
			}
			return true
		case "thread/turns/list":
			o.server.write(c, object{"id": m.ID, "result": object{"data": newest}})
			return true
		}
		return false
	}
	o.open()
	o.until("the card", func() bool {
		in := o.hub.Inbox()
		i := slices.IndexFunc(in.Sessions, func(v snapshot.Session) bool { return v.ID == id })
		return i >= 0 && len(in.Sessions[i].Approvals) == 1
	})
	o.until("all of it", func() bool { return len(o.view(id).State.Turns) == 30 })
	v := o.view(id)
	if n := len(v.State.Turns); n != 30 {
		t.Errorf("%d earlier turns are there", n)
	}
	if v.State.ActiveTurn == nil || v.State.ActiveTurn.Message.Text != "change it" {
		t.Errorf("the turn is %+v", v.State.ActiveTurn)
	}
	if a := v.Approvals[0]; a.Request.Kind != state.RequestFileChange || !strings.Contains(a.Request.Diff, "+b") {
		t.Errorf("the card is %s, %q, with %d options", a.Request.Kind, a.Request.Title, len(a.Request.Options))
	}
}

// TestSubagentLate: a sub-agent that waits for a person when nod comes.
func TestSubagentLate(t *testing.T) {
	o := newOffice(t)
	o.leave()
	const id, child = "01a22c00-0000-7000-8000-00000000aaaa", "01a22c00-0000-7000-8000-00000000cccc"
	o.server.threads[id] = &played{status: object{"type": "active"}, turns: []object{{"id": "t1", "status": "inProgress", "items": []object{
		{"type": "userMessage", "id": "u1", "content": []object{{"type": "text", "text": "split it"}}},
		{"type": "collabAgentToolCall", "id": "c1", "status": "completed", "tool": "spawnAgent", "prompt": "look", "receiverThreadIds": []string{child}},
	}}}}
	kid := &played{status: object{"type": "active", "activeFlags": []string{"waitingOnApproval"}}, turns: []object{{"id": "k1", "status": "inProgress", "items": []object{
		{"type": "userMessage", "id": "ku", "content": []object{{"type": "text", "text": "look"}}},
	}}}, pending: []object{{"id": 9, "method": "item/commandExecution/requestApproval", "params": object{"threadId": child, "turnId": "k1", "itemId": "kc", "command": "make", "cwd": "/w"}}}}
	o.server.threads[child] = kid
	o.server.hook = func(c *websocket.Conn, m message) bool {
		var p struct{ ThreadID string }
		_ = json.Unmarshal(m.Params, &p)
		if p.ThreadID != child || m.Method != "thread/read" && m.Method != "thread/resume" {
			return false
		}
		o.server.write(c, object{"id": m.ID, "result": object{"model": "m", "thread": object{"id": child, "cwd": "/w", "status": kid.status, "parentThreadId": id, "source": object{"subAgent": "x"}},
			"initialTurnsPage": object{"data": kid.turns}}})
		if m.Method == "thread/resume" {
			for _, r := range kid.pending {
				o.server.write(c, r)
			}
		}
		return true
	}
	o.open()
	o.until("the session", func() bool { return len(o.hub.Inbox().Sessions) > 0 && len(o.hub.Inbox().Sessions[0].Children) > 0 })
	o.server.say("thread/status/changed", object{"threadId": child, "status": kid.status})
	o.until("what the sub-agent waits for", func() bool { return len(o.view(id).Approvals) == 1 })
}

// TestLeaveWhileBeginning: another client begins a turn while nod leaves a
// thread that rested.
func TestLeaveWhileBeginning(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.end(id, "completed")
	o.until("the end", func() bool { return o.view(id).State.ActiveTurn == nil })
	o.manager.Close()
	c := newConn(place{Provider, Provider, displayName, Config{Log: slog.New(slog.DiscardHandler)}}, o.hub, func(ctx context.Context, _ *conn) (dialled, error) { return dialUnix(ctx, o.server.path) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	ready := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx, func(agentconn.Found) { close(ready) })
	}()
	defer func() { cancel(); <-ended }()
	<-ready
	o.until("it is joined", func() bool { return c.isLive(id) })
	subscribed := true
	o.server.mu.Lock()
	o.server.hook = func(w *websocket.Conn, m message) bool {
		switch m.Method {
		case "thread/resume":
			subscribed = true
		case "thread/unsubscribe": // it comes after what the terminal has said
			o.server.threads[id].turns = append(o.server.threads[id].turns, object{"id": "turn-1", "status": "inProgress", "items": []object{}})
			o.server.tell("thread/status/changed", object{"threadId": id, "status": object{"type": "active"}})
			o.server.tell("turn/started", object{"threadId": id, "turn": object{"id": "turn-1"}})
			o.server.tell("item/started", object{"threadId": id, "turnId": "turn-1", "item": object{"type": "userMessage", "id": "u", "content": []object{{"type": "text", "text": "more"}}}})
			subscribed = false
		}
		return false
	}
	o.server.mu.Unlock()
	c.leave(id)
	o.until("the turn", func() bool { return o.view(id).State.ActiveTurn != nil })
	o.until("nod to listen", func() bool {
		o.server.mu.Lock()
		defer o.server.mu.Unlock()
		return subscribed
	})
}

// TestOldFileChange: on Codex 0.122, whose histories hold no file changes, a
// request to change files waits while the connection is made anew.
func TestOldFileChange(t *testing.T) {
	o := newOffice(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(o.server.serve)}
	go func() { _ = s.Serve(l) }()
	defer func() { _ = s.Close() }()
	o.leave()
	o.server.hook = func(c *websocket.Conn, m message) bool {
		switch m.Method {
		case "initialize":
			o.server.write(c, object{"id": m.ID, "result": object{"userAgent": "nod/0.122.0 (test)"}})
			return true
		case "thread/resume":
			id := o.server.newest
			th := o.server.threads[id]
			o.server.write(c, object{"id": m.ID, "result": object{"model": "m", "thread": object{"id": id, "cwd": "/w", "status": th.status, "source": "cli", "turns": []object{
				{"id": "turn-0", "status": "inProgress", "items": []object{{"type": "userMessage", "id": "item-1", "content": []object{{"type": "text", "text": "go"}}}}}}}}})
			for _, p := range th.pending {
				o.server.write(c, p)
			}
			return true
		}
		return false
	}
	log := slog.New(slog.DiscardHandler)
	if o.store, err = journal.Open(t.Context(), o.dir, log); err != nil {
		t.Fatal(err)
	}
	if o.hub, err = hub.New(t.Context(), o.store, log); err != nil {
		t.Fatal(err)
	}
	a, err := configured(Config{Log: log}, Server{URL: "ws://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	o.manager = agentconn.NewManager(o.hub, []agentconn.Adapter{a}, log)
	o.hub.SetUpstream(o.manager, []state.Link{{Key: a.Key(), Provider: a.Provider(), DisplayName: displayName, Status: state.LinkIdle}})
	o.manager.Start()
	o.until("the link", func() bool { return o.link().Status == state.LinkUp })
	id, err := o.hub.Create(t.Context(), state.NewSession{Provider: o.link().Provider, Folder: "/w"}, "go")
	if err != nil {
		t.Fatal(err)
	}
	o.server.say("item/started", object{"threadId": id, "turnId": "turn-0", "item": object{"type": "fileChange", "id": "f", "status": "inProgress",
		"changes": []object{{"path": "/w/x", "kind": object{"type": "update"}, "diff": "@@ -1 +1 @@\n-a\n+b\n"}}}})
	o.server.mu.Lock()
	ask := object{"id": 3, "method": "item/fileChange/requestApproval", "params": object{"threadId": id, "turnId": "turn-0", "itemId": "f"}}
	o.server.threads[id].pending = []object{ask}
	for c := range o.server.conns {
		o.server.write(c, ask)
	}
	o.server.mu.Unlock()
	o.until("the card", func() bool {
		return len(o.pending(id)) == 1 && o.pending(id)[0].Request.Kind == state.RequestFileChange
	})
	o.server.cut()
	o.until("the link again", func() bool { return o.server.called("thread/resume") == 1 && o.link().Status == state.LinkUp })
	o.until("it to be asked again", func() bool { return len(o.pending(id)) == 1 && o.pending(id)[0].Request.Epoch == o.link().Epoch })
	for _, a := range o.pending(id) {
		if a.Request.Kind != state.RequestFileChange {
			t.Errorf("the card is %s, with %d options", a.Request.Kind, len(a.Request.Options))
		}
	}
}

// TestThreadDeleted: what a thread waited for that another client has
// deleted is no longer asked.
func TestThreadDeleted(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.ask(id, "a")
	o.until("a card", func() bool { return len(o.pending(id)) == 1 })
	o.server.mu.Lock()
	delete(o.server.threads, id)
	o.server.tell("thread/deleted", object{"threadId": id})
	o.server.mu.Unlock()
	o.until("the end", func() bool { return len(o.pending(id)) == 0 && o.view(id).State.ActiveTurn == nil })
}

// TestLargeHistory: the newest turns of a thread are larger than nod reads at once.
func TestLargeHistory(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	for n := range agentconn.MaxMessage>>20 + 1 {
		o.server.done(id, object{"type": "commandExecution", "id": fmt.Sprint("c", n), "command": "cat", "status": "completed", "exitCode": 0, "aggregatedOutput": strings.Repeat("x", 1<<20)})
	}
	o.server.cut()
	o.until("three attempts", func() bool { return o.server.called("thread/resume") == 3 })
	o.server.done(id, object{"type": "agentMessage", "id": "m", "text": "and so on"})
	o.until("what comes after", func() bool { return strings.Contains(o.text(id), "and so on") })
	if o.view(id).State.ActiveTurn == nil {
		t.Error("the turn runs on the server, and is ended here")
	}
}

// TestVeryLongThread: of a thread with more turns than nod reads the newest are
// there, and a line says that there are others.
func TestVeryLongThread(t *testing.T) {
	o := newOffice(t)
	o.leave()
	const id = "01a22c00-0000-7000-8000-00000000aaaa"
	th := &played{status: object{"type": "idle"}}
	for n := range pageTurns*maxPages + 5 {
		th.turns = append(th.turns, object{"id": fmt.Sprintf("old-%03d", n), "status": "completed", "items": []object{
			{"type": "userMessage", "id": fmt.Sprint("u", n), "content": []object{{"type": "text", "text": "question"}}}}})
	}
	o.server.threads[id] = th
	o.server.hook = func(c *websocket.Conn, m message) bool {
		if m.Method != "thread/turns/list" {
			return false
		}
		var p struct{ Cursor string }
		_ = json.Unmarshal(m.Params, &p) // there may be none
		from := 0
		_, _ = fmt.Sscan(p.Cursor, &from)
		newest := slices.Clone(th.turns)
		slices.Reverse(newest)
		page := object{"data": newest[from:min(from+pageTurns, len(newest))]}
		if from+pageTurns < len(newest) {
			page["nextCursor"] = fmt.Sprint(from + pageTurns)
		}
		o.server.write(c, object{"id": m.ID, "result": page})
		return true
	}
	o.open()
	o.until("all that is read", func() bool {
		in := o.hub.Inbox()
		return len(in.Sessions) == 1 && len(o.view(id).State.Turns) >= pageTurns*maxPages
	})
	if got := o.text(id); strings.Count(got, "which nod did not read") != 1 {
		t.Errorf("the page says %q", got)
	}
}
