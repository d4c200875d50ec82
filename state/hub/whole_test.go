package hub

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"nod/state"
	"nod/state/journal"
)

// TestR20LongTexts: of a text that is longer than 4 MiB the state has the begin, says how
// much is left out, and leads to the whole; so it is after a restart, and elsewhere after an
// export.
func TestR20LongTexts(t *testing.T) {
	h := newHouse(t)
	long, longer := strings.Repeat("é", maxString/2)+"ends here", strings.Repeat("x", maxString-1)+"é and here"
	fits := strings.Repeat("y", maxString)
	call := func(id string, texts ...string) {
		var content []state.ToolResultContent
		for _, text := range texts {
			content = append(content, state.TextContent(text))
		}
		h.apply(&state.SessionToolCallStart{TurnID: "turn-0", ToolCallID: id, ToolName: "read", DisplayName: "Read"},
			&state.SessionToolCallReady{TurnID: "turn-0", ToolCallID: id, InvocationMessage: state.Plain("read"), ToolInput: &texts[0], Confirmed: state.ConfirmedNotNeeded},
			&state.SessionToolCallContentChanged{TurnID: "turn-0", ToolCallID: id, Content: content},
			&state.SessionToolCallComplete{TurnID: "turn-0", ToolCallID: id, Result: state.ToolCallResult{PastTenseMessage: state.Plain("read"), Content: content}})
	}
	call("fits", fits)
	call("long", long, fits, longer)
	// A call is given what it returns: that is one text.
	look := func(h *house) {
		t.Helper()
		parts := h.view().State.Turns[0].ResponseParts
		if len(parts) != 4 {
			t.Fatalf("%d parts", len(parts))
		}
		if got := *parts[0].(*state.ToolCallPart).ToolCall.Content[0].Text; got != fits {
			t.Errorf("a text that fits has %d bytes", len(got))
		}
		content := parts[1].(*state.ToolCallPart).ToolCall.Content
		for i, want := range []string{"; 9 bytes more are kept.]", "", "; 11 bytes more are kept.]"} {
			text := *content[i].Text
			if len(text) > maxString+100 || !strings.Contains(text[maxString-1:], want) || strings.ToValidUTF8(text, "") != text {
				t.Errorf("text %d: %d bytes, which end with %q", i, len(text), text[len(text)-80:])
			}
		}
		for i, want := range []string{long, longer} {
			n := parts[2+i].(*state.NotificationPart)
			var w state.Whole
			if err := json.Unmarshal(n.Meta[state.WholeKey], &w); err != nil || w.Bytes != len(want) {
				t.Fatal(w, err)
			}
			if got, err := h.hub.Whole(t.Context(), h.id, w); got != want {
				t.Errorf("the whole has %d bytes, %v", len(got), err)
			}
			for _, none := range []state.Whole{{}, {Event: w.Event, Text: 2}, {Event: 1}, {Event: 1 << 40}} {
				if _, err := h.hub.Whole(t.Context(), h.id, none); !errors.Is(err, journal.ErrNotFound) {
					t.Errorf("%+v: %v", none, err)
				}
			}
		}
	}
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	look(h)
	h.restart()
	look(h)
	s, err := h.hub.find(h.id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.tidy(t.Context()); err != nil { // from a snapshot
		t.Fatal(err)
	}
	h.restart()
	look(h)
	there := newHouse(t)
	if _, err := Import(t.Context(), there.store, strings.NewReader(h.exported())); err != nil {
		t.Fatal(err)
	}
	there.id = h.id
	there.restart()
	look(there)
}

// TestR20WhatStaysWhole: text that grows has a bound of its own, and half a picture is none.
func TestR20WhatStaysWhole(t *testing.T) {
	h := newHouse(t)
	long := strings.Repeat("x", maxString+1)
	h.apply(&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m", Content: state.NewText(long)}},
		&state.SessionDelta{TurnID: "turn-0", PartID: "m", Content: long})
	raw := `{"type":"t","list":[{"` + long + `":1,"data":"` + long + `"}],"more":"` + long + `"}`
	short, texts, err := shorten([]byte(raw))
	if err != nil || len(texts) != 1 || !strings.HasPrefix(string(short), raw[:2*maxString]) {
		t.Errorf("%d texts, %v", len(texts), err)
	}
	parts := h.view().State.ActiveTurn.ResponseParts.Slice()
	if len(parts) != 1 || parts[0].(*state.MarkdownPart).Content.Len() != 2*len(long) {
		t.Errorf("%d parts", len(parts))
	}
}
