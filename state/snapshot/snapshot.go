// Package snapshot holds what the hub shows to the views: pictures of a session
// and of the inbox that do not change any more, and the names of the parts that a
// page is made of. It is pure.
package snapshot

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/benbjohnson/immutable"
	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
	"nod/state/approvals"
)

// PartKind names a kind of part that a session page shows.
type PartKind int

// The parts of a session page, in the order they stand in.
const (
	Root     PartKind = iota // the whole page: parts have gone, or were renumbered
	Head                     // title, status, model, folder, link
	Turn                     // one turn, with everything in it
	Response                 // one response part of a turn
	Foot                     // the end of a turn: how it ended, tokens
	Plan                     // the agent's plan
	Dock                     // what waits for a person
	Composer                 // the message field and the stop button
)

// Part names one independently replaceable part. Turn counts from 0 and is of
// Turn, Response and Foot; Index is of Response.
type Part struct {
	Kind  PartKind
	Turn  int
	Index int
}

// Session is a snapshot of one session. Nothing in it changes.
type Session struct {
	ID        string
	Seq       uint64
	State     *state.Session
	Terminals Terminals
	Approvals []*approvals.Approval // own ones and those that sub-agents wait for, in the order they were asked in
	Link      state.Link
	LastEvent int64   // Unix milliseconds
	Cut       int     // turns that were forgotten, older than the first one here
	Parent    string  // id of the session whose sub-agent this is; "" for none
	Children  []Child // its sub-agents, in the order they were started in
}

// Child is a sub-agent, as its parent's page shows it.
type Child struct {
	ID      string
	URI     string
	Summary *state.SessionSummary
}

// Child returns the sub-agent of that URI.
func (s Session) Child(uri string) (Child, bool) {
	i := slices.IndexFunc(s.Children, func(c Child) bool { return c.URI == uri })
	if i < 0 {
		return Child{}, false
	}
	return s.Children[i], true
}

// Terminals are a session's terminals by URI. A session may have thousands, and
// each frame has a picture of them: so adding to one costs little, and taking a
// picture nothing.
type Terminals struct {
	m *immutable.Map[string, *state.Terminal]
}

// Get returns the terminal of a URI, or nil.
func (t Terminals) Get(uri string) *state.Terminal {
	if t.m == nil {
		return nil
	}
	terminal, _ := t.m.Get(uri)
	return terminal
}

// With returns the terminals with one more, or another in its place.
func (t Terminals) With(uri string, terminal *state.Terminal) Terminals {
	if t.m == nil {
		t.m = immutable.NewMap[string, *state.Terminal](nil)
	}
	return Terminals{t.m.Set(uri, terminal)}
}

// All yields the terminals in no order.
func (t Terminals) All() iter.Seq2[string, *state.Terminal] {
	return func(yield func(string, *state.Terminal) bool) {
		if t.m == nil {
			return
		}
		for it := t.m.Iterator(); !it.Done(); {
			if uri, terminal, _ := it.Next(); !yield(uri, terminal) {
				return
			}
		}
	}
}

// Inbox is what the list of sessions shows.
type Inbox struct {
	Rev      uint64
	Sessions []Session // newest first, without sub-agents and without what is archived
	Archived int       // how many are archived
	Links    []state.Link
	Trouble  string // a sentence while the journal cannot be written, or cannot be trusted
	Notices  []Notice
}

// Notice tells every device of what has happened at the door.
type Notice struct {
	Text string // a sentence
	At   int64  // Unix milliseconds
}

// TurnCount counts the turns of a session, the active one included.
func TurnCount(s *state.Session) int {
	if s.ActiveTurn != nil {
		return len(s.Turns) + 1
	}
	return len(s.Turns)
}

// PartCount counts the response parts of a turn; of one that is not there none.
func PartCount(s *state.Session, turn int) int {
	if turn < len(s.Turns) {
		return len(s.Turns[turn].ResponseParts)
	}
	if s.ActiveTurn == nil {
		return 0
	}
	return s.ActiveTurn.ResponseParts.Len()
}

// PartAt returns one response part of a turn.
func PartAt(s *state.Session, turn, i int) state.ResponsePart {
	if turn < len(s.Turns) {
		return s.Turns[turn].ResponseParts[i]
	}
	return s.ActiveTurn.ResponseParts.At(i)
}

// Superseded reports whether a later part of a turn says all that a part says, and
// more: then the part is not shown any more.
func Superseded(s *state.Session, turn, i int) bool {
	id := partID(PartAt(s, turn, i))
	if id == "" {
		return false
	}
	for later := i + 1; later < PartCount(s, turn); later++ {
		if supersedes(PartAt(s, turn, later)) == id {
			return true
		}
	}
	return false
}

// partID is the id of a part that text can be added to.
func partID(p state.ResponsePart) string {
	switch p := p.(type) {
	case *state.MarkdownPart:
		return p.ID
	case *state.ReasoningPart:
		return p.ID
	}
	return ""
}

// supersedes is the id of the part in whose place a part stands, or "".
func supersedes(p state.ResponsePart) (id string) {
	var meta state.Meta
	switch p := p.(type) {
	case *state.MarkdownPart:
		meta = p.Meta
	case *state.ReasoningPart:
		meta = p.Meta
	}
	if raw := meta["nod.supersedes"]; raw != nil {
		_ = json.Unmarshal(raw, &id) // odd: none
	}
	return id
}

// Changed returns the parts by which two states that follow one another differ.
// Parts of a state never change in place, so identity tells; no action can be
// forgotten here.
func Changed(before, after *state.Session) []Part {
	if before == after {
		return nil
	}
	was, is := before.ActiveTurn, after.ActiveTurn
	n := len(before.Turns) // the ordinal of was, and of a turn that starts from idle
	if len(after.Turns) < n || was != nil && is == nil && len(after.Turns) == n {
		return []Part{{Kind: Root}} // truncated
	}
	var out []Part
	if before.Summary != after.Summary || before.Lifecycle != after.Lifecycle {
		out = append(out, Part{Kind: Head})
	}
	if before.Summary.Status.Archived() != after.Summary.Status.Archived() {
		out = append(out, Part{Kind: Composer}) // which brings back
	}
	if before.Config != after.Config {
		out = append(out, Part{Kind: Head}, Part{Kind: Composer})
	}
	if before.SteeringMessage != after.SteeringMessage || !sameMessages(before.QueuedMessages, after.QueuedMessages) {
		out = append(out, Part{Kind: Composer})
	}
	if !maps.EqualFunc(before.Meta, after.Meta, func(a, b jsontext.Value) bool { return bytes.Equal(a, b) }) {
		out = append(out, Part{Kind: Head}, Part{Kind: Plan})
		if !bytes.Equal(before.Meta[state.MetaQueue], after.Meta[state.MetaQueue]) {
			out = append(out, Part{Kind: Composer})
		}
	}
	if !slices.Equal(before.InputRequests, after.InputRequests) {
		out = append(out, Part{Kind: Dock})
	}
	if was == is {
		return out
	}
	if was != nil && (is == nil || is.ID == was.ID || len(after.Turns) > n) {
		if is != nil && is.ID == was.ID {
			for i := range is.ResponseParts.Changed(was.ResponseParts) {
				out = append(out, Part{Kind: Response, Turn: n, Index: i})
				if old := supersedes(is.ResponseParts.At(i)); old != "" && i >= was.ResponseParts.Len() {
					for k, p := range was.ResponseParts.Backward() {
						if partID(p) == old {
							out = append(out, Part{Kind: Response, Turn: n, Index: k})
						}
					}
				}
			}
		} else { // it has ended, which may have ended calls
			for i, p := range after.Turns[n].ResponseParts {
				if i >= was.ResponseParts.Len() || was.ResponseParts.At(i) != p {
					out = append(out, Part{Kind: Response, Turn: n, Index: i})
				}
			}
		}
		if is == nil || is.Usage != was.Usage {
			out = append(out, Part{Kind: Foot, Turn: n})
		}
	}
	if was == nil || is == nil || was.ID != is.ID {
		out = append(out, Part{Kind: Composer}, Part{Kind: Dock})
		if is != nil {
			out = append(out, Part{Kind: Turn, Turn: len(after.Turns)})
		}
	}
	return out
}

// sameMessages reports whether two lists are one. A list never changes in place.
func sameMessages(a, b []state.PendingMessage) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
