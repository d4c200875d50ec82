package state

import (
	"fmt"
	"runtime"
	"testing"
)

// growing returns a session whose turn holds one message of that many bytes,
// grown by deltas as an agent sends them.
func growing(size int) *Session {
	s := &Session{Summary: new(SessionSummary), Turns: []*Turn{}}
	s = ReduceSession(s, &SessionTurnStarted{TurnID: "t", Message: UserMessage("go")}, 1)
	s = ReduceSession(s, &SessionResponsePart{TurnID: "t", Part: &MarkdownPart{ID: "m"}}, 1)
	for n := 0; n < size; n += len(delta.Content) {
		s = ReduceSession(s, delta, 1)
	}
	return s
}

var delta = &SessionDelta{TurnID: "t", PartID: "m", Content: "some words of text, "}

// BenchmarkDelta is the cost of one delta of 20 bytes to a message of a size: it
// must not grow with the message. A run grows the message to twice its size, so
// that copies made for room count.
func BenchmarkDelta(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KB", 1e3}, {"100KB", 1e5}, {"10MB", 1e7}} {
		b.Run(size.name, func(b *testing.B) {
			b.ReportAllocs()
			first := growing(size.bytes)
			s, n := first, 0
			for b.Loop() {
				if n += len(delta.Content); n >= size.bytes {
					b.StopTimer()
					s, n = growing(size.bytes), 0
					b.StartTimer()
				}
				s = ReduceSession(s, delta, 1)
			}
		})
	}
}

// BenchmarkDeltaAmongParts is the cost of one delta in a turn of so many parts.
func BenchmarkDeltaAmongParts(b *testing.B) {
	for _, parts := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(parts), func(b *testing.B) {
			s := growing(1000)
			for i := range parts - 1 {
				s = ReduceSession(s, &SessionResponsePart{TurnID: "t", Part: &NotificationPart{Content: Plain(fmt.Sprint(i))}}, 1)
			}
			s = ReduceSession(s, &SessionResponsePart{TurnID: "t", Part: &MarkdownPart{ID: "last"}}, 1)
			b.ReportAllocs()
			for b.Loop() {
				s = ReduceSession(s, &SessionDelta{TurnID: "t", PartID: "last", Content: delta.Content}, 1)
			}
		})
	}
}

// mixed returns 10,000 actions of 50 turns: text, thoughts, commands with
// streamed output, approvals, plans; and the share of each as agents have it.
func mixed() (out []Envelope) {
	session := func(a Action) { out = append(out, Envelope{"s:/1", a}) }
	for turn := range 50 {
		id := fmt.Sprint("t", turn)
		session(&SessionTurnStarted{TurnID: id, Message: UserMessage("Please look at the tests again, one of them fails.")})
		for item := 0; len(out) < (turn+1)*200-2; item++ {
			part := fmt.Sprint("i", item)
			switch item % 4 {
			case 0:
				session(&SessionResponsePart{TurnID: id, Part: &ReasoningPart{ID: part}})
				for range 6 {
					session(&SessionReasoning{TurnID: id, PartID: part, Content: "The test waits for a port that "})
				}
			case 1:
				session(&SessionResponsePart{TurnID: id, Part: &MarkdownPart{ID: part}})
				for range 14 {
					session(&SessionDelta{TurnID: id, PartID: part, Content: "I looked at `conn.go` and found "})
				}
			default:
				terminal := "term:/" + id + part
				session(&SessionToolCallStart{TurnID: id, ToolCallID: part, ToolName: "shell", DisplayName: "Shell"})
				ready := &SessionToolCallReady{TurnID: id, ToolCallID: part, InvocationMessage: Plain("go test ./..."), ToolInput: new("go test ./...")}
				if item%8 == 2 {
					session(ready)
					session(&SessionToolCallConfirmed{TurnID: id, ToolCallID: part, Approved: true, Confirmed: ConfirmedUserAction})
				} else {
					ready.Confirmed = ConfirmedNotNeeded
					session(ready)
				}
				session(&SessionToolCallContentChanged{TurnID: id, ToolCallID: part, Content: []ToolResultContent{TerminalContent(terminal, "go test")}})
				out = append(out, Envelope{terminal, &TerminalCommandExecuted{CommandID: part, CommandLine: "go test ./...", Timestamp: 1}})
				for range 8 {
					out = append(out, Envelope{terminal, &TerminalData{Data: "ok  \tnod/state/journal\t0.31s\n"}})
				}
				out = append(out, Envelope{terminal, &TerminalCommandFinished{CommandID: part, ExitCode: new(int64(0)), DurationMs: new(310.0)}})
				session(&SessionToolCallComplete{TurnID: id, ToolCallID: part, Result: ToolCallResult{
					Success: true, PastTenseMessage: Plain("Ran go test"), Content: []ToolResultContent{TerminalContent(terminal, "go test")},
				}})
			}
		}
		out = out[:(turn+1)*200-2]
		session(&SessionUsage{TurnID: id, Usage: UsageInfo{InputTokens: new(int64(5000)), OutputTokens: new(int64(700))}})
		session(&SessionTurnComplete{TurnID: id})
	}
	return out
}

func reduceAll(log []Envelope) (*Session, map[string]*Terminal) {
	s := &Session{Summary: new(SessionSummary), Turns: []*Turn{}}
	terminals := map[string]*Terminal{}
	for _, e := range log {
		if e.Channel == "s:/1" {
			s = ReduceSession(s, e.Action, 1)
			continue
		}
		t := terminals[e.Channel]
		if t == nil {
			t = &Terminal{Claim: SessionClaim("s:/1"), Content: []TerminalPart{}}
		}
		terminals[e.Channel] = ReduceTerminal(t, e.Action)
	}
	return s, terminals
}

// BenchmarkMixed reduces 10,000 actions of all kinds, and compares what the
// session holds in memory with its own JSON.
func BenchmarkMixed(b *testing.B) {
	log := mixed()
	if len(log) != 10_000 {
		b.Fatal(len(log))
	}
	b.ReportAllocs()
	for b.Loop() {
		reduceAll(log)
	}
	b.StopTimer()
	// As after a restart: nothing of the actions is left but what the state keeps.
	s, terminals := reduceAll(log)
	var size int
	encoded := [][]byte{}
	for _, v := range append([]any{s}, values(terminals)...) {
		raw, err := Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		size, encoded = size+len(raw), append(encoded, raw)
	}
	s, terminals, log = nil, nil, nil
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	s, terminals = reduceAll(mixed())
	b.ReportMetric(float64(used()-before)/float64(size), "memory/JSON(live)")
	runtime.KeepAlive(s)
	runtime.KeepAlive(terminals)
	s, terminals = nil, nil
	before = used()
	held := []any{new(Session)}
	for i, raw := range encoded {
		if i > 0 {
			held = append(held, new(Terminal))
		}
		if err := Unmarshal(raw, held[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(used()-before)/float64(size), "memory/JSON(read)")
	runtime.KeepAlive(held)
	runtime.KeepAlive(encoded)
}

func values(m map[string]*Terminal) (out []any) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// BenchmarkEncode writes and reads a session of 10,000 events.
func BenchmarkEncode(b *testing.B) {
	s, _ := reduceAll(mixed())
	raw, err := Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if _, err := Marshal(s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if err := Unmarshal(raw, new(Session)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
