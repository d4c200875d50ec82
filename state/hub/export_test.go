package hub

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod/state"
	"nod/state/approvals"
	"nod/state/journal"
)

// lived gives a session a past: finished turns with output, a sub-agent with a
// request, an open turn.
func (h *house) lived() {
	h.t.Helper()
	h.apply(&state.SessionResponsePart{TurnID: "turn-0", Part: &state.MarkdownPart{ID: "m"}})
	for i := range 50 {
		h.apply(&state.SessionDelta{TurnID: "turn-0", PartID: "m", Content: fmt.Sprint("word ", i, " ")})
	}
	h.apply(&state.SessionToolCallStart{TurnID: "turn-0", ToolCallID: "c", ToolName: "shell", DisplayName: "Shell"},
		&state.SessionToolCallReady{TurnID: "turn-0", ToolCallID: "c", InvocationMessage: state.Plain("ls"), Confirmed: state.ConfirmedNotNeeded},
		&state.SessionToolCallContentChanged{TurnID: "turn-0", ToolCallID: "c", Content: []state.ToolResultContent{
			state.TerminalContent("ahp-terminal:/x", "ls"), state.SubagentContent(uriScheme+"child", "Look around"),
		}})
	h.hub.Apply(h.t.Context(), h.uri, state.Source{}, on("ahp-terminal:/x", &state.TerminalCommandExecuted{CommandID: "c", CommandLine: "ls", Timestamp: 5}))
	for range 50 {
		h.hub.Apply(h.t.Context(), h.uri, state.Source{}, on("ahp-terminal:/x", &state.TerminalData{Data: "file\n"}))
	}
	child := uriScheme + "child"
	h.hub.Apply(h.t.Context(), child, state.Source{}, on(child, &state.SessionTurnStarted{TurnID: "ct", Message: state.UserMessage("look")}),
		on(child, &state.SessionResponsePart{TurnID: "ct", Part: &state.MarkdownPart{ID: "cm", Content: state.NewText("I look.")}}),
		on(child, &state.SessionTurnComplete{TurnID: "ct"}))
	h.apply(&state.SessionTurnComplete{TurnID: "turn-0"})
	if err := h.hub.Send(h.t.Context(), h.id, state.UserMessage("and now?")); err != nil {
		h.t.Fatal(err)
	}
	h.apply(&state.SessionResponsePart{TurnID: "turn-1", Part: &state.ReasoningPart{ID: "r", Content: state.NewText("Hm.")}})
	if err := h.hub.store.Append(h.t.Context(), journal.Batch{}); err != nil { // what is buffered is on disk with it
		h.t.Fatal(err)
	}
}

func (h *house) exported() string {
	h.t.Helper()
	var b bytes.Buffer
	if err := Export(h.t.Context(), h.store, h.id, &b); err != nil {
		h.t.Fatal(err)
	}
	return b.String()
}

// state returns everything of a session, in AHP's form.
func (h *house) channels(id string) string {
	h.t.Helper()
	s, err := h.hub.find(id)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := s.lock(); err != nil {
		h.t.Fatal(err)
	}
	defer s.mu.Unlock()
	raw, err := state.Marshal(channelsAt(s.uri, s.seq, s.state, s.terminals, s.changesets))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(raw)
}

// TestExportImport brings a session and its sub-agent into another folder, equal
// to the last byte, whether its log was compacted or not.
func TestExportImport(t *testing.T) {
	for _, tidy := range []bool{false, true} {
		h := newHouse(t)
		h.lived()
		if tidy {
			s, err := h.hub.find(h.id)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		text := h.exported()
		if lines := strings.Count(text, "\n"); tidy && lines > 30 {
			t.Errorf("%d lines although the deltas are merged", lines)
		}
		other := &house{t: t, dir: t.TempDir()}
		store, err := journal.Open(t.Context(), other.dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		uris, err := Import(t.Context(), store, strings.NewReader(text))
		if err != nil || len(uris) != 2 {
			t.Fatalf("%v, %v", uris, err)
		}
		if _, err := Import(t.Context(), store, strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "is here already") {
			t.Errorf("a second time: %v", err)
		}
		other.store = store
		other.id = h.id
		if again := other.exported(); again != text {
			t.Errorf("exported again it is\n%s\nnot\n%s", again, text)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		// The open turn is closed in both, as after a restart; until then they are equal.
		want, wantChild := h.channels(h.id), h.channels("child")
		other.open()
		defer other.leave()
		if got := other.channels("child"); got != wantChild {
			t.Errorf("got  %s\nwant %s", got, wantChild)
		}
		if v, _ := other.hub.Session(h.id); len(v.Children) != 1 || v.Children[0].ID != "child" {
			t.Errorf("sub-agents %v", v.Children)
		}
		if got := other.channels(h.id); !strings.HasPrefix(got, want[:strings.Index(want, `"summary"`)]) || !strings.Contains(got, "word 49 ") {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestBadImports changes one thing each in a good export.
func TestBadImports(t *testing.T) {
	h := newHouse(t)
	h.lived()
	good := h.exported()
	lines := strings.SplitAfter(good, "\n")
	for name, text := range map[string]string{
		"empty":              "",
		"not JSON":           "hello\n",
		"another file":       `{"type":"session_meta","payload":{}}` + "\n",
		"without its begin":  strings.Join(lines[1:], ""),
		"cut short":          good[:len(good)-10],
		"numbers that go":    strings.Join(append(append([]string{}, lines[:5]...), lines[3:]...), ""),
		"an action of wrong": strings.Replace(good, `"turnId":"turn-0"`, `"turnId":7`, 1),
		"a session twice":    good + good,
	} {
		store, err := journal.Open(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Import(t.Context(), store, strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "nothing was imported") {
			t.Errorf("%s: %v", name, err)
		}
		if rows, err := store.Sessions(t.Context()); err != nil || len(rows) != 0 {
			t.Errorf("%s left %v, %v", name, rows, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := Export(t.Context(), h.store, "nobody", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "there is no session") {
		t.Errorf("%v", err)
	}
}

// TestRestoredBackup goes back to a copy that was made while requests were open
// at every step. Nothing is sent again, and no cursor of before means anything.
func TestRestoredBackup(t *testing.T) {
	h := newHouse(t)
	pending, sent := h.ask("1"), h.ask("2")
	if _, err := h.decide(sent, "accept"); err != nil {
		t.Fatal(err)
	}
	stuck := h.ask("3")
	real := h.hub.store
	h.hub.store = &fullDisk{real, 1} // decided, and not marked as sent
	if _, err := h.decide(stuck, "accept"); err == nil {
		t.Fatal("no error")
	}
	h.hub.store = real
	file := filepath.Join(t.TempDir(), "copy")
	if err := h.store.Backup(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	restored := &house{t: t, dir: t.TempDir(), id: h.id, uri: h.uri}
	if err := os.Rename(file, filepath.Join(restored.dir, journal.FileName)); err != nil {
		t.Fatal(err)
	}
	restored.open()
	defer restored.leave()
	if restored.hub.Epoch == h.hub.Epoch {
		t.Error("the epoch is the same")
	}
	for a, want := range map[*approvals.Approval]approvals.State{pending: approvals.Expired, sent: approvals.DeliveryUnknown, stuck: approvals.DeliveryUnknown} {
		if got := restored.approval(a.ID).State; got != want {
			t.Errorf("%s, not %s", got, want)
		}
		if _, err := restored.decide(a, "accept"); a != sent && a != stuck && !errors.Is(err, approvals.ErrNotPending) {
			t.Errorf("%v", err)
		}
	}
	if n := len(restored.agent.answers); n != 0 {
		t.Errorf("%d answers were sent", n)
	}
}
