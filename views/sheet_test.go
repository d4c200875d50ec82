package views

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"nod/state"
	"nod/state/snapshot"
	"nod/views/markdown"
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

// TestColoursAfterLongQuiet: a page from before the colours of a session that
// is quiet, while others are not, gets them when it comes back.
func TestColoursAfterLongQuiet(t *testing.T) {
	colours := markdown.NewHighlighter()
	defer colours.Close()
	lit := make(chan struct{}, 1)
	s := NewSheet("e", colours, func() {
		select {
		case lit <- struct{}{}:
		default:
		}
	})
	turn := &state.Turn{ResponseParts: []state.ResponsePart{&state.MarkdownPart{Content: state.NewText("```go\nfunc main() { return }\n```\n")}}}
	v := snapshot.Session{ID: "x", Seq: 1, State: &state.Session{Summary: new(state.SessionSummary), Turns: []*state.Turn{turn}}}
	s.Show(t.Context(), v, snapshot.Inbox{Rev: 1}, nil)
	var page bytes.Buffer
	if err := s.Page(Draft{}).Render(t.Context(), &page); err != nil {
		t.Fatal(err)
	}
	at := s.Cursor()
	for !s.Relight(t.Context()) {
		select {
		case <-lit:
		case <-time.After(time.Minute):
			t.Fatal("no colours")
		}
	}
	back := func() string {
		var b bytes.Buffer
		if err := s.Since(t.Context(), &b, s.At(at)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if !strings.Contains(back(), "func") {
		t.Fatal("even at once it does not get them")
	}
	for i := range uint64(maxPast + 10) {
		s.Show(t.Context(), v, snapshot.Inbox{Rev: 2 + i}, nil)
	}
	if !strings.Contains(back(), "func") {
		t.Error("it never gets its colours")
	}
}
