package copilot

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nod/agentconn"
	"nod/state"
	"nod/state/hub"
	"nod/state/journal"
	"nod/state/snapshot"
)

// server is a Copilot server as far as the adapter calls it. A test says what its
// sessions' logs hold, and what it says by itself.
type server struct {
	t        *testing.T
	listener net.Listener

	mu        sync.Mutex
	conns     map[net.Conn]bool
	logs      map[string][]json.RawMessage
	inUse     []string
	silent    map[string]bool // methods that are not answered
	slow      string          // a method that is answered half a second later
	calls     []message       // that it got
	loggedOut bool
	working   bool // what it says of the activity of its sessions
	sent      int  // messages that it was sent
	queue     []json.RawMessage
	wake      chan struct{} // closed and made anew with each call
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, listener: l, conns: map[net.Conn]bool{}, logs: map[string][]json.RawMessage{}, silent: map[string]bool{}, wake: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			running.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.cut()
		running.Wait()
	})
	return s
}

// cut drops every connection without a word.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
		delete(s.conns, c)
	}
}

func (s *server) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		body, _, err := readFrame(r, maxCall)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(body, &m) != nil {
			s.t.Errorf("a call that is no JSON: %s", body)
			return
		}
		s.mu.Lock()
		s.calls = append(s.calls, m)
		close(s.wake)
		s.wake = make(chan struct{})
		result, silent := s.result(m), s.silent[m.Method]
		if m.Method == s.slow {
			s.mu.Unlock()
			time.Sleep(500 * time.Millisecond)
			s.mu.Lock()
		}
		if !silent {
			_ = s.write(c, map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
		}
		s.mu.Unlock()
	}
}

func (s *server) write(c net.Conn, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(c, raw)
}

// result is the answer to a call. Call it with mu held.
func (s *server) result(m message) any {
	var p struct {
		SessionID string `json:"sessionId"`
		Cursor    string `json:"cursor"`
		Max       int    `json:"max"`
		Mode      string `json:"mode"`
		ModelID   string `json:"modelId"`
		ID        string `json:"id"`
		Prompt    string `json:"prompt"`
	}
	_ = json.Unmarshal(m.Params, &p) // none for some calls
	log := s.logs[p.SessionID]
	switch m.Method {
	case "connect":
		return map[string]any{"ok": true, "protocolVersion": 3, "version": "9.9.9"}
	case "status.get":
		return map[string]any{"version": "9.9.9", "protocolVersion": 3}
	case "auth.getStatus":
		return map[string]any{"isAuthenticated": !s.loggedOut}
	case "sessions.checkInUse":
		return map[string]any{"inUse": append([]string{}, s.inUse...)}
	case "session.create", "session.resume":
		return map[string]any{"sessionId": p.SessionID, "mode": "interactive", "modelState": map[string]any{"modelId": "m"}}
	case "session.send":
		s.sent++
		if s.sent == 1 {
			return map[string]any{"messageId": "m-" + p.SessionID}
		}
		return map[string]any{"messageId": fmt.Sprintf("m%d-%s", s.sent, p.SessionID)}
	case "models.list":
		return json.RawMessage(`{"models":[{"id":"m1","name":"Model one","capabilities":{},"supportedReasoningEfforts":["low","max"]}]}`)
	case "session.mode.get":
		return "interactive"
	case "session.mode.set":
		return map[string]any{"status": "unchanged", "modeApplied": true}
	case "session.model.getCurrent":
		return map[string]any{"modelId": "m", "reasoningEffort": "medium"}
	case "session.model.switchTo":
		if p.ModelID == "none" {
			return map[string]any{"status": "unavailable", "message": "No such model."}
		}
		return map[string]any{"status": "applied"}
	case "session.permissions.getMode":
		return map[string]any{"mode": "manual"}
	case "session.permissions.setMode":
		return map[string]any{"success": p.Mode != "assisted", "mode": "manual"}
	case "session.queue.pendingItems":
		return map[string]any{"items": append([]json.RawMessage{}, s.queue...), "steeringMessages": []string{}}
	case "session.queue.sendNow":
		return map[string]any{"steered": true}
	case "session.queue.removeAt":
		n := len(s.queue)
		s.queue = slices.DeleteFunc(s.queue, func(item json.RawMessage) bool { return strings.Contains(string(item), `"id":"`+p.ID+`"`) })
		return map[string]any{"removed": len(s.queue) < n}
	case "session.queue.updateText":
		updated := false
		for i, item := range s.queue {
			if strings.Contains(string(item), `"id":"`+p.ID+`"`) {
				s.queue[i], updated = json.RawMessage(fmt.Sprintf(`{"id":%q,"messageId":"x","kind":"message","displayText":%q}`, p.ID, p.Prompt)), true
			}
		}
		return map[string]any{"updated": updated}
	case "sessions.fork":
		return map[string]any{"sessionId": "f0"}
	case "session.history.compact":
		return map[string]any{"success": true, "messagesRemoved": 1, "tokensRemoved": 1}
	case "session.metadata.snapshot":
		return map[string]any{"sessionId": p.SessionID, "startTime": "2026-01-01T00:00:00Z", "modifiedTime": "2026-01-01T00:00:00Z", "workingDirectory": "/w", "currentMode": "interactive"}
	case "session.metadata.activity":
		return map[string]any{"hasActiveWork": s.working, "abortable": s.working}
	case "session.eventLog.tail":
		return map[string]any{"cursor": fmt.Sprint(len(log))}
	case "session.eventLog.read":
		from := 0
		_, _ = fmt.Sscan(p.Cursor, &from) // from the begin without one
		from = min(from, len(log))
		to := min(from+p.Max, len(log))
		return map[string]any{"events": append([]json.RawMessage{}, log[from:to]...), "cursor": fmt.Sprint(to), "hasMore": to < len(log), "cursorStatus": "ok"}
	}
	return map[string]any{"success": true}
}

// happens adds events to a session's log, and tells them to who is connected unless
// they are only remembered.
func (s *server) happens(session string, told bool, events ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.logs[session] = append(s.logs[session], json.RawMessage(e))
		for c := range s.conns {
			if told {
				_ = s.write(c, map[string]any{"jsonrpc": "2.0", "method": "session.event", "params": map[string]any{"sessionId": session, "event": json.RawMessage(e)}})
			}
		}
	}
}

// waits sets what other clients have queued, and tells that it has changed.
func (s *server) waits(session string, items ...string) {
	s.mu.Lock()
	s.queue = nil
	for _, i := range items {
		s.queue = append(s.queue, json.RawMessage(i))
	}
	s.sent++ // for another id
	n := s.sent
	s.mu.Unlock()
	s.happens(session, true, event1(n, "pending_messages.modified", `{}`))
}

// count is how often a method was called.
func (s *server) count(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.calls {
		if m.Method == method {
			n++
		}
	}
	return n
}

// say tells everybody something.
func (s *server) say(method string, params any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = s.write(c, map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	}
}

// called waits until a method was called n times.
func (s *server) called(method string, n int) message {
	s.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		var got []message
		for _, m := range s.calls {
			if m.Method == method {
				got = append(got, m)
			}
		}
		wake := s.wake
		s.mu.Unlock()
		if len(got) >= n {
			return got[n-1]
		}
		select {
		case <-wake:
		case <-limit:
			s.t.Fatalf("%s was called %d times, not %d", method, len(got), n)
		}
	}
}

// event makes an event. Its id is its type and n.
func event1(n int, typ, data string) string {
	return fmt.Sprintf(`{"id":"%s-%d","type":"%s","timestamp":"2026-01-01T00:00:00Z","data":%s}`, typ, n, typ, data)
}

// kept is a server that holds its sessions without a keeper, and is no terminal.
type kept struct{ *remote }

// NewConn implements agentconn.Adapter.
func (k kept) NewConn(sink agentconn.Sink) agentconn.Conn { return newConn(k, k.cfg, sink, k.open) }

// house is a nod with a link to such a server.
type house struct {
	t       *testing.T
	server  *server
	hub     *hub.Hub
	manager *agentconn.Manager
	adapter agentconn.Adapter
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return newHouseOf(t, func(r *remote) agentconn.Adapter { return kept{r} })
}

func newHouseOf(t *testing.T, adapter func(*remote) agentconn.Adapter) *house {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	h := &house{t: t, server: newServer(t)}
	log := slog.New(slog.DiscardHandler)
	store, err := journal.Open(t.Context(), t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if h.hub, err = hub.New(t.Context(), store, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.hub.Close(context.Background()) })
	h.adapter = adapter(&remote{cfg: Config{Log: log, held: &held{}}, Server: Server{Address: h.server.listener.Addr().String()}})
	h.manager = agentconn.NewManager(h.hub, []agentconn.Adapter{h.adapter}, log)
	h.hub.SetUpstream(h.manager, []state.Link{{Key: h.adapter.Key(), Provider: h.adapter.Provider()}})
	h.manager.Start()
	t.Cleanup(h.manager.Close)
	return h
}

// session begins a session and a turn in it.
func (h *house) session() string {
	h.t.Helper()
	uri, err := h.manager.CreateSession(h.t.Context(), state.NewSession{Provider: h.adapter.Provider(), Folder: "/w"})
	if err != nil {
		h.t.Fatal(err)
	}
	id := sessionID(uri)
	if err := h.hub.Send(h.t.Context(), id, state.UserMessage("hello")); err != nil {
		h.t.Fatal(err)
	}
	return id
}

// until waits for something to show of a session.
func (h *house) until(id, what string, is func(snapshot.Session) bool) snapshot.Session {
	h.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		woken, done := h.hub.Watch(id)
		v, err := h.hub.Session(id)
		if err == nil && is(v) {
			done()
			return v
		}
		select {
		case <-woken:
		case <-time.After(50 * time.Millisecond): // it may not be known yet
		case <-limit:
			h.t.Fatalf("waiting for: %s; %v", what, err)
		}
		done()
	}
}
