package snapshot

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod/state"
)

// TestPagesCoverASession walks through sessions of all shapes from page to page:
// every response part is on one of them, and none holds much more than it may.
func TestPagesCoverASession(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		st := &state.Session{}
		for range r.IntN(30) {
			turn := &state.Turn{}
			for range r.IntN(1 + r.IntN(200)) {
				turn.ResponseParts = append(turn.ResponseParts, &state.MarkdownPart{Content: state.NewText(strings.Repeat("word ", r.IntN(1+r.IntN(20_000))))})
			}
			st.Turns = append(st.Turns, turn)
		}
		s := Session{State: st}
		for at := s.End(); at.Turn > 0 || at.Index > 0; {
			begin := s.Before(at)
			if begin == at || !begin.Holds(at) {
				t.Fatalf("%d: before %v begins %v", seed, at, begin)
			}
			nodes, parts := 0, 0
			for turn := begin.Turn; turn <= at.Turn; turn++ {
				for i := range PartCount(st, turn) {
					p := Part{Kind: Response, Turn: turn, Index: i}
					if begin.Holds(p) && !at.Holds(p) {
						nodes += s.nodes(PartAt(st, turn, i))
						parts++
					}
				}
			}
			if nodes > 2*windowNodes && parts > 1 {
				t.Errorf("%d: %d elements between %v and %v", seed, nodes, begin, at)
			}
			at = begin
		}
		for at := (Part{Kind: Response}); ; {
			end := s.After(at)
			if end == s.End() {
				break
			}
			if !at.Holds(end) || at == end {
				t.Fatalf("%d: after %v ends %v", seed, at, end)
			}
			at = end
		}
	}
}

// TestR38FindEndsInTime: what was found by then is told, and that it is not all.
func TestR38FindEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns []*state.Turn
		for range 10 {
			turns = append(turns, &state.Turn{ResponseParts: []state.ResponsePart{&state.MarkdownPart{Content: state.NewText("a needle")}}})
		}
		slow := func(s string) string { time.Sleep(100 * time.Millisecond); return s }
		for within, want := range map[time.Duration]int{450 * time.Millisecond: 3, time.Hour: 10} {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			hits, whole := Session{State: &state.Session{Turns: turns}}.Find(ctx, "needle", 99, slow)
			if cancel(); len(hits) != want || whole != (want == 10) {
				t.Errorf("within %v: %d hits, whole: %v", within, len(hits), whole)
			}
		}
	})
}

// TestFindPassesOverWhatIsGone: a text that another stands for is not found twice.
func TestFindPassesOverWhatIsGone(t *testing.T) {
	s := Session{State: &state.Session{Turns: []*state.Turn{{ResponseParts: []state.ResponsePart{
		&state.MarkdownPart{ID: "m", Content: state.NewText("half a needle")},
		&state.NotificationPart{Content: state.Plain("between")},
		&state.MarkdownPart{ID: "m/completed", Content: state.NewText("the whole needle"), Meta: state.Meta{"nod.supersedes": []byte(`"m"`)}},
	}}}}}
	hits, whole := s.Find(t.Context(), "needle", 10, func(s string) string { return s })
	if !whole || len(hits) != 1 || hits[0].At.Index != 2 {
		t.Errorf("%+v", hits)
	}
	for i, want := range []bool{true, false, false} {
		if Superseded(s.State, 0, i) != want {
			t.Errorf("part %d", i)
		}
	}
}
