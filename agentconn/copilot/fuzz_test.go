package copilot

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nod/agentconn/agenttest"
	"nod/state"
)

var ofASession = regexp.MustCompile(`"sessionId":"[^"]*"`)

// FuzzR20Copilot: whatever a server says, in a session in which a turn runs, takes
// nothing with it, can be kept, and gets no answer; what nod does not understand of it
// nobody can approve.
func FuzzR20Copilot(f *testing.F) {
	files, err := filepath.Glob("testdata/recordings/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no recordings", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		agenttest.Play(f, file, func(dir string, msg json.RawMessage) {
			var m struct {
				Method string
				Params struct{ Event struct{ Type string } }
			}
			if dir == "s2c" && json.Unmarshal(msg, &m) == nil && m.Method != "" && !seen[m.Method+m.Params.Event.Type] {
				seen[m.Method+m.Params.Event.Type] = true
				f.Add(ofASession.ReplaceAll(msg, []byte(`"sessionId":"s"`)), uint64(0))
			}
		})
	}
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"method":"brand.new","params":{}}`), uint64(0))
	f.Add([]byte(`{"method":"session.lifecycle","params":{"type":"session.created","sessionId":"other"}}`), uint64(0)) // before nod has greeted
	f.Add([]byte(`{"method":"session.event","params":{"sessionId":"s","event":{"id":"d","type":"tool.execution_start","data":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}}}`), uint64(0))
	f.Fuzz(func(t *testing.T, said []byte, seed uint64) {
		for i := range uint64(8) {
			hear(t, agenttest.Bend(said, 8*seed+i))
		}
	})
}

// hear has nod read what a server says.
func hear(t *testing.T, said []byte) {
	t.Helper()
	sink, log := agenttest.NewSink(t), slog.New(slog.DiscardHandler)
	a := &remote{cfg: Config{Log: log, held: &held{}}, Server: Server{Address: "127.0.0.1:1", TokenFile: "none"}}
	c := newConn(a, a.cfg, sink, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing runs beside the reader
	c.ctx, c.stop, c.room.epoch, c.room.rests, c.room.queues, c.room.todos = ctx, func() {}, "e", nil, nil, nil
	c.alone(func() { c.enter("s") })
	if err := c.begin("s", &state.SessionSummary{Resource: uriOf("s"), Provider: a.Provider(), Status: state.StatusIdle}, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	c.sessions["s"].caughtUp(ctx)
	c.receive(message{Method: "session.event", Params: []byte(`{"sessionId":"s","event":{"id":"0","type":"user.message","timestamp":"2026-11-30T02:00:00Z","data":{"messageId":"t-1","content":"go"}}}`)})

	near, far := net.Pipe()
	tap := &tap{server: near, sdk: silent{t: t}, log: log, onMessage: c.receive, inFlight: map[string]*wanted{}}
	told := make(chan error, 1)
	go func() { told <- tap.fromServer() }()
	_ = writeFrame(far, said) // nod may have had enough
	_ = far.Close()
	<-told
	c.running.Wait()
	if odd := sink.Approvable(state.RequestUnknown); len(odd) > 0 {
		t.Errorf("what nod does not understand can be approved: %+v", odd[0])
	}
}

// silent is where nod's own calls would come from: nothing but answers gets there.
type silent struct {
	net.Conn
	t *testing.T
}

func (s silent) Write(p []byte) (int, error) {
	_, body, _ := strings.Cut(string(p), "\r\n\r\n")
	var m message
	if json.Unmarshal([]byte(body), &m) == nil && m.Method != "" {
		s.t.Errorf("the SDK, which would answer, hears %s", body)
	}
	return len(p), nil
}
