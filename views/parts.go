package views

import (
	"fmt"
	"slices"

	"nod/state"
	"nod/state/approvals"
	"nod/state/snapshot"
	"nod/views/reveal"
)

// partID is the element id of a part of the session page.
func partID(p snapshot.Part) string {
	switch p.Kind {
	case snapshot.Turn:
		return fmt.Sprintf("t%d", p.Turn)
	case snapshot.Response:
		return fmt.Sprintf("t%dp%d", p.Turn, p.Index)
	case snapshot.Foot:
		return fmt.Sprintf("t%df", p.Turn)
	}
	return ""
}

func turnBodyID(n int) string { return fmt.Sprintf("t%db", n) }

// growthID is the element that holds the blocks of a response part.
func growthID(n, i int) string {
	return partID(snapshot.Part{Kind: snapshot.Response, Turn: n, Index: i}) + "x"
}

// firstID is the element that a page begins with.
func firstID(begin snapshot.Part) string {
	if begin.Index == 0 {
		begin.Kind = snapshot.Turn
	}
	return partID(begin)
}

// earlierWords tell what stands before the begin of a page.
func earlierWords(begin snapshot.Part) string {
	switch turns, steps := plural(begin.Turn, "earlier turn", "earlier turns"), plural(begin.Index, "earlier step", "earlier steps"); {
	case begin.Index == 0:
		return turns
	case begin.Turn == 0:
		return steps + " of this turn"
	default:
		return steps + " of this turn, " + turns
	}
}

func foundWords(f Find) string {
	switch n := len(f.Hits); n {
	case 0:
		if !f.Whole {
			return "It was not found in time: the oldest turns were not looked through."
		}
		return "Nothing in this session has this text."
	case f.Most:
		return fmt.Sprintf("The newest %d places; there may be more.", n)
	default:
		if !f.Whole {
			return plural(n, "place", "places") + ", the newest first. The oldest turns were not looked through: that took too long."
		}
		return plural(n, "place", "places") + ", the newest first."
	}
}

// hitWords tell where something was found.
func hitWords(s snapshot.Session, h snapshot.Hit) string {
	where := "what was asked"
	if h.At.Kind == snapshot.Response {
		switch snapshot.PartAt(s.State, h.At.Turn, h.At.Index).(type) {
		case *state.MarkdownPart:
			where = "a message"
		case *state.ReasoningPart:
			where = "a thought"
		case *state.ToolCallPart:
			where = "a tool call"
		default:
			where = "a note"
		}
	}
	return fmt.Sprintf("Turn %d · %s", s.Cut+h.At.Turn+1, where)
}

func endWord(s state.TurnState) string {
	switch s {
	case state.TurnCancelled:
		return "stopped"
	case state.TurnError:
		return "failed"
	}
	return ""
}

func inboxNeed(in snapshot.Inbox) int {
	n := 0
	for _, s := range in.Sessions {
		n += Need(s)
	}
	return n
}

// busyWords stand where the message field is while a turn runs.
func busyWords(v sessionView) string {
	if Need(v.Session) > 0 {
		return Plain(v.Link.DisplayName) + " waits for your answer."
	}
	return Plain(v.Link.DisplayName) + " is working."
}

// answerOf returns what a person chose for a tool call, once the agent has taken
// it. AHP's state forgets that when the turn ends before the call does; the
// record of the request does not.
func answerOf(s snapshot.Session, t *state.ToolCall) (state.ConfirmationOption, bool) {
	if t.SelectedOption != nil {
		return *t.SelectedOption, true
	}
	for _, a := range slices.Backward(s.Approvals) {
		if a.State == approvals.Confirmed && a.Request.ToolCallID == t.ToolCallID && a.Request.Session == s.State.Summary.Resource {
			return a.Request.Option(a.Decision.OptionID)
		}
	}
	return state.ConfirmationOption{}, false
}

func cancelWords(t *state.ToolCall, approved bool) string {
	switch {
	case t.Reason == state.CancelledDenied && t.ReasonMessage != nil:
		return "Denied: " + Plain(t.ReasonMessage.Text)
	case t.Reason == state.CancelledDenied:
		return "Denied. It was not run."
	case t.Reason == state.CancelledSkipped && approved:
		return "It was approved, and the turn ended before the agent said how far it got."
	case t.Reason == state.CancelledSkipped:
		return "The turn ended before this was done."
	}
	return "It was not run."
}

func sizeWords(s string) string {
	lines, chars, hidden := reveal.Count(s)
	words := plural(lines, "line", "lines") + ", " + plural(chars, "character", "characters")
	if hidden > 0 {
		words += fmt.Sprintf(", %d hidden", hidden)
	}
	return words
}
