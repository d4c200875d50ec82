package snapshot

import (
	"strings"
	"testing"

	"nod/state"
)

// TestBeginNeverMovesBack: the begin of a page stays where it is, or goes on, also
// when a turn is stopped, which takes the output of the calls that were running.
func TestBeginNeverMovesBack(t *testing.T) {
	st := &state.Session{Summary: new(state.SessionSummary)}
	terminals := Terminals{}
	apply := func(a state.Action) { st = state.ReduceSession(st, a, 1) }
	begin := func() Part {
		v := Session{State: st, Terminals: terminals}
		return v.Before(v.End())
	}
	apply(&state.SessionTurnStarted{TurnID: "t", Message: state.UserMessage("do it")})
	for range 10 {
		apply(&state.SessionResponsePart{TurnID: "t", Part: &state.MarkdownPart{Content: state.NewText(strings.Repeat("word ", 300))}})
	}
	for i := range 40 {
		id := string(rune('a' + i))
		apply(&state.SessionToolCallStart{TurnID: "t", ToolCallID: id, ToolName: "shell"})
		apply(&state.SessionToolCallReady{TurnID: "t", ToolCallID: id, InvocationMessage: state.Plain("ls"), ToolInput: new("ls"), Confirmed: state.ConfirmedNotNeeded})
		apply(&state.SessionToolCallContentChanged{TurnID: "t", ToolCallID: id, Content: []state.ToolResultContent{state.TerminalContent(id, "ls")}})
		terminals = terminals.With(id, &state.Terminal{Content: []state.TerminalPart{&state.UnclassifiedPart{Value: state.NewText(strings.Repeat("line\n", 5000))}}})
	}
	was := begin()
	apply(&state.SessionTurnCancelled{TurnID: "t"})
	if is := begin(); !was.Holds(is) {
		t.Errorf("it moves from %v back to %v", was, is)
	}
}
