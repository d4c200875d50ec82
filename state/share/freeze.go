package share

import (
	"encoding/json"

	"nod/state"
	"nod/state/snapshot"
)

// frozen is how a picture is kept that stands still.
type frozen struct {
	Session   *state.Session             `json:"session"`
	Terminals map[string]*state.Terminal `json:"terminals"`
	Provider  string                     `json:"provider"`
	Name      string                     `json:"name"` // of the provider, as people call it
	LastEvent int64                      `json:"lastEvent"`
	Cut       int                        `json:"cut"`
}

// Freeze returns a picture that Take has made in the form in which it is kept.
func Freeze(seen snapshot.Session) (json.RawMessage, error) {
	f := frozen{
		Session: seen.State, Terminals: map[string]*state.Terminal{},
		Provider: seen.Link.Provider, Name: seen.Link.DisplayName, LastEvent: seen.LastEvent, Cut: seen.Cut,
	}
	for uri, t := range seen.Terminals.All() {
		f.Terminals[uri] = t
	}
	return state.Marshal(f)
}

// Thaw returns the picture that Freeze was given.
func Thaw(raw json.RawMessage) (seen snapshot.Session, err error) {
	var f frozen
	if err := state.Unmarshal(raw, &f); err != nil {
		return seen, err
	}
	seen = snapshot.Session{
		Seq: 1, State: f.Session, Link: state.Link{Provider: f.Provider, DisplayName: f.Name}, LastEvent: f.LastEvent, Cut: f.Cut,
	}
	for uri, t := range f.Terminals {
		seen.Terminals = seen.Terminals.With(uri, t)
	}
	return seen, nil
}
