package copilot

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	"nod/state/approvals"
	"nod/state/hub"
	"nod/state/journal"
)

// peer plays Copilot's side of a link: it notes every call and answers it.
type peer struct {
	t    *testing.T
	wire net.Conn

	mu     sync.Mutex
	events int
	calls  []message
	// before, if not nil, is called before an answer is written; what it returns is
	// the answer, nil for the usual one.
	before func(message) any
}

var usual = map[string]any{
	"connect":                             map[string]any{"ok": true, "protocolVersion": 3, "version": "1.0.102"},
	"status.get":                          map[string]any{"protocolVersion": 3, "version": "1.0.102"},
	"auth.getStatus":                      map[string]any{"isAuthenticated": true},
	"session.getMetadata":                 map[string]any{"session": map[string]any{"clientName": "nod"}},
	"session.create":                      map[string]any{"modelState": map[string]any{"modelId": "gpt-5.4"}},
	"session.permissions.locations.apply": map[string]any{"locationKey": "/w", "locationType": "directory", "appliedRules": []any{}},
}

// run answers until the link ends.
func (s *peer) run() {
	r := bufio.NewReader(s.wire)
	for {
		body, _, err := readFrame(r, maxCall)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(body, &m) != nil || m.Method == "" || m.ID == nil {
			continue
		}
		s.mu.Lock()
		s.calls = append(s.calls, m)
		before := s.before
		s.mu.Unlock()
		result := usual[m.Method]
		if before != nil {
			if other := before(m); other != nil {
				result = other
			}
		}
		if result == nil {
			result = map[string]any{"success": true}
		}
		if err, is := result.(error); is {
			s.write(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32603, "message": err.Error()}})
			continue
		}
		s.write(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
	}
}

func (s *peer) write(v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = writeFrame(s.wire, body) // the link may have ended
}

// tell says an event of a session.
func (s *peer) tell(id, kind, data string) {
	s.mu.Lock()
	s.events++
	n := s.events
	s.mu.Unlock()
	s.write(json.RawMessage(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":%q,"event":{"id":"e-%d","type":%q,"timestamp":"2026-11-30T02:00:00Z","data":%s}}}`, id, n, kind, data)))
}

// said returns the parameters of the calls of a method.
func (s *peer) said(method string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.calls {
		if m.Method == method {
			out = append(out, string(m.Params))
		}
	}
	return out
}

// link is a real link to such a peer, with a session in which a turn runs.
type link struct {
	*peer
	conn *conn
	hub  *hub.Hub
	id   string
	// leaving, if not nil, is called when an answer is on its way to the adapter.
	leaving func()
}

// Answer has the link answer. The other calls of an upstream are not made.
func (l *link) Answer(ctx context.Context, r state.Request, d state.Decision) error {
	if l.leaving != nil {
		l.leaving()
	}
	return l.conn.Answer(ctx, r, d)
}

func (l *link) CreateSession(context.Context, state.NewSession) (string, error) { return "", errLost }

func (l *link) Dispatch(context.Context, string, *state.Session, state.Action) error { return errLost }

func (l *link) Operate(context.Context, string, *state.Session, string, map[string]string) (string, error) {
	return "", errLost
}

func newLink(t *testing.T) *link {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	store, err := journal.Open(t.Context(), t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h, err := hub.New(t.Context(), store, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	near, far := net.Pipe()
	l := &link{peer: &peer{t: t, wire: far}, hub: h}
	a := &remote{cfg: Config{Log: log, held: &held{}}, Server: Server{Address: "127.0.0.1:1", TokenFile: "none"}}
	l.conn = newConn(a, a.cfg, h, func(context.Context) (dialled, error) { return dialled{wire: near, epoch: "e", lasting: true}, nil })
	h.SetUpstream(l, []state.Link{{Key: a.Key(), Provider: a.Provider(), DisplayName: "Copilot", Status: state.LinkUp, Epoch: "e"}})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(l.run)
	ready := make(chan bool)
	running.Go(func() {
		err := l.conn.Run(ctx, func(agentconn.Found) { close(ready) })
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		_ = far.Close()
		running.Wait()
	})
	<-ready
	uri, err := l.conn.CreateSession(t.Context(), state.NewSession{Folder: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	l.id = strings.TrimPrefix(uri, state.SessionScheme)
	l.tell(l.id, "user.message", `{"messageId":"t-1","content":"go"}`)
	return l
}

// until waits for something that the link does by itself.
func (l *link) until(what string, is func() bool) {
	l.t.Helper()
	for range 2000 {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	l.t.Fatalf("never: %s", what)
}

// approval returns the request of that id, nil if it was not asked yet.
func (l *link) approval(id string) *approvals.Approval {
	v, err := l.hub.Session(l.id)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, a := range slices.Backward(v.Approvals) {
		if string(a.Request.UpstreamID) == string(requestID(id)) {
			return a
		}
	}
	return nil
}

// ask has Copilot ask, and returns what a person sees of it.
func (l *link) ask(id, kind, data string) *approvals.Approval {
	l.t.Helper()
	l.tell(l.id, kind, `{"requestId":"`+id+`",`+data+`}`)
	var a *approvals.Approval
	l.until("asked "+kind+" "+data, func() bool { a = l.approval(id); return a != nil })
	return a
}

func (l *link) decide(a *approvals.Approval, d state.Decision) error {
	_, err := l.hub.Decide(context.Background(), "me", a.ID, a.Digest, a.Nonce, d)
	return err
}

func (l *link) ends(a *approvals.Approval, as approvals.State) {
	l.t.Helper()
	l.until("it ends as "+string(as), func() bool {
		v, err := l.hub.Session(l.id)
		return err == nil && slices.ContainsFunc(v.Approvals, func(b *approvals.Approval) bool { return b.ID == a.ID && b.State == as })
	})
}

// call returns the state of a tool call of the turn in progress.
func (l *link) call(id string) (k state.ToolCall) {
	v, err := l.hub.Session(l.id)
	if err != nil || v.State.ActiveTurn == nil {
		l.t.Fatal(err, "or no turn")
	}
	for _, p := range v.State.ActiveTurn.ResponseParts.All() {
		if p, ok := p.(*state.ToolCallPart); ok && p.ToolCall.ToolCallID == id {
			k = p.ToolCall
		}
	}
	return k
}
