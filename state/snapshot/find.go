package snapshot

import (
	"context"
	"iter"
	"regexp"
	"slices"
	"strings"

	"nod/state"
)

// Hit is a place of a session in which a text was found.
type Hit struct {
	At                   Part // a Turn: what was asked; or a Response
	Before, Match, After string
}

// Find returns where a text, which is valid UTF-8, stands, in any case of letters,
// the newest first: one hit for each response part and for what was asked in each
// turn, and no more than most. shown makes of what an agent wrote what a person sees
// of it. What is in _meta is not looked at. When ctx ends, it ends; whole tells
// whether all was looked through by then, or enough was found.
func (s Session) Find(ctx context.Context, text string, most int, shown func(string) string) (hits []Hit, whole bool) {
	find := regexp.MustCompile("(?i)" + regexp.QuoteMeta(text))
	look := func(at Part, texts iter.Seq[string]) bool {
		for t := range texts {
			if ctx.Err() != nil {
				return false
			}
			t = shown(t)
			if i := find.FindStringIndex(t); i != nil {
				hits = append(hits, Hit{
					At: at, Match: t[i[0]:i[1]], // a rune may be cut at the outer ends of what is around it
					Before: strings.ToValidUTF8(t[max(0, i[0]-hitContext):i[0]], ""),
					After:  strings.ToValidUTF8(t[i[1]:min(len(t), i[1]+2*hitContext)], ""),
				})
				break
			}
		}
		return len(hits) < most
	}
	for turn := TurnCount(s.State) - 1; turn >= 0; turn-- {
		gone := map[string]bool{} // ids of parts in whose place others stand
		for i := PartCount(s.State, turn) - 1; i >= 0; i-- {
			p := PartAt(s.State, turn, i)
			if gone[partID(p)] {
				continue
			}
			if id := supersedes(p); id != "" {
				gone[id] = true
			}
			if !look(Part{Kind: Response, Turn: turn, Index: i}, s.texts(p)) {
				return hits, ctx.Err() == nil
			}
		}
		if !look(Part{Kind: Turn, Turn: turn}, slices.Values([]string{Asked(s.State, turn)})) {
			return hits, ctx.Err() == nil
		}
	}
	return hits, true
}

const hitContext = 80 // bytes before a match that are shown with it; after it twice as many

// Asked is what a person asked in a turn.
func Asked(s *state.Session, turn int) string { return Message(s, turn).Text }

// Message is what a turn began with.
func Message(s *state.Session, turn int) state.Message {
	if turn < len(s.Turns) {
		return s.Turns[turn].Message
	}
	return s.ActiveTurn.Message
}

// texts yields what a response part says.
func (s Session) texts(p state.ResponsePart) iter.Seq[string] {
	return func(yield func(string) bool) {
		switch p := p.(type) {
		case *state.MarkdownPart:
			yield(p.Content.String())
		case *state.ReasoningPart:
			yield(p.Content.String())
		case *state.NotificationPart:
			yield(p.Content.Text)
		case *state.ToolCallPart:
			c := &p.ToolCall
			all := []string{c.DisplayName, state.Value(c.InvocationMessage).Text, state.Value(c.ToolInput), state.Value(c.Error).Message}
			for _, x := range c.Content {
				all = append(all, state.Value(x.Text))
				if t := s.Terminals.Get(state.Value(x.Resource)); t != nil {
					all = append(all, t.Output()...)
				}
			}
			for _, text := range all {
				if !yield(text) {
					return
				}
			}
		}
	}
}
