package snapshot

import "nod/state"

// Limits of what a page holds of a session.
const (
	// windowNodes is how many elements, by estimate, the turns on a page may
	// have: enough for some screens of reading, and few enough for a phone to
	// lay out at once.
	windowNodes = 2200
	// windowStep is by how many response parts of a turn the window moves, so
	// that it stands still while most of them come.
	windowStep = 16
)

// End is the place behind the last response part of a session.
func (s Session) End() Part {
	n := TurnCount(s.State)
	if n == 0 {
		return Part{Kind: Response}
	}
	return Part{Kind: Response, Turn: n - 1, Index: PartCount(s.State, n-1)}
}

// Before returns where a page begins that ends before the given response part: a
// response part, of index 0 if a turn is on it from its begin. The newest page,
// which is live, is the one before End. While a session grows that begin moves by steps; it
// moves back only if the session loses some of its text.
func (s Session) Before(end Part) Part {
	room, at := windowNodes, end
	for turn := min(end.Turn, TurnCount(s.State)-1); turn >= 0; turn-- {
		n := PartCount(s.State, turn)
		if turn == end.Turn {
			n = min(n, end.Index)
		}
		room -= turnNodes
		for i := n - 1; i >= 0; i-- {
			room -= s.nodes(PartAt(s.State, turn, i))
			if room < 0 && at != end { // one part is always on a page
				return s.step(at)
			}
			at = Part{Kind: Response, Turn: turn, Index: i}
		}
		at = Part{Kind: Response, Turn: turn}
		if room < 0 && at != end {
			break
		}
	}
	return at
}

// step moves the begin of a page back to where steps are, unless that would make
// the page much longer.
func (s Session) step(at Part) Part {
	back := at.Index % windowStep
	room := windowNodes / 2
	for i := 1; i <= back; i++ {
		if room -= s.nodes(PartAt(s.State, at.Turn, at.Index-i)); room < 0 {
			return at
		}
	}
	at.Index -= back
	return at
}

// After returns where a page ends that begins with the given response part.
func (s Session) After(begin Part) Part {
	room := windowNodes
	at := begin
	for turn := begin.Turn; turn < TurnCount(s.State); turn++ {
		at = Part{Kind: Response, Turn: turn, Index: 0}
		if turn == begin.Turn {
			at.Index = begin.Index
		}
		for room -= turnNodes; at.Index < PartCount(s.State, turn); at.Index++ {
			if room -= s.nodes(PartAt(s.State, turn, at.Index)); room < 0 && at != begin {
				return at
			}
		}
	}
	return at
}

// Holds reports whether a page that begins at the given response part has p.
func (p Part) Holds(x Part) bool {
	switch x.Kind {
	case Response:
		return x.Turn > p.Turn || x.Turn == p.Turn && x.Index >= p.Index
	case Turn, Foot:
		return x.Turn >= p.Turn
	}
	return true
}

const turnNodes = 10 // elements of a turn without its response parts

// nodes estimates how many elements show a response part. It never gets less
// while the part grows.
func (s Session) nodes(p state.ResponsePart) int {
	const (
		most      = 64 << 10 // bytes of a text that are shown, about
		perNode   = 25       // bytes of prose; code has more, text less
		perOutput = 400      // bytes of what a command writes
	)
	prose := func(n int) int { return 6 + min(n, most)/perNode }
	switch p := p.(type) {
	case *state.MarkdownPart:
		return prose(p.Content.Len())
	case *state.ReasoningPart:
		return prose(p.Content.Len())
	case *state.ToolCallPart:
		n := 12 + min(len(state.Value(p.ToolCall.ToolInput)), most)/perNode
		for _, c := range p.ToolCall.Content {
			out := len(state.Value(c.Text))
			if c.Type == state.ContentTerminal {
				if t := s.Terminals.Get(state.Value(c.Resource)); t != nil {
					for _, text := range t.Output() {
						out += len(text)
					}
				}
			}
			n += min(out, most) / perOutput
		}
		return n
	}
	return 8
}
