package codex

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nod/agentconn"
	"nod/agentconn/agenttest"
	"nod/state"
)

// words is a wire on which a server has said something already.
type words struct {
	paper
	in *bufio.Reader
}

func (w *words) read(context.Context) ([]byte, *agentconn.Outline, error) {
	return agentconn.ReadLine(w.in, agentconn.MaxMessage, outlined)
}

var (
	ofAThread = regexp.MustCompile(`"threadId":"[^"]*"`)
	ofATurn   = regexp.MustCompile(`"turnId":"[^"]*"`)
)

// FuzzR20Codex: whatever a server says, in a session in which a command runs, takes
// nothing with it, can be kept, and gets no answer; what nod does not understand of it
// nobody can approve.
func FuzzR20Codex(f *testing.F) {
	files, err := filepath.Glob("testdata/recordings/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no recordings", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		agenttest.Play(f, file, func(dir string, msg json.RawMessage) {
			var m message
			if dir == "in" && json.Unmarshal(msg, &m) == nil && m.Method != "" && !seen[m.Method] {
				seen[m.Method] = true
				f.Add(ofATurn.ReplaceAll(ofAThread.ReplaceAll(msg, []byte(`"threadId":"th"`)), []byte(`"turnId":"tu"`)), uint64(0))
			}
		})
	}
	f.Add([]byte(askCommand+"\n"+`{"method":"item/new/request","id":4,"params":{"threadId":"th"}}`), uint64(0))
	f.Add([]byte(`{"method":"turn/plan/updated","params":{"threadId":"th","turnId":"tu","plan":[{"step":"a","status":"pending","status":"x"}]}}`), uint64(0))
	f.Add([]byte(`{"method":"item/started","params":{"threadId":"th","turnId":"tu","item":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}}`), uint64(0))
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
	c := newConn(place{Provider, Provider, displayName, Config{Log: log}}, sink, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing runs beside the reader
	w := &words{in: bufio.NewReader(bytes.NewReader(said))}
	c.ctx, c.wire, c.epoch, c.calls, c.stop = ctx, w, "e", map[int]*call{}, func() {}
	var a attached
	if err := json.Unmarshal([]byte(`{"thread":{"id":"th"},"model":"m"}`), &a); err != nil {
		t.Fatal(err)
	}
	th, _, err := c.enter(ctx, a.Thread, a.Model)
	if err != nil {
		t.Fatal(err)
	}
	th.begin(ctx, c, "tu", state.UserMessage("go"))
	var m message
	if err := json.Unmarshal([]byte(startCommand), &m); err != nil {
		t.Fatal(err)
	}
	c.receive(ctx, m, []byte(startCommand))
	_, _ = c.read(ctx) // it ends
	c.running.Wait()
	for line := range strings.Lines(w.String()) {
		if json.Unmarshal([]byte(line), &m) != nil || m.Method == "" {
			t.Errorf("nod answered by itself: %s", line)
		}
	}
	if odd := sink.Approvable(state.RequestUnknown); len(odd) > 0 {
		t.Errorf("what nod does not understand can be approved: %+v", odd[0])
	}
}
