package views

import (
	"io"
	"testing"

	"nod/state"
	"nod/state/snapshot"
)

// TestEarlierPagesAreNotKept: whoever walks through all of a long session leaves
// nothing behind.
func TestEarlierPagesAreNotKept(t *testing.T) {
	st := &state.Session{Summary: new(state.SessionSummary)}
	for range 100 {
		turn := &state.Turn{}
		for range 50 {
			turn.ResponseParts = append(turn.ResponseParts, &state.MarkdownPart{Content: state.NewText("text")})
		}
		st.Turns = append(st.Turns, turn)
	}
	s := NewSheet("e", nil, nil)
	s.Show(t.Context(), snapshot.Session{ID: "x", Seq: 1, State: st}, snapshot.Inbox{}, nil)
	for turn := range st.Turns {
		if err := s.Earlier(turn+1, 0).Render(t.Context(), io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	for at := range s.pieces {
		if !s.begin.Holds(at) {
			t.Errorf("%v is kept", at)
		}
	}
}
