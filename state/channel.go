package state

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Snapshot is a channel's state at one moment (schema Snapshot). It includes
// every action up to FromSeq.
type Snapshot struct {
	Resource string `json:"resource"` // URI of the channel
	State    any    `json:"state"`    // *Root, *Session, *Terminal, *Changeset or *ResourceWatch
	FromSeq  uint64 `json:"fromSeq"`
	Meta     Meta   `json:"_meta,omitzero"` // nod's own addition

	Unknown *jsontext.Value `json:",embed"`
}

// UnmarshalJSONFrom reads a snapshot. Its state's type shows in the members that
// only this type has: a channel's URI says nothing about it.
func (s *Snapshot) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var in struct {
		Resource string         `json:"resource"`
		State    jsontext.Value `json:"state"`
		FromSeq  uint64         `json:"fromSeq"`
		Meta     Meta           `json:"_meta"`

		Unknown *jsontext.Value `json:",embed"`
	}
	if err := json.UnmarshalDecode(d, &in); err != nil {
		return err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(in.State, &members, lenient); err != nil {
		return err
	}
	*s = Snapshot{Resource: in.Resource, FromSeq: in.FromSeq, Meta: in.Meta, Unknown: in.Unknown}
	switch has := func(a, b string) bool { return members[a] != nil && members[b] != nil }; {
	case has("lifecycle", "turns"):
		s.State = new(Session)
	case has("content", "claim"):
		s.State = new(Terminal)
	case has("files", "status"):
		s.State = new(Changeset)
	case has("agents", "agents"):
		s.State = new(Root)
	case has("root", "recursive"):
		s.State = new(ResourceWatch)
	default:
		return errors.New("a snapshot of an unknown kind of state")
	}
	return Unmarshal(in.State, s.State)
}

// OfTerminal and OfChangeset tell which kind of channel an action is for: like a
// snapshot's, it does not show in the channel's URI.
func OfTerminal(a Action) bool { return strings.HasPrefix(a.Type(), "terminal/") }

// OfChangeset reports whether an action is for a changeset channel.
func OfChangeset(a Action) bool { return strings.HasPrefix(a.Type(), "changeset/") }
