// Package snapshot holds what the hub shows to the views: pictures of a session
// and of the inbox that do not change any more, and the names of the parts that a
// page is made of. It is pure.
package snapshot

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
	"nod/state/approvals"
)

// PartKind names a kind of part that a session page shows.
type PartKind int

// The parts of a session page, in the order they stand in.
const (
	Head     PartKind = iota // title, status, model, folder, link
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
	Terminals map[string]*state.Terminal // by URI
	Approvals []*approvals.Approval      // all, in the order they were asked in
	Link      state.Link
	LastEvent int64 // Unix milliseconds
}

// Inbox is what the list of sessions shows.
type Inbox struct {
	Rev      uint64
	Sessions []Session // newest first
	Links    []state.Link
	Trouble  string // a sentence while the journal cannot be written
}

// TurnCount counts the turns of a session, the active one included.
func TurnCount(s *state.Session) int {
	if s.ActiveTurn != nil {
		return len(s.Turns) + 1
	}
	return len(s.Turns)
}

// TurnParts returns the response parts of a turn.
func TurnParts(s *state.Session, turn int) []state.ResponsePart {
	if turn < len(s.Turns) {
		return s.Turns[turn].ResponseParts
	}
	return s.ActiveTurn.ResponseParts
}

// Changed returns the parts by which two states that follow one another differ. Parts of a state
// never change in place, so identity tells; no action can be forgotten here.
func Changed(before, after *state.Session) []Part {
	if before == after {
		return nil
	}
	var out []Part
	if before.Summary != after.Summary || before.Lifecycle != after.Lifecycle {
		out = append(out, Part{Kind: Head})
	}
	if !maps.EqualFunc(before.Meta, after.Meta, func(a, b jsontext.Value) bool { return bytes.Equal(a, b) }) {
		out = append(out, Part{Kind: Head}, Part{Kind: Plan})
	}
	if !slices.Equal(before.InputRequests, after.InputRequests) {
		out = append(out, Part{Kind: Dock})
	}
	was, is := before.ActiveTurn, after.ActiveTurn
	if was == is {
		return out
	}
	n := len(before.Turns) // the ordinal of was, and of a turn that starts from idle
	if was != nil && (is == nil || is.ID == was.ID || len(after.Turns) > n) {
		parts := TurnParts(after, n)
		for i, p := range parts {
			if i >= len(was.ResponseParts) || was.ResponseParts[i] != p {
				out = append(out, Part{Kind: Response, Turn: n, Index: i})
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
