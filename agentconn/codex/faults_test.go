package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

type object = map[string]any

// server plays an app-server on a unix socket. What it says of its threads follows
// what the real one does: see recordings kill9-*, multi-m7, daemon-*.
type server struct {
	t    *testing.T
	path string

	mu      sync.Mutex
	http    *http.Server
	conns   map[*websocket.Conn]bool
	threads map[string]*played
	asked   int
	busy    int // how many calls are still to be refused
	calls   []string
	answers []message
	newest  string // id of the thread that was started last
	hold    int    // how many thread/start are not answered before there are more
	total   int    // thread/start that come; then all are answered
	held    []func()
	most    int  // were held at once
	frozen  bool // handshakes are refused
	turned  int  // away
	// hook, if not nil, may answer a call in place of the server.
	hook func(c *websocket.Conn, m message) bool
}

// played is one thread of the server.
type played struct {
	turns   []object
	pending []object
	status  object
}

func newServer(t *testing.T) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "nod-s-") // short: a socket's name has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &server{t: t, path: filepath.Join(dir, "s"), conns: map[*websocket.Conn]bool{}, threads: map[string]*played{}}
	s.listen()
	t.Cleanup(s.close)
	return s
}

func (s *server) listen() {
	s.t.Helper()
	_ = os.Remove(s.path)
	l, err := net.Listen("unix", s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve)}
	go func() { _ = s.http.Serve(l) }()
}

// close ends the server as kill -9 does.
func (s *server) close() {
	_ = s.http.Close()
	s.cut()
}

// cut drops every connection without a word.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.CloseNow()
	}
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	frozen := s.frozen
	s.mu.Unlock()
	if frozen {
		s.mu.Lock()
		s.turned++
		s.mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	c, err := websocket.Accept(w, r, nil)
	if err != nil || r.Header.Get("Origin") != "" {
		return
	}
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.CloseNow()
	}()
	for {
		_, raw, err := c.Read(context.Background())
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(raw, &m) == nil {
			s.mu.Lock()
			s.handle(c, m)
			s.mu.Unlock()
		}
	}
}

func (s *server) write(c *websocket.Conn, o object) {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // made of strings and numbers
	}
	_ = c.Write(context.Background(), websocket.MessageText, raw) // to one who is gone
}

// tell sends a notification to everybody; with mu held.
func (s *server) tell(method string, params object) {
	for c := range s.conns {
		s.write(c, object{"method": method, "params": params})
	}
}

// say is tell for tests.
func (s *server) say(method string, params object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(method, params)
}

// handle answers a call; with mu held.
func (s *server) handle(c *websocket.Conn, m message) {
	if m.Method == "" {
		s.answers = append(s.answers, m)
		for id, th := range s.threads {
			th.pending = slices.DeleteFunc(th.pending, func(o object) bool {
				mine := fmt.Sprint(o["id"]) == string(m.ID)
				if mine {
					s.tell("serverRequest/resolved", object{"threadId": id, "requestId": o["id"]})
				}
				return mine
			})
		}
		return
	}
	if m.ID == nil {
		return
	}
	s.calls = append(s.calls, m.Method)
	if s.hook != nil && s.hook(c, m) {
		return
	}
	result := func(r object) { s.write(c, object{"id": m.ID, "result": r}) }
	refuse := func(code int, text string) {
		s.write(c, object{"id": m.ID, "error": object{"code": code, "message": text}})
	}
	var p struct {
		ThreadID string
		Cwd      string
		Limit    int
		Cursor   string

		InitialTurnsPage *struct{ Limit int }
	}
	_ = json.Unmarshal(m.Params, &p) // not all have them
	if s.busy > 0 && m.Method != "initialize" {
		s.busy--
		refuse(overloaded, "Server overloaded; retry later.")
		return
	}
	th := s.threads[p.ThreadID]
	wire := func(id string) object {
		return object{"id": id, "cwd": "/w", "preview": "first words", "createdAt": 1, "updatedAt": 2, "status": s.threads[id].status, "source": "cli", "turns": []object{}}
	}
	switch m.Method {
	case "initialize":
		result(object{"userAgent": "nod/0.171.0 (test)"})
	case "thread/loaded/list":
		ids := []string{}
		for id := range s.threads {
			ids = append(ids, id)
		}
		result(object{"data": ids})
	case "thread/start":
		s.newest = fmt.Sprintf("01a22c00-0000-7000-8000-%012d", len(s.threads))
		s.threads[s.newest] = &played{status: object{"type": "idle"}}
		answer := object{"thread": wire(s.newest), "model": "m"}
		s.held = append(s.held, func() { result(answer) })
		s.most = max(s.most, len(s.held))
		if len(s.held) == max(s.hold, 1) || len(s.threads) == s.total {
			if s.hold == 0 {
				s.release()
			} else { // more would come by then
				time.AfterFunc(50*time.Millisecond, func() {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.release()
				})
			}
		}
	case "turn/start":
		id := fmt.Sprintf("turn-%d", len(th.turns))
		th.turns = append(th.turns, object{"id": id, "status": "inProgress", "items": []object{{"type": "userMessage", "id": "u" + id, "content": []object{{"type": "text", "text": "go"}}}}})
		th.status = object{"type": "active", "activeFlags": []string{}}
		result(object{"turn": object{"id": id}})
		s.tell("turn/started", object{"threadId": p.ThreadID, "turn": object{"id": id}})
	case "thread/read", "thread/resume":
		if th == nil {
			refuse(-32600, "no rollout found for thread id "+p.ThreadID)
			return
		}
		answer := object{"thread": wire(p.ThreadID), "model": "m"}
		if page := p.InitialTurnsPage; page != nil {
			data := slices.Clone(th.turns)
			slices.Reverse(data)
			answer["initialTurnsPage"] = object{"data": data}
		}
		result(answer)
		if m.Method == "thread/resume" {
			for _, o := range th.pending {
				s.write(c, o)
			}
		}
	case "thread/turns/list":
		data := slices.Clone(th.turns)
		slices.Reverse(data)
		result(object{"data": data})
	default:
		result(object{})
	}
}

// release answers what was held; with mu held.
func (s *server) release() {
	for _, f := range s.held {
		f()
	}
	s.held = nil
}

// turn returns the newest turn of a thread.
func (s *server) turn(id string) object {
	ts := s.threads[id].turns
	return ts[len(ts)-1]
}

// done records an item as finished and, if anybody listens, says so.
func (s *server) done(id string, item object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turn(id)
	t["items"] = append(t["items"].([]object), item)
	s.tell("item/completed", object{"threadId": id, "turnId": t["id"], "item": item})
}

// end ends the newest turn of a thread.
func (s *server) end(id, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, th := s.turn(id), s.threads[id]
	t["status"], th.status, th.pending = status, object{"type": "idle"}, nil
	s.tell("turn/completed", object{"threadId": id, "turn": object{"id": t["id"], "status": status}})
	s.tell("thread/status/changed", object{"threadId": id, "status": th.status})
}

// ask asks for a command.
func (s *server) ask(id, item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := object{"id": s.asked, "method": "item/commandExecution/requestApproval", "params": object{
		"threadId": id, "turnId": s.turn(id)["id"], "itemId": item, "command": "make " + item, "cwd": "/w",
	}}
	s.asked++
	th := s.threads[id]
	th.pending = append(th.pending, o)
	th.status = object{"type": "active", "activeFlags": []string{"waitingOnApproval"}}
	for c := range s.conns {
		s.write(c, o)
	}
	s.tell("thread/status/changed", object{"threadId": id, "status": th.status})
}

// refused counts the handshakes that were.
func (s *server) refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turned
}

// called counts the calls of a method.
func (s *server) called(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c == method {
			n++
		}
	}
	return n
}

// office is a hub whose Codex is a server of a test.
type office struct {
	t       *testing.T
	server  *server
	hub     *hub.Hub
	store   journal.Store
	dir     string
	manager *agentconn.Manager
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, server: newServer(t), dir: t.TempDir()}
	o.open()
	t.Cleanup(o.leave)
	return o
}

func (o *office) open() {
	o.t.Helper()
	log := slog.New(slog.DiscardHandler)
	var err error
	if o.store, err = journal.Open(o.t.Context(), o.dir, log); err != nil {
		o.t.Fatal(err)
	}
	if o.hub, err = hub.New(o.t.Context(), o.store, log); err != nil {
		o.t.Fatal(err)
	}
	a := socket{place{Provider, Provider, displayName, Config{Log: log}}, o.server.path}
	o.manager = agentconn.NewManager(o.hub, []agentconn.Adapter{a}, log)
	o.hub.SetUpstream(o.manager, []state.Link{{Key: Provider, Provider: Provider, DisplayName: displayName, Status: state.LinkIdle}})
	o.manager.Start()
	o.until("the link", func() bool { return o.link().Status == state.LinkUp })
}

// leave stops this nod, and waits until the server has noticed.
func (o *office) leave() {
	o.manager.Close()
	o.until("the server to be alone", func() bool {
		o.server.mu.Lock()
		defer o.server.mu.Unlock()
		return len(o.server.conns) == 0
	})
	_ = o.hub.Close(context.Background())
	_ = o.store.Close()
}

func (o *office) link() state.Link { return o.hub.Inbox().Links[0] }

// until waits for what must come.
func (o *office) until(what string, f func() bool) {
	o.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			o.t.Fatalf("%s did not come; the link is %+v", what, o.link())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// begin starts a session; its id is that of the thread.
func (o *office) begin() string {
	o.t.Helper()
	id, err := o.hub.Create(o.t.Context(), state.NewSession{Provider: Provider, Folder: "/w"}, "go")
	if err != nil {
		o.t.Fatal(err)
	}
	return id
}

func (o *office) view(id string) snapshot.Session {
	o.t.Helper()
	v, err := o.hub.Session(id)
	if err != nil {
		o.t.Fatal(err)
	}
	return v
}

// text is all that a session's messages say.
func (o *office) text(id string) string {
	v := o.view(id)
	var b strings.Builder
	for n := range snapshot.TurnCount(v.State) {
		for i := range snapshot.PartCount(v.State, n) {
			switch p := snapshot.PartAt(v.State, n, i).(type) {
			case *state.MarkdownPart:
				b.WriteString(p.Content.String() + "\n")
			case *state.NotificationPart:
				b.WriteString("(" + p.Content.Text + ")\n")
			}
		}
	}
	return b.String()
}

func (o *office) pending(id string) (out []*approvals.Approval) {
	for _, a := range o.view(id).Approvals {
		if a.State == approvals.Pending {
			out = append(out, a)
		}
	}
	return out
}

func (o *office) approve(a *approvals.Approval) {
	o.t.Helper()
	if _, err := o.hub.Decide(o.t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: "accept"}); err != nil {
		o.t.Fatal(err)
	}
}

// TestCutInTheMiddle drops the connection in the middle of a message, with a
// request open: the turn goes on, the request is the same card, what was streamed
// meanwhile is filled in, and nothing is there twice.
func TestCutInTheMiddle(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	delta := func(text string) {
		o.server.say("item/agentMessage/delta", object{"threadId": id, "turnId": "turn-0", "itemId": "m1", "delta": text})
	}
	o.server.done(id, object{"type": "agentMessage", "id": "m0", "text": "before"})
	o.server.say("item/started", object{"threadId": id, "turnId": "turn-0", "item": object{"type": "agentMessage", "id": "m1"}})
	delta("one ")
	o.server.ask(id, "a")
	o.server.ask(id, "b")
	o.until("two cards", func() bool { return len(o.pending(id)) == 2 })
	before := o.pending(id)
	o.server.cut()
	o.until("the link again", func() bool { return o.server.called("initialize") == 2 && o.link().Status == state.LinkUp })
	delta("three ")
	o.server.done(id, object{"type": "agentMessage", "id": "m1", "text": "one two three "})
	o.until("all of the message", func() bool { return strings.Contains(o.text(id), "one two three ") })
	after := o.pending(id)
	if len(after) != 2 || after[0] != before[0] || after[1] != before[1] {
		t.Errorf("the cards were %v and are %v", before, after)
	}
	o.approve(after[1])
	o.until("the answer", func() bool { return len(o.pending(id)) == 1 })
	o.server.end(id, "completed")
	o.until("the end", func() bool { return o.view(id).State.ActiveTurn == nil })
	got := o.text(id)
	for text, times := range map[string]int{"before": 1, "did not listen": 1} {
		if n := strings.Count(got, text); n != times {
			t.Errorf("%q is there %d times:\n%s", text, n, got)
		}
	}
	o.server.mu.Lock()
	defer o.server.mu.Unlock()
	if len(o.server.answers) != 1 || string(o.server.answers[0].ID) != "1" {
		t.Errorf("Codex got %+v", o.server.answers)
	}
}

// TestAnsweredUnheard: a request that another client answers while nod is not
// there is no card any more when it comes back.
func TestAnsweredUnheard(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.ask(id, "a")
	o.server.ask(id, "b")
	o.until("two cards", func() bool { return len(o.pending(id)) == 2 })
	o.leave()
	o.server.mu.Lock()
	th := o.server.threads[id]
	th.pending = th.pending[1:]
	o.server.mu.Unlock()
	o.open()
	o.until("one card", func() bool { return len(o.pending(id)) == 1 })
	if a := o.pending(id)[0]; a.Request.ToolCallID != "b" {
		t.Errorf("the card is of %s", a.Request.ToolCallID)
	}
	if a := o.view(id).Approvals[0]; a.State != approvals.AnsweredElsewhere {
		t.Errorf("the other one is %s", a.State)
	}
}

// TestEndedUnheard: a turn that ends while nod is not there, and one that comes
// after it, are there when nod comes back.
func TestEndedUnheard(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.done(id, object{"type": "agentMessage", "id": "m0", "text": "first"})
	o.until("the begin", func() bool { return strings.Contains(o.text(id), "first") })
	o.leave()
	o.server.done(id, object{"type": "commandExecution", "id": "c", "command": "ls", "status": "completed", "aggregatedOutput": "a file\n", "exitCode": 0})
	o.server.done(id, object{"type": "agentMessage", "id": "m1", "text": "second"})
	o.server.end(id, "completed")
	o.server.mu.Lock()
	th := o.server.threads[id]
	th.turns = append(th.turns, object{"id": "turn-x", "status": "interrupted", "items": []object{
		{"type": "userMessage", "id": "ux", "content": []object{{"type": "text", "text": "and then"}}},
		{"type": "agentMessage", "id": "m2", "text": "third"},
	}}, object{"id": "turn-y", "rootTurnId": "turn-x", "status": "inProgress", "items": []object{ // as a review leaves behind
		{"type": "userMessage", "id": "uy", "content": []object{{"type": "text", "text": "look at it"}}},
	}})
	o.server.mu.Unlock()
	o.open()
	o.until("both turns", func() bool { return len(o.view(id).State.Turns) == 2 })
	o.until("all", func() bool { return strings.Contains(o.text(id), "third") })
	v := o.view(id)
	if v.State.ActiveTurn != nil || v.State.Turns[0].State != state.TurnComplete || v.State.Turns[1].State != state.TurnCancelled || v.State.Turns[1].Message.Text != "and then" {
		t.Errorf("the turns are %+v, %+v", v.State.Turns[0], v.State.Turns[1])
	}
	if got := o.text(id); strings.Count(got, "first") != 1 || strings.Count(got, "second") != 1 {
		t.Errorf("the text is %q", got)
	}
	if out := v.Terminals.Get("ahp-terminal:/" + id + "/turn-0/c"); out == nil || strings.Join(out.Output(), "") != "a file\n" {
		t.Errorf("the output is %+v", out)
	}
}

// TestServerGone (C08): a server that ends and does not come back takes along
// what was open on it, and no answer is taken in between.
func TestServerGone(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.ask(id, "a")
	o.until("a card", func() bool { return len(o.pending(id)) == 1 })
	a := o.pending(id)[0]
	o.server.close()
	o.until("the loss", func() bool { return o.link().Status == state.LinkLost })
	if _, err := o.hub.Decide(t.Context(), "me", a.ID, a.Digest, a.Nonce, state.Decision{OptionID: "accept"}); err == nil {
		t.Error("an answer was taken that cannot be sent")
	}
	if len(o.pending(id)) != 1 {
		t.Error("the card went at once: the server might come back")
	}
	o.until("the end", func() bool { return o.view(id).State.ActiveTurn == nil })
	if a := o.view(id).Approvals[0]; a.State != approvals.Expired {
		t.Errorf("the card is %s", a.State)
	}
	if !strings.Contains(o.text(id), "was lost here") {
		t.Errorf("the page says %q", o.text(id))
	}
}

// TestThreadGone: a server that comes back without a thread ends what was open in
// it, with what it says.
func TestThreadGone(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.close()
	o.server.mu.Lock()
	o.server.threads = map[string]*played{}
	o.server.mu.Unlock()
	o.server.listen()
	o.until("the end", func() bool { return o.view(id).State.ActiveTurn == nil })
	if e := o.view(id).State.Turns[0].Error; e == nil || !strings.Contains(e.Message, "no rollout found") {
		t.Errorf("the turn ended with %+v", e)
	}
}

// TestOverloaded: a server that refuses for now is asked again.
func TestOverloaded(t *testing.T) {
	o := newOffice(t)
	o.server.mu.Lock()
	o.server.busy = 3
	o.server.mu.Unlock()
	id := o.begin()
	if v := o.view(id); v.State.ActiveTurn == nil {
		t.Error("no turn runs")
	}
}

// TestRubbish: frames that are no messages, and one beyond all bounds, cost the
// link nothing.
func TestRubbish(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	for _, frame := range []string{"", "rubbish", "[]", "{}", "null", "\x00\xff", `{"method":`, `{"method":"item/started","params":7}`,
		`{"method":"new/thing","params":{"a":"` + strings.Repeat("x", 17<<20) + `"}}`} {
		o.server.mu.Lock()
		for c := range o.server.conns {
			_ = c.Write(context.Background(), websocket.MessageText, []byte(frame))
		}
		o.server.mu.Unlock()
	}
	o.server.done(id, object{"type": "agentMessage", "id": "m", "text": "after all"})
	o.until("what comes after", func() bool { return strings.Contains(o.text(id), "after all") })
	if o.server.called("initialize") != 1 {
		t.Error("the link was lost")
	}
}

// TestLateAttach (C22): threads that others have started are in the list by
// themselves, with what they wait for, and their history.
func TestLateAttach(t *testing.T) {
	o := newOffice(t)
	o.leave()
	const id, helper = "01a22c00-0000-7000-8000-00000000aaaa", "01a22c00-0000-7000-8000-00000000bbbb"
	o.server.threads[id] = &played{status: object{"type": "active", "activeFlags": []string{"waitingOnApproval"}}, turns: []object{
		{"id": "t1", "status": "completed", "items": []object{
			{"type": "userMessage", "id": "u1", "content": []object{{"type": "text", "text": "what is here?"}}},
			{"type": "agentMessage", "id": "a1", "text": "a file"}}},
		{"id": "t2", "status": "inProgress", "items": []object{
			{"type": "userMessage", "id": "u2", "content": []object{{"type": "text", "text": "change it"}}},
			{"type": "fileChange", "id": "f", "status": "inProgress", "changes": []object{{"path": "/w/x", "kind": object{"type": "update"}, "diff": "@@ -1 +1 @@\n-a\n+b\n"}}}}},
	}, pending: []object{{"id": 7, "method": "item/fileChange/requestApproval", "params": object{"threadId": id, "turnId": "t2", "itemId": "f"}}}}
	o.server.threads[helper] = &played{status: object{"type": "idle"}}
	o.open()
	o.until("the card", func() bool {
		in := o.hub.Inbox()
		i := slices.IndexFunc(in.Sessions, func(v snapshot.Session) bool { return v.ID == id })
		return i >= 0 && len(in.Sessions[i].Approvals) == 1
	})
	v := o.view(id)
	if a := v.Approvals[0]; !strings.Contains(a.Request.Diff, "+b") {
		t.Errorf("the card shows %+v", a.Request)
	}
	if len(v.State.Turns) != 1 || v.State.ActiveTurn == nil || v.State.ActiveTurn.Message.Text != "change it" || !strings.Contains(o.text(id), "a file") {
		t.Errorf("the session is %+v", v.State)
	}
	o.approve(v.Approvals[0])
	o.until("the answer", func() bool { return len(o.pending(id)) == 0 })
}

// TestHidden: helper threads of Codex's own, and sub-agents, are no sessions.
func TestHidden(t *testing.T) {
	o := newOffice(t)
	for i, more := range []object{{"ephemeral": true}, {"parentThreadId": "01a22c00-0000-7000-8000-00000000cccc"}, {"source": object{"subAgent": "review"}}, {}} {
		w := object{"id": fmt.Sprintf("01a22c00-0000-7000-8000-00000000dd%02d", i), "cwd": "/w", "preview": "", "source": "cli", "status": object{"type": "idle"}}
		for name, v := range more {
			w[name] = v
		}
		o.server.say("thread/started", object{"thread": w})
	}
	o.until("the one that is shown", func() bool { return len(o.hub.Inbox().Sessions) > 0 })
	if in := o.hub.Inbox().Sessions; len(in) != 1 || in[0].ID != "01a22c00-0000-7000-8000-00000000dd03" {
		t.Errorf("the list is %+v", in)
	}
}

// TestLag: a server that drops a client which lags behind by 40,000 messages, as
// Codex does, costs nothing: nod comes again and fills in what it has not heard.
func TestLag(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	var whole strings.Builder
	for i := range 40_000 {
		word := fmt.Sprint("w", i, " ")
		whole.WriteString(word)
		if i < 39_000 {
			o.server.say("item/agentMessage/delta", object{"threadId": id, "turnId": "turn-0", "itemId": "m", "delta": word})
		}
	}
	o.server.cut()
	o.server.done(id, object{"type": "agentMessage", "id": "m", "text": whole.String()})
	o.server.end(id, "completed")
	o.until("the end", func() bool { return o.view(id).State.ActiveTurn == nil })
	v := o.view(id)
	shown := ""
	for i := range snapshot.PartCount(v.State, 0) {
		if p, ok := snapshot.PartAt(v.State, 0, i).(*state.MarkdownPart); ok && !snapshot.Superseded(v.State, 0, i) {
			shown += p.Content.String()
		}
	}
	if shown != whole.String() {
		t.Errorf("%d bytes are shown, %d were said", len(shown), whole.Len())
	}
}

// TestFlood: of a hundred calls at once no more than 32 wait for the server, which
// answers none before it has those.
func TestFlood(t *testing.T) {
	const calls = 100
	o := newOffice(t)
	o.server.mu.Lock()
	o.server.hold, o.server.total = 32, calls
	o.server.mu.Unlock()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if _, err := o.manager.CreateSession(t.Context(), state.NewSession{Provider: Provider, Folder: "/w"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	o.server.mu.Lock()
	defer o.server.mu.Unlock()
	if n := len(o.hub.Inbox().Sessions); n != calls || o.server.most != 32 {
		t.Errorf("%d sessions; %d calls waited at once", n, o.server.most)
	}
}

// TestDeletedAndOpenedAgain: what a person has deleted does not come back by itself,
// though it is still loaded on the server; it is live at once when a person opens it.
func TestDeletedAndOpenedAgain(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.end(id, "completed")
	o.until("the end", func() bool { return o.view(id).State.ActiveTurn == nil })
	again := func() {
		t.Helper()
		o.hub.Readmit(uriScheme + id)
		if err := o.manager.Recall(t.Context(), Provider, uriScheme+id); err != nil {
			t.Fatal(err)
		}
		if st := o.view(id).State; len(st.Turns) != 1 {
			t.Errorf("%d turns are shown", len(st.Turns))
		}
	}
	remove := func() {
		t.Helper()
		if err := o.hub.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	again() // this link is subscribed to it
	remove()
	o.leave()
	reads := o.server.called("thread/read")
	o.open()
	other := o.begin() // which comes after the server was asked what is loaded
	o.until("nod has looked at it", func() bool { return o.server.called("thread/read") > reads })
	o.server.end(other, "completed")
	o.until("the end of another", func() bool { return o.view(other).State.ActiveTurn == nil })
	if _, err := o.hub.Session(id); !errors.Is(err, hub.ErrNoSession) {
		t.Errorf("it is back: %v", err)
	}
	again()
}

// TestAskedOnceOverWebSocket: a request that waits while nod is restarted, on
// a server whose run cannot be told.
func TestAskedOnceOverWebSocket(t *testing.T) {
	o := newOffice(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(o.server.serve)}
	go func() { _ = s.Serve(l) }()
	defer func() { _ = s.Close() }()
	o.leave()
	open := func() {
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
	}
	open()
	id, err := o.hub.Create(t.Context(), state.NewSession{Provider: o.link().Provider, Folder: "/w"}, "go")
	if err != nil {
		t.Fatal(err)
	}
	o.server.ask(id, "a")
	o.until("a card", func() bool { return len(o.pending(id)) == 1 })
	o.leave()
	open()
	o.until("it is asked again", func() bool {
		return o.server.called("thread/resume") == 1 && o.server.called("thread/loaded/list") >= 3
	})
	o.server.say("thread/name/updated", object{"threadId": id, "threadName": "all heard"})
	o.until("what comes after", func() bool { return o.view(id).State.Summary.Title == "all heard" })
	if got := o.pending(id); len(got) != 1 {
		t.Errorf("%d cards for one request", len(got))
	}
}

// TestAskedAgainAfterAnAnswerThatNeverLeft: nod dies after a decision is marked as sent and before
// its bytes leave. Codex asks again, so somebody must be able to answer.
func TestAskedAgainAfterAnAnswerThatNeverLeft(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.ask(id, "a")
	o.until("a card", func() bool { return len(o.pending(id)) == 1 })
	o.server.mu.Lock()
	waits := slices.Clone(o.server.threads[id].pending)
	o.server.mu.Unlock()
	// The server never gets the answer: it is put back, as if nothing had come.
	a := o.pending(id)[0]
	o.hub.SetUpstream(nowhere{o.manager}, []state.Link{{Key: Provider, Provider: Provider, DisplayName: displayName, Status: state.LinkUp}})
	o.approve(a)
	o.leave()
	o.server.mu.Lock()
	o.server.threads[id].pending = waits
	o.server.mu.Unlock()
	o.open()
	o.until("it is asked again", func() bool { return o.server.called("thread/resume") == 1 })
	o.until("a card that can be answered", func() bool { return len(o.pending(id)) == 1 })
}

// nowhere loses answers.
type nowhere struct{ *agentconn.Manager }

func (nowhere) Answer(context.Context, state.Request, state.Decision) error { return nil }

// TestAnswerWhileStalled: an answer that is given while a server is frozen is taken
// when it goes on; the connection is the same.
func TestAnswerWhileStalled(t *testing.T) {
	o := newOffice(t)
	id := o.begin()
	o.server.ask(id, "a")
	o.until("a card", func() bool { return len(o.pending(id)) == 1 })
	up := o.link()
	stalled := up
	stalled.Status = state.LinkStalled
	o.hub.LinkChanged(t.Context(), stalled)
	a := o.pending(id)[0]
	o.server.mu.Lock() // it reads, and does nothing
	o.approve(a)
	o.hub.LinkChanged(t.Context(), up) // it answers the question whether it is there
	o.server.mu.Unlock()
	o.until("the end of the card", func() bool { return !o.view(id).Approvals[0].Open() })
	if a := o.view(id).Approvals[0]; a.State != approvals.Confirmed {
		t.Errorf("the answer was taken, and the card is %s", a.State)
	}
}
