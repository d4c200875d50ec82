package copilot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	"nod/agentconn"
	"nod/state"
	"nod/state/snapshot"
)

// TestR20LongMessages: what is longer than nod reads takes nothing with it, be it told
// or answered, and the page says that there was something.
func TestR20LongMessages(t *testing.T) {
	l := newLink(t)
	long := strings.Repeat("x", agentconn.MaxMessage)
	l.tell(l.id, "assistant.message", `{"messageId":"a","content":"`+long+`"}`)
	l.write(map[string]any{"jsonrpc": "2.0", "id": 7, "method": "brand.new", "params": long})
	l.tell(l.id, "permission.requested", `{"requestId":"`+long+`"}`)
	l.tell(long, "permission.requested", `{"requestId":"r"}`)
	l.write([]string{long})
	l.mu.Lock()
	l.before = func(m message) any {
		if m.Method == "ping" {
			return map[string]any{"message": long}
		}
		return nil
	}
	l.mu.Unlock()
	if err := l.conn.probe(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than nod reads") {
		t.Errorf("the call ends with %v", err)
	}
	l.tell(l.id, "assistant.message", `{"messageId":"b","content":"still here"}`)
	l.until("what comes after", func() bool {
		v, err := l.hub.Session(l.id)
		return err == nil && strings.Contains(shown(v), "still here")
	})
	v, err := l.hub.Session(l.id)
	if err != nil || len(v.Approvals) > 0 {
		t.Fatal(err, len(v.Approvals))
	}
	var said []string
	for _, p := range v.State.ActiveTurn.ResponseParts.All() {
		if n, ok := p.(*state.NotificationPart); ok {
			_, what, _ := strings.Cut(n.Content.Text, "longer than nod reads ")
			what, _, _ = strings.Cut(what, ")")
			said = append(said, what)
		}
	}
	if got := strings.Join(said, "|"); got != "(16.0 MiB, assistant.message|(16.0 MiB, permission.requested|(16.0 MiB|(16.0 MiB" {
		t.Errorf("the page says %s", got)
	}
}

// TestR20LongRequest: a request that is longer than nod reads is put before a person, who
// can refuse it where Copilot lets it be refused by its id, and nothing else.
func TestR20LongRequest(t *testing.T) {
	long := strings.Repeat("x", agentconn.MaxMessage)
	l := newLink(t)
	for kind, want := range map[string]string{
		"permission.requested":               `"result":{"kind":"reject"}`,
		"elicitation.requested":              `"result":{"action":"decline"}`,
		"exit_plan_mode.requested":           `"response":{"approved":false}`,
		"auto_mode_switch.requested":         `"response":"no"`,
		"session_limits_exhausted.requested": `"response":{"action":"cancel"}`,
		"sampling.requested":                 `"requestId":"sampling.requested"`,
		"command.queued":                     `"result":{"handled":false}`,
		"user_input.requested":               "",
		"external_tool.requested":            "",
		"mcp.oauth_required":                 "",
	} {
		a := l.ask(kind, kind, `"permissionRequest":{"kind":"shell","fullCommandText":"`+long+`"},"token":"SECRET"`)
		r := a.Request
		if r.Kind != state.RequestTooLong || r.Method != kind || !strings.Contains(r.Caution, " MiB long") {
			t.Errorf("%s: %+v", kind, r)
		}
		if kind == "mcp.oauth_required" && strings.Contains(string(r.Params), "SECRET") {
			t.Errorf("what may be secret is kept: %s", r.Params)
		}
		for _, o := range r.Options {
			if o.Kind != state.OptionDeny {
				t.Errorf("%s: it can be approved: %+v", kind, o)
			}
		}
		method := requests[kind].method
		if said := l.said(method); method != "" && len(said) > 0 {
			t.Errorf("%s: answered by itself: %s", kind, said)
		}
		if want == "" {
			if len(r.Options) > 0 {
				t.Errorf("%s: %+v", kind, r.Options)
			}
			continue
		}
		if err := l.decide(a, state.Decision{OptionID: r.Options[0].ID}); err != nil {
			t.Fatal(kind, err)
		}
		if said := l.said(method); len(said) != 1 || !strings.Contains(said[0], want) {
			t.Errorf("%s: said %s", kind, said)
		}
	}
	// A hook takes another word for it, and what one has decided waits for nobody.
	a := l.ask("hook", "permission.requested", `"permissionRequest":{"kind":"hook"},"promptRequest":{"kind":"hook","toolArgs":"`+long+`"}`)
	if err := l.decide(a, state.Decision{OptionID: rejectOption}); err != nil {
		t.Fatal(err)
	}
	if said := l.said(permissionMethod); !strings.Contains(said[len(said)-1], `"kind":"denied-interactively-by-user"`) {
		t.Errorf("said %s", said)
	}
	l.tell(l.id, "permission.requested", `{"requestId":"nobody","resolvedByHook":true,"x":"`+long+`"}`)
	l.ask("last", "permission.requested", `"x":"`+long+`"`)
	if l.approval("nobody") != nil {
		t.Error("a card for what waits for nobody")
	}
}

// TestR20LongEventOfALog: an event that is longer than nod reads does not keep a session's
// log from being read; the page says that there was one.
func TestR20LongEventOfALog(t *testing.T) {
	h := newHouse(t)
	h.session()
	h.server.happens("5", false,
		event1(1, "user.message", `{"messageId":"m1","content":"first","delivery":"idle"}`),
		event1(2, "assistant.message", `{"messageId":"a","content":"`+strings.Repeat("x", agentconn.MaxMessage)+`"}`),
		event1(3, "assistant.message", `{"messageId":"b","content":"still here"}`))
	h.server.mu.Lock()
	h.server.working = true
	h.server.mu.Unlock()
	h.server.say("session.lifecycle", map[string]any{"type": "session.updated", "sessionId": "5"})
	v := h.until("5", "what comes after", func(v snapshot.Session) bool { return strings.Contains(shown(v), "still here") })
	if !saysLong(v) {
		t.Error("the page does not say that something is missing")
	}
}

// TestR20LongEventOnDisk: so it is with the file of a session in a terminal.
func TestR20LongEventOnDisk(t *testing.T) {
	d := newDisk(t)
	d.terminal("t1", event1(1, "user.message", `{"messageId":"m1","content":"first","delivery":"idle"}`),
		event1(2, "assistant.message", `{"messageId":"a","content":"`+strings.Repeat("x", agentconn.MaxMessage)+`"}`),
		event1(3, "permission.requested", `{"requestId":"r","x":"`+strings.Repeat("x", agentconn.MaxMessage)+`"}`),
		event1(4, "assistant.message", `{"messageId":"b","content":"still here"}`))
	v := d.until("t1", "what comes after", func(v snapshot.Session) bool {
		return strings.Contains(shown(v), "still here") && len(v.Approvals) == 1
	})
	if !saysLong(v) {
		t.Error("the page does not say that something is missing")
	}
	if r := v.Approvals[0].Request; string(r.UpstreamID) != `"r"` || len(r.Options) > 0 {
		t.Errorf("%+v", r)
	}
}

// saysLong reports whether the turn in progress says that something was longer than nod
// reads.
func saysLong(v snapshot.Session) bool {
	return slices.ContainsFunc(v.State.ActiveTurn.ResponseParts.Slice(), func(p state.ResponsePart) bool {
		n, ok := p.(*state.NotificationPart)
		return ok && strings.Contains(n.Content.Text, "longer than nod reads")
	})
}

// TestR20WantedAnswer: a call whose answer nod reads itself ends, too.
func TestR20WantedAnswer(t *testing.T) {
	near, far := net.Pipe()
	sdk, _ := net.Pipe()
	tap := &tap{server: near, sdk: discard{sdk}, log: slog.New(slog.DiscardHandler), onMessage: func(message) {}, inFlight: map[string]*wanted{}}
	w := tap.want("session.log", "s", func(json.RawMessage) error { return nil })
	tap.note([]byte(`{"id":"c-1","method":"session.log","params":{"sessionId":"s"}}`))
	ended := make(chan error, 1)
	go func() { ended <- tap.fromServer() }()
	const answer = `{"jsonrpc":"2.0","id":"c-1","result":"`
	_, _ = fmt.Fprintf(far, "Content-Length: %d\r\n\r\n%s", len(answer)+agentconn.MaxMessage+2, answer)
	_, _ = io.CopyN(far, letters{}, agentconn.MaxMessage)
	_, _ = io.WriteString(far, `"}`)
	_ = far.Close()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if done, err := tap.forget(w); !done || !errors.Is(err, errTooLong) {
		t.Errorf("%v, %v", done, err)
	}
}

// TestR20AGigabyte costs no memory, and what is asked in it is heard and gets no answer.
func TestR20AGigabyte(t *testing.T) {
	const most = 32 << 20
	near, far := net.Pipe()
	var heard []message
	tap := &tap{server: near, sdk: silent{t: t}, log: slog.New(slog.DiscardHandler), onMessage: func(m message) { heard = append(heard, m) }, inFlight: map[string]*wanted{}}
	ended := make(chan error, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() { ended <- tap.fromServer() }()
	const call = `{"jsonrpc":"2.0","id":1,"method":"x","params":"`
	_, _ = fmt.Fprintf(far, "Content-Length: %d\r\n\r\n%s", 1<<30, call)
	_, _ = io.CopyN(far, letters{}, 1<<30-int64(len(call))-2)
	_, _ = io.WriteString(far, `"}`)
	_ = far.Close()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("it takes %d MiB", n>>20)
	}
	if len(heard) != 1 || heard[0].long == nil || heard[0].Method != "x" || string(heard[0].Params) != `""` {
		t.Errorf("heard %+v", heard)
	}
}

// TestR20DeepMessages: what nests too deep is kept as it came. A request that does is
// shown, and can only be refused.
func TestR20DeepMessages(t *testing.T) {
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	l := newLink(t)
	l.tell(l.id, "tool.execution_start", `{"toolCallId":"c","toolName":"t","arguments":`+deep+`}`)
	a := l.ask("r", "permission.requested", prompted(`"kind":"read"`, `"kind":"path","accessKind":"read","paths":["/etc/x"],"toolCallId":"r","more":`+deep))
	for _, o := range a.Request.Options {
		if o.Kind == state.OptionApprove {
			t.Errorf("it can be approved: %+v", o)
		}
	}
	v, err := l.hub.Session(l.id)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := v.State.ActiveTurn.ResponseParts.Slice()[0].(*state.NotificationPart)
	if !ok || !strings.Contains(string(n.Meta["nod.raw"]), "tool.execution_start") {
		t.Errorf("it is shown as %+v", v.State.ActiveTurn.ResponseParts.Slice()[0])
	}
	if said := l.said(permissionMethod); len(said) > 0 {
		t.Errorf("answered: %s", said)
	}
}

// discard is an SDK that takes everything.
type discard struct{ net.Conn }

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// letters is an endless text.
type letters struct{}

var many = bytes.Repeat([]byte("x"), 64<<10)

func (letters) Read(p []byte) (int, error) { return copy(p, many), nil }
