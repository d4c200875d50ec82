package codex

import (
	"net"
	"net/http"

	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"nod/agentconn"
	"nod/state"
	"nod/state/hub"
	"nod/state/journal"
	"nod/state/snapshot"
)

// TestReview1LongThreadCommand: as TestReview1LongThread, with a command.
func TestReview1LongThreadCommand(t *testing.T) {
	o := newOffice(t)
	o.leave()
	const id = "01a22c00-0000-7000-8000-00000000aaaa"
	th := &played{status: object{"type": "active", "activeFlags": []string{"waitingOnApproval"}}}
	for n := range 30 {
		th.turns = append(th.turns, object{"id": fmt.Sprintf("old-%02d", n), "status": "completed", "items": []object{
			{"type": "userMessage", "id": fmt.Sprint("u", n), "content": []object{{"type": "text", "text": fmt.Sprintf("question %02d", n)}}}}})
	}
	th.turns = append(th.turns, object{"id": "new", "status": "inProgress", "items": []object{
		{"type": "userMessage", "id": "un", "content": []object{{"type": "text", "text": "run it"}}},
		{"type": "commandExecution", "id": "c", "status": "inProgress", "command": "make"}}})
	th.pending = []object{{"id": 7, "method": "item/commandExecution/requestApproval", "params": object{"threadId": id, "turnId": "new", "itemId": "c", "command": "make", "cwd": "/w"}}}
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
			o.server.write(c, object{"id": m.ID, "result": object{"data": newest[25:]}})
			return true
		}
		return false
	}
	o.open()
	o.until("both resumes", func() bool {
		return o.server.called("thread/resume") == 2 && o.server.called("thread/loaded/list") >= 2
	})
	time.Sleep(300 * time.Millisecond)
	v := o.view(id)
	if n := len(v.State.Turns); n != 30 {
		t.Errorf("%d earlier turns are there", n)
	}
	if v.State.ActiveTurn == nil || v.State.ActiveTurn.Message.Text != "run it" {
		t.Errorf("the turn began with %q", v.State.ActiveTurn.Message.Text)
	}
}

// TestReview1SameServerTwice: the daemon's socket, configured by its path as well.
func TestReview1SameServerTwice(t *testing.T) {
	o := newOffice(t)
	o.leave()
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.Context(), o.dir, log)
	if err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(t.Context(), store, log)
	if err != nil {
		t.Fatal(err)
	}
	o.store, o.hub = store, h
	first := socket{place{Provider, Provider, displayName, Config{Log: log}}, o.server.path}
	second, err := configured(Config{Log: log}, Server{URL: "unix://" + o.server.path})
	if err != nil {
		t.Skip("it is refused")
	}
	o.manager = agentconn.NewManager(h, []agentconn.Adapter{first, second}, log)
	h.SetUpstream(o.manager, []state.Link{{Key: first.Key(), Provider: Provider}, {Key: second.Key(), Provider: second.Provider()}})
	o.manager.Start()
	o.until("both links", func() bool {
		return !slices.ContainsFunc(h.Inbox().Links, func(l state.Link) bool { return l.Status != state.LinkUp })
	})
	id := o.begin()
	o.server.say("thread/status/changed", object{"threadId": id, "status": object{"type": "active"}})
	o.until("both joined", func() bool { return o.server.called("thread/resume") >= 1 })
	time.Sleep(300 * time.Millisecond)
	o.server.say("item/started", object{"threadId": id, "turnId": "turn-0", "item": object{"type": "agentMessage", "id": "m"}})
	for _, d := range []string{"a ", "b ", "c "} {
		o.server.say("item/agentMessage/delta", object{"threadId": id, "turnId": "turn-0", "itemId": "m", "delta": d})
	}
	time.Sleep(500 * time.Millisecond)
	if got := o.text(id); strings.Count(got, "b ") != 1 {
		t.Errorf("the text is %q", got)
	}
}

// TestReview1LeaveWhileBeginning: another client begins a turn while nod leaves a
// thread that rested.
func TestReview1LeaveWhileBeginning(t *testing.T) {
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
	time.Sleep(500 * time.Millisecond)
	o.server.mu.Lock()
	got := subscribed
	o.server.mu.Unlock()
	if !got {
		t.Error("a turn runs, is shown as running, and nod does not listen")
	}
}

// TestReview1ManyTurns measures how long the reader is busy with a history.
func TestReview1ManyTurns(t *testing.T) {
	o := newOffice(t)
	o.leave()
	const id = "01a22c00-0000-7000-8000-00000000aaaa"
	th := &played{status: object{"type": "idle"}}
	for n := range 225 {
		items := []object{{"type": "userMessage", "id": fmt.Sprint("u", n), "content": []object{{"type": "text", "text": "q"}}}}
		for k := range 20 {
			items = append(items, object{"type": "commandExecution", "id": fmt.Sprintf("c%d-%d", n, k), "command": "ls", "status": "completed", "exitCode": 0, "aggregatedOutput": "x\n"})
		}
		th.turns = append(th.turns, object{"id": fmt.Sprintf("old-%03d", n), "status": "completed", "items": items})
	}
	o.server.threads[id] = th
	start := time.Now()
	o.open()
	o.until("all", func() bool {
		in := o.hub.Inbox()
		return slices.ContainsFunc(in.Sessions, func(v snapshot.Session) bool { return v.ID == id && len(v.State.Turns) == 225 })
	})
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("the reader of the link did nothing else for %v", d)
	} else {
		t.Log(d)
	}
}

// TestReview1OldFileChange: on Codex 0.122, whose histories hold no file changes, a
// request to change files waits while the connection is made anew.
func TestReview1OldFileChange(t *testing.T) {
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
	time.Sleep(500 * time.Millisecond)
	for _, a := range o.pending(id) {
		if a.Request.Kind != state.RequestFileChange {
			t.Errorf("the card is %s, with %d options", a.Request.Kind, len(a.Request.Options))
		}
	}
	if len(o.pending(id)) != 1 {
		t.Errorf("%d cards", len(o.pending(id)))
	}
}

// TestReview1ThreadDeleted: what a thread waited for that another client has
// deleted is no longer asked.
func TestReview1ThreadDeleted(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.ask(id, "a")
	o.until("a card", func() bool { return len(o.pending(id)) == 1 })
	o.server.mu.Lock()
	delete(o.server.threads, id)
	o.server.tell("thread/deleted", object{"threadId": id})
	o.server.mu.Unlock()
	time.Sleep(500 * time.Millisecond)
	if len(o.pending(id)) != 0 || o.view(id).State.ActiveTurn != nil {
		t.Error("the session is shown as running, and its card as waiting")
	}
}
