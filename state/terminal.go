package state

import (
	"encoding/json"
	"fmt"
)

// Terminal is the state of one terminal channel (schema TerminalState).
type Terminal struct {
	Title                    string         `json:"title"`
	Cwd                      string         `json:"cwd,omitempty"`
	Content                  []TerminalPart `json:"content"`
	ExitCode                 *int           `json:"exitCode,omitempty"`
	Claim                    TerminalClaim  `json:"claim"`
	SupportsCommandDetection bool           `json:"supportsCommandDetection,omitempty"`
}

// TerminalClaim tells who holds a terminal (schema TerminalClaim). Kind is
// client or session and decides which fields have a meaning.
type TerminalClaim struct {
	Kind       string `json:"kind"`
	ClientID   string `json:"clientId,omitempty"`
	Session    string `json:"session,omitempty"`
	TurnID     string `json:"turnId,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
}

// TerminalPart is a piece of output (schema TerminalContentPart). Type is
// unclassified, with Value, or command, with the other fields.
type TerminalPart struct {
	Type        string
	Value       Text
	CommandID   string
	CommandLine string
	Output      Text
	Timestamp   int64 // Unix milliseconds
	IsComplete  bool
	ExitCode    *int
	DurationMs  *int64
}

type commandPart struct {
	CommandID   string `json:"commandId"`
	CommandLine string `json:"commandLine"`
	Output      Text   `json:"output"`
	Timestamp   int64  `json:"timestamp"`
	IsComplete  bool   `json:"isComplete"`
	ExitCode    *int   `json:"exitCode,omitempty"`
	DurationMs  *int64 `json:"durationMs,omitempty"`
}

// MarshalJSON writes the fields of the part's type.
func (p TerminalPart) MarshalJSON() ([]byte, error) {
	if p.Type != "command" {
		return marshalTagged("type", p.Type, struct {
			Value Text `json:"value"`
		}{p.Value})
	}
	return marshalTagged("type", p.Type, commandPart{p.CommandID, p.CommandLine, p.Output, p.Timestamp, p.IsComplete, p.ExitCode, p.DurationMs})
}

// UnmarshalJSON reads a part of either type.
func (p *TerminalPart) UnmarshalJSON(b []byte) error {
	var in struct {
		Type  string `json:"type"`
		Value Text   `json:"value"`
		commandPart
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("terminal part: %w", err)
	}
	c := in.commandPart
	*p = TerminalPart{in.Type, in.Value, c.CommandID, c.CommandLine, c.Output, c.Timestamp, c.IsComplete, c.ExitCode, c.DurationMs}
	return nil
}

// Command returns the newest command of the terminal, or nil.
func (t *Terminal) Command() *TerminalPart {
	for i := len(t.Content) - 1; i >= 0; i-- {
		if t.Content[i].Type == "command" {
			return &t.Content[i]
		}
	}
	return nil
}

// ReduceTerminal returns the state that follows t by a. It returns t itself for
// an action that does not concern terminals.
func ReduceTerminal(t *Terminal, a Action) *Terminal {
	n := *t
	switch a := a.(type) {
	case *TerminalData:
		n.Content = appendOutput(t.Content, a.Data)
	case *TerminalCommandExecuted:
		n.SupportsCommandDetection = true
		n.Content = append(t.Content[:len(t.Content):len(t.Content)], TerminalPart{
			Type: "command", CommandID: a.CommandID, CommandLine: a.CommandLine, Timestamp: a.Timestamp,
		})
	case *TerminalCommandFinished:
		n.Content = cloneParts(t.Content)
		for i := range n.Content {
			if p := &n.Content[i]; p.Type == "command" && p.CommandID == a.CommandID {
				p.IsComplete, p.ExitCode, p.DurationMs = true, a.ExitCode, a.DurationMs
			}
		}
	case *TerminalExited:
		n.ExitCode = a.ExitCode
	default:
		return t
	}
	return &n
}

func cloneParts(ps []TerminalPart) []TerminalPart { return append([]TerminalPart{}, ps...) }

// appendOutput adds output to the tail: an open command's, else an
// unclassified part's, else a new part's.
func appendOutput(ps []TerminalPart, data string) []TerminalPart {
	ps = cloneParts(ps)
	if n := len(ps) - 1; n >= 0 {
		switch p := &ps[n]; {
		case p.Type == "command" && !p.IsComplete:
			p.Output = p.Output.Append(data)
			return ps
		case p.Type == "unclassified":
			p.Value = p.Value.Append(data)
			return ps
		}
	}
	return append(ps, TerminalPart{Type: "unclassified", Value: NewText(data)})
}
