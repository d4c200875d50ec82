package views

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"nod/state"
	"nod/state/snapshot"
	"nod/views/markdown"
)

// TestRev2ColoursAfterLongQuiet: a page from before the colours of a session that
// is quiet, while others are not, gets them when it comes back.
func TestRev2ColoursAfterLongQuiet(t *testing.T) {
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
	if err := s.Page("", "").Render(t.Context(), &page); err != nil {
		t.Fatal(err)
	}
	at := s.Cursor()
	for !s.Relight(t.Context()) {
		select {
		case <-lit:
		case <-time.After(5 * time.Second):
			t.Skip("no colours")
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

// TestRev2AfterAPanic: what a picture changed is not forgotten because drawing
// some of it panicked; the feed asks the hub only for what is newer.
func TestRev2AfterAPanic(t *testing.T) {
	s := NewSheet("e", nil, nil)
	v := func(seq uint64, text string) snapshot.Session {
		turn := &state.Turn{ResponseParts: []state.ResponsePart{&state.MarkdownPart{Content: state.NewText(text)}}}
		return snapshot.Session{ID: "x", Seq: seq, State: &state.Session{Summary: new(state.SessionSummary), Turns: []*state.Turn{turn}}}
	}
	s.Show(t.Context(), v(1, "old"), snapshot.Inbox{}, nil)
	if err := s.Page("", "").Render(t.Context(), new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	at := s.Here()
	bad := snapshot.Part{Kind: snapshot.Response, Index: 1}
	s.pieces[bad] = &piece{} // any mistake in drawing
	func() {
		defer func() { _ = recover() }()
		s.Show(t.Context(), v(2, "new text"), snapshot.Inbox{}, []snapshot.Part{bad, {Kind: snapshot.Response}})
	}()
	delete(s.pieces, bad)
	s.Show(t.Context(), v(3, "new text"), snapshot.Inbox{}, []snapshot.Part{{Kind: snapshot.Head}}) // what the hub says is newer than s.Cursor()
	var b bytes.Buffer
	s.marks = slicesWithout(s.marks, bad)
	if err := s.Since(t.Context(), &b, at); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "new text") {
		t.Errorf("the page stays as it was for ever: %.300s", b.String())
	}
}

func slicesWithout(marks []mark, p snapshot.Part) (out []mark) {
	for _, m := range marks {
		if m.part != p {
			out = append(out, m)
		}
	}
	return out
}
