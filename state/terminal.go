package state

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Terminal is the state of one terminal channel (schema TerminalState).
type Terminal struct {
	Title                    string         `json:"title"`
	Cwd                      *string        `json:"cwd,omitzero"` // URI
	Cols                     *int64         `json:"cols,omitzero"`
	Rows                     *int64         `json:"rows,omitzero"`
	Content                  []TerminalPart `json:"content"`
	ExitCode                 *int64         `json:"exitCode,omitzero"`
	Claim                    TerminalClaim  `json:"claim"`
	SupportsCommandDetection *bool          `json:"supportsCommandDetection,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// TerminalClaim tells who holds a terminal (schema TerminalClaim). Kind is
// client or session and decides which fields have a meaning.
type TerminalClaim struct {
	Kind       string  `json:"kind"`
	ClientID   *string `json:"clientId,omitzero"`
	Session    *string `json:"session,omitzero"` // URI
	TurnID     *string `json:"turnId,omitzero"`
	ToolCallID *string `json:"toolCallId,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// SessionClaim returns the claim of a session.
func SessionClaim(uri string) TerminalClaim { return TerminalClaim{Kind: "session", Session: &uri} }

// TerminalPart is a piece of output (schema TerminalContentPart). Like response
// parts its implementations are pointers that never change once in a state.
type TerminalPart interface{ terminalPartType() string }

// UnclassifiedPart is output that belongs to no known command (schema
// TerminalUnclassifiedPart).
type UnclassifiedPart struct {
	Value Text `json:"value"`

	Unknown *jsontext.Value `json:",embed"`
}

// CommandPart is a command and its output (schema TerminalCommandPart).
type CommandPart struct {
	CommandID   string   `json:"commandId"`
	CommandLine string   `json:"commandLine"`
	Output      Text     `json:"output"`
	Timestamp   int64    `json:"timestamp"` // Unix milliseconds
	IsComplete  bool     `json:"isComplete"`
	ExitCode    *int64   `json:"exitCode,omitzero"`
	DurationMs  *float64 `json:"durationMs,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// OpaqueTerminalPart is a part of a type this program does not know.
type OpaqueTerminalPart struct {
	Type string
	Raw  jsontext.Value
}

func (*UnclassifiedPart) terminalPartType() string     { return "unclassified" }
func (*CommandPart) terminalPartType() string          { return "command" }
func (p *OpaqueTerminalPart) terminalPartType() string { return p.Type }

type (
	unclassifiedMembers UnclassifiedPart
	commandMembers      CommandPart
)

// MarshalJSONTo writes the part with its type.
func (p *UnclassifiedPart) MarshalJSONTo(e *jsontext.Encoder) error {
	return json.MarshalEncode(e, typed[unclassifiedMembers]{p.terminalPartType(), (*unclassifiedMembers)(p)})
}

// MarshalJSONTo writes the part with its type.
func (p *CommandPart) MarshalJSONTo(e *jsontext.Encoder) error {
	return json.MarshalEncode(e, typed[commandMembers]{p.terminalPartType(), (*commandMembers)(p)})
}

// MarshalJSONTo writes the part as it came.
func (p *OpaqueTerminalPart) MarshalJSONTo(e *jsontext.Encoder) error { return e.WriteValue(p.Raw) }

func init() {
	types := map[string]reflect.Type{
		"unclassified": reflect.TypeFor[UnclassifiedPart](),
		"command":      reflect.TypeFor[CommandPart](),
	}
	variants[reflect.TypeFor[TerminalPart]()] = func(raw jsontext.Value) (reflect.Type, error) {
		kind, err := discriminant("type", raw)
		return types[kind], err
	}
}

func unmarshalTerminalPart(d *jsontext.Decoder, p *TerminalPart) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	kind, err := discriminant("type", raw)
	if err != nil {
		return err
	}
	switch kind {
	case "unclassified":
		v, err := readTyped[unclassifiedMembers](raw, d.Options())
		*p = (*UnclassifiedPart)(v)
		return err
	case "command":
		v, err := readTyped[commandMembers](raw, d.Options())
		*p = (*CommandPart)(v)
		return err
	}
	*p = &OpaqueTerminalPart{Type: kind, Raw: bytes.Clone(raw)}
	return nil
}

func readTyped[T any](raw []byte, options json.Options) (*T, error) {
	v := typed[T]{Body: new(T)}
	err := json.Unmarshal(raw, &v, options)
	return v.Body, err
}

// Output returns what was written to the terminal, a string for each part,
// without copying it. A part of an unknown kind has none.
func (t *Terminal) Output() []string {
	out := make([]string, len(t.Content))
	for i, p := range t.Content {
		switch p := p.(type) {
		case *UnclassifiedPart:
			out[i] = p.Value.String()
		case *CommandPart:
			out[i] = p.Output.String()
		}
	}
	return out
}

// Empty reports whether nothing was written to the terminal.
func (t *Terminal) Empty() bool {
	return !slices.ContainsFunc(t.Output(), func(s string) bool { return s != "" })
}

// Command returns the newest command of the terminal, or nil.
func (t *Terminal) Command() *CommandPart {
	for i := len(t.Content) - 1; i >= 0; i-- {
		if c, ok := t.Content[i].(*CommandPart); ok {
			return c
		}
	}
	return nil
}
