package state

import (
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Offers is what an agent can do over a link that is up, beyond taking messages
// and being stopped. It differs by the agent's version.
type Offers struct {
	Operations []Operation
	Steers     bool   // takes a message while a turn runs
	Attaches   bool   // takes files and images with a message
	ReadOnly   string // why nod only looks on, and where to write and answer; "" if it does not
	Terminal   string // command that opens a session in a terminal, without the session's id at its end; "": none does
}

// Operation is something to do with a session that AHP has no action for.
type Operation struct {
	Name        string
	Title       string // what its button says
	Description string // a sentence about what it does
	Params      []Setting
}

// Setting is one thing that a person may choose: of a new session, of a message
// or of an operation.
type Setting struct {
	Name        string
	Title       string
	Description string
	Choices     []Choice
	Open        bool   // another value than the choices is fine
	Turns       bool   // the choices are the session's turns, by id
	Mutable     bool   // of a session: a later message may change it
	Default     string // the choice that stands where nothing is chosen; "": the agent's own
}

// Choice is one value of a Setting.
type Choice struct {
	Value       string
	Label       string
	Description string
	Risky       bool // is asked for a second time
}

// Choice returns the choice of that value.
func (s Setting) Choice(value string) (Choice, bool) {
	for _, c := range s.Choices {
		if c.Value == value {
			return c, true
		}
	}
	return Choice{}, false
}

// riskyKey is the key, in the _meta of a property of a session's configuration, of the
// values that are asked for a second time. AHP has no word for that.
const riskyKey = "nod.risky"

// SessionConfig returns settings as AHP has them in a session, with no values.
func SessionConfig(settings []Setting) *SessionConfigState {
	if len(settings) == 0 {
		return nil
	}
	c := &SessionConfigState{Schema: ConfigSchema{Type: "object", Properties: map[string]ConfigPropertySchema{}}, Values: map[string]jsontext.Value{}}
	for _, s := range settings {
		p := ConfigPropertySchema{Type: "string", Title: s.Title, SessionMutable: &s.Mutable}
		var risky []string
		for _, c := range s.Choices {
			if s.Open {
				continue
			}
			p.Enum, p.EnumLabels = append(p.Enum, c.Value), append(p.EnumLabels, c.Label)
			if s.Mutable { // it may be chosen again
				p.EnumDescriptions = append(p.EnumDescriptions, c.Description)
				if c.Risky {
					risky = append(risky, c.Value)
				}
			}
		}
		if risky != nil {
			raw, _ := json.Marshal(map[string]any{"_meta": map[string]any{riskyKey: risky}}) // strings always encode
			p.Unknown = (*jsontext.Value)(&raw)
		}
		c.Schema.Properties[s.Name] = p
	}
	return c
}

// Choices returns what can be chosen of a property that has fixed values.
func (p ConfigPropertySchema) Choices() (out []Choice) {
	var more struct {
		Meta map[string][]string `json:"_meta"`
	}
	_ = json.Unmarshal(Value(p.Unknown), &more) // nothing, mostly
	at := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return ""
	}
	for i, v := range p.Enum {
		out = append(out, Choice{Value: v, Label: at(p.EnumLabels, i), Description: at(p.EnumDescriptions, i), Risky: slices.Contains(more.Meta[riskyKey], v)})
	}
	return out
}

// Older is a session that an agent keeps and that nod may not know.
type Older struct {
	URI        string
	Title      string
	Folder     string
	ModifiedAt int64 // Unix milliseconds
}

// OlderPage is a page of them, the newest first.
type OlderPage struct {
	Sessions []Older
	Next     string // cursor of the next page; "": there is none
}

// MessageConfig is the key, in a Message's _meta, of the settings that a person
// has chosen with it: an object of strings by their names.
const MessageConfig = "nod.config"

// MetaQueue is the key, in a session's _meta, of the messages that wait at its agent
// because other clients have queued them there: a list of Waiting.
const MetaQueue = "nod.queue"

// Waiting is a message that waits at an agent.
type Waiting struct {
	ID       string `json:"id"`
	Text     string `json:"text"`               // the begin of it
	Editable bool   `json:"editable,omitempty"` // that is all of it, and it may get another text
}

// Waits returns the messages that wait at an agent, by its session's _meta.
func Waits(m Meta) (list []Waiting) {
	_ = json.Unmarshal(m[MetaQueue], &list) // nothing, mostly
	return list
}
