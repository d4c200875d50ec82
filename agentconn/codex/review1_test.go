package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"nod/agentconn"
	"nod/state"
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
	"nod/state/snapshot"
)

// TestReview1RedialFails: one attempt to link anew that fails must not end what
// runs on a server that is there.
func TestReview1RedialFails(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.ask(id, "a")
	o.until("a card", func() bool { return len(o.pending(id)) == 1 })
	o.server.mu.Lock()
	o.server.frozen = true
	o.server.mu.Unlock()
	o.server.cut()
	o.until("the loss", func() bool { return o.link().Status == state.LinkLost })
	time.Sleep(1500 * time.Millisecond)
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

// TestReview1StopWhileLinking: nod is stopped while a link is being made.
func TestReview1StopWhileLinking(t *testing.T) {
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

// TestReview1LongThread: a thread of more than a page that works and asks while
// nod reads its history.
func TestReview1LongThread(t *testing.T) {
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
			o.server.write(c, object{"id": m.ID, "result": object{"data": newest[25:]}})
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
	o.until("both resumes", func() bool {
		return o.server.called("thread/resume") == 2 && o.server.called("thread/loaded/list") >= 2
	})
	time.Sleep(300 * time.Millisecond)
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

// TestReview1SubagentLate: a sub-agent that waits for a person when nod comes.
func TestReview1SubagentLate(t *testing.T) {
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
	for range 200 {
		if len(o.view(id).Approvals) == 1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("what the sub-agent waits for is on no page")
}

// TestReview1Backoff: a server that refuses is not asked every second for ever, nor
// is each refusal a line in the log.
func TestReview1Backoff(t *testing.T) {
	var dials atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		dials.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	var lines lineCounter
	log := slog.New(slog.NewTextHandler(&lines, nil))
	store, err := journal.Open(t.Context(), t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(t.Context(), store, log)
	if err != nil {
		t.Fatal(err)
	}
	a, err := configured(Config{Log: log}, Server{URL: "ws" + strings.TrimPrefix(s.URL, "http")})
	if err != nil {
		t.Fatal(err)
	}
	m := agentconn.NewManager(h, []agentconn.Adapter{a}, log)
	h.SetUpstream(m, []state.Link{{Key: a.Key(), Provider: a.Provider(), Status: state.LinkIdle}})
	rev := h.Inbox().Rev
	m.Start()
	time.Sleep(10 * time.Second)
	m.Close()
	_ = h.Close(context.Background())
	_ = store.Close()
	if n := dials.Load(); n > 6 {
		t.Errorf("%d dials, %d lines in the log and %d changes of the inbox in ten seconds, and so on for ever", n, lines.n.Load(), h.Inbox().Rev-rev)
	}
}

type lineCounter struct{ n atomic.Int32 }

func (c *lineCounter) Write(p []byte) (int, error) { c.n.Add(1); return len(p), nil }

// TestReview1LargeHistory: the newest turns of a thread are larger than a message
// may be.
func TestReview1LargeHistory(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	for n := range 18 {
		o.server.done(id, object{"type": "commandExecution", "id": fmt.Sprint("c", n), "command": "cat", "status": "completed", "exitCode": 0, "aggregatedOutput": strings.Repeat("x", 1<<20)})
	}
	o.server.cut()
	o.until("the link again", func() bool { return o.server.called("thread/resume") == 1 && o.link().Status == state.LinkUp })
	time.Sleep(callTimeout + 2*time.Second)
	v := o.view(id)
	if v.State.ActiveTurn == nil {
		t.Errorf("the turn runs on the server, and is ended here: %+v", v.State.Turns[0].Error)
	}
}

// TestReview1LostWhileAttaching: a link that is lost while a session is joined again
// is no reason to give the session up.
func TestReview1LostWhileAttaching(t *testing.T) {
	const tries = 30000 // seen with -race, some twenty times in ten thousand
	gone := 0
	for range tries {
		s := &goneSink{}
		w := &dyingWire{in: make(chan []byte, 10), dead: make(chan struct{})}
		c := newConn(place{Provider, Provider, displayName, Config{Log: slog.New(slog.DiscardHandler)}}, s, func(context.Context, *conn) (dialled, error) { return dialled{wire: w, epoch: "e", lasting: true}, nil })
		_ = c.Run(t.Context(), func(agentconn.Found) {})
		if s.gone.Load() > 0 {
			gone++
		}
	}
	if gone > 0 {
		t.Errorf("%d of %d sessions were given up because the link was lost", gone, tries)
	}
}

type goneSink struct {
	agentconn.Sink
	gone atomic.Int32
}

func (s *goneSink) Open(context.Context, string) []*state.Session {
	return []*state.Session{{Summary: &state.SessionSummary{Resource: uriScheme + "a"}}}
}
func (s *goneSink) Gone(context.Context, string, string) { s.gone.Add(1) }

// dyingWire ends when a thread is to be resumed.
type dyingWire struct {
	in   chan []byte
	dead chan struct{}
	once sync.Once
}

func (w *dyingWire) read(context.Context) ([]byte, bool, error) {
	select {
	case m := <-w.in:
		return m, false, nil
	case <-w.dead:
		return nil, false, context.Canceled
	}
}

func (w *dyingWire) write(_ context.Context, raw []byte) error {
	var m message
	_ = json.Unmarshal(raw, &m)
	switch m.Method {
	case "initialize":
		w.in <- fmt.Appendf(nil, `{"id":%s,"result":{"userAgent":"nod/0.171.0 (x)"}}`, m.ID)
	case "thread/loaded/list":
		w.in <- fmt.Appendf(nil, `{"id":%s,"result":{"data":["a"]}}`, m.ID)
	case "thread/resume":
		w.once.Do(func() { close(w.dead) })
	}
	return nil
}

func (w *dyingWire) end() (error, string) { return nil, "" }
