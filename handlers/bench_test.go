package handlers

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"nod/state"
)

// longSession has a session live through 10,000 events: 50 turns of text,
// thoughts and commands with streamed output, in the proportions agents have.
func (s *site) longSession() (id string) {
	s.t.Helper()
	ctx := context.Background()
	id, err := s.hub.Create(ctx, state.NewSession{Provider: "codex", Folder: "/w"}, "A long session")
	if err != nil {
		s.t.Fatal(err)
	}
	uri, turn := s.uri(id), "t"
	n := 2 // ready and the first turn
	apply := func(channel string, as ...state.Action) {
		es := make([]state.Envelope, len(as))
		for i, a := range as {
			es[i] = state.Envelope{Channel: channel, Action: a}
		}
		s.hub.Apply(ctx, uri, state.Source{}, es...)
		n += len(as)
	}
	for item := 0; n < 10_000; item++ {
		part := fmt.Sprint(turn, "-", item)
		switch item % 4 {
		case 0:
			apply(uri, &state.SessionResponsePart{TurnID: turn, Part: &state.ReasoningPart{ID: part}})
			for range 6 {
				apply(uri, &state.SessionReasoning{TurnID: turn, PartID: part, Content: "The test waits for a port that "})
			}
		case 1:
			apply(uri, &state.SessionResponsePart{TurnID: turn, Part: &state.MarkdownPart{ID: part}})
			for range 14 {
				apply(uri, &state.SessionDelta{TurnID: turn, PartID: part, Content: "I looked at `conn.go` and **found** "})
			}
		default:
			terminal := "ahp-terminal:/" + part
			apply(uri, &state.SessionToolCallStart{TurnID: turn, ToolCallID: part, ToolName: "shell", DisplayName: "Shell", Meta: state.Meta{"nod.input": []byte(`"command"`)}},
				&state.SessionToolCallReady{TurnID: turn, ToolCallID: part, InvocationMessage: state.Plain("go test ./..."), ToolInput: new("go test ./..."), Confirmed: state.ConfirmedNotNeeded},
				&state.SessionToolCallContentChanged{TurnID: turn, ToolCallID: part, Content: []state.ToolResultContent{state.TerminalContent(terminal, "go test")}})
			apply(terminal, &state.TerminalCommandExecuted{CommandID: part, CommandLine: "go test ./...", Timestamp: 1})
			for range 8 {
				apply(terminal, &state.TerminalData{Data: "ok  \tnod/state/journal\t0.31s\n"})
			}
			apply(terminal, &state.TerminalCommandFinished{CommandID: part, ExitCode: new(int64(0)), DurationMs: new(310.0)})
			apply(uri, &state.SessionToolCallComplete{TurnID: turn, ToolCallID: part, Result: state.ToolCallResult{
				Success: true, PastTenseMessage: state.Plain("Ran go test"), Content: []state.ToolResultContent{state.TerminalContent(terminal, "go test")},
			}})
		}
		if item%17 == 16 {
			apply(uri, &state.SessionTurnComplete{TurnID: turn})
			turn = fmt.Sprint("turn-", item)
			apply(uri, &state.SessionTurnStarted{TurnID: turn, Message: state.UserMessage("Please look again.")})
		}
	}
	apply(uri, &state.SessionTurnComplete{TurnID: turn})
	return id
}

// firstByte asks for a page and returns how long its first byte took, and its size.
func (s *site) firstByte(path string) (time.Duration, int64) {
	s.t.Helper()
	began := time.Now()
	res, err := s.in.Get(s.srv.URL + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		s.t.Fatal(res.Status)
	}
	one := make([]byte, 1)
	if _, err := res.Body.Read(one); err != nil {
		s.t.Fatal(err)
	}
	took := time.Since(began)
	n := int64(1)
	buf := make([]byte, 64<<10)
	for {
		k, err := res.Body.Read(buf)
		if n += int64(k); err != nil {
			return took, n
		}
	}
}

// held returns what is in use of the heap.
func held() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// jsonSize is how large a session is as JSON, its terminals included.
func (s *site) jsonSize(id string) (n int) {
	s.t.Helper()
	v, err := s.hub.Session(id)
	if err != nil {
		s.t.Fatal(err)
	}
	add := func(x any) {
		raw, err := state.Marshal(x)
		if err != nil {
			s.t.Fatal(err)
		}
		n += len(raw)
	}
	add(v.State)
	for _, terminal := range v.Terminals.All() {
		add(terminal)
	}
	return n
}

// BenchmarkHeld compares what the hub holds of a session of 10,000 events with
// the session's own JSON: as it has grown, and as it was loaded.
func BenchmarkHeld(b *testing.B) {
	dir := b.TempDir()
	s := newSiteIn(b, dir)
	before := held()
	id := s.longSession()
	live := held() - before
	size := s.jsonSize(id)
	s.leave()
	s = newSiteIn(b, dir)
	before = held()
	if _, err := s.hub.Session(id); err != nil {
		b.Fatal(err)
	}
	loaded := held() - before
	s.leave()
	for b.Loop() {
	}
	b.ReportMetric(float64(live)/float64(size), "memory/JSON(live)")
	b.ReportMetric(float64(loaded)/float64(size), "memory/JSON(loaded)")
	b.ReportMetric(float64(size), "B/JSON")
}

// BenchmarkOpen is the time to the first byte of the page of a session of 10,000
// events: warm, and as the first page after a restart (opening the journal and
// bringing the sessions back included).
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := newSiteIn(b, dir)
	id := s.longSession()
	b.Run("warm", func(b *testing.B) {
		var total time.Duration
		var size int64
		for b.Loop() {
			took, n := s.firstByte("/s/" + id)
			total, size = total+took, n
		}
		b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/first-byte")
		b.ReportMetric(float64(size), "B/page")
	})
	s.leave()
	b.Run("restart", func(b *testing.B) {
		var total time.Duration
		for b.Loop() {
			began := time.Now()
			s := newSiteIn(b, dir)
			_, _ = s.firstByte("/s/" + id)
			total += time.Since(began)
			s.leave()
		}
		b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/first-byte")
	})
}
