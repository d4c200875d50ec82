package state

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ResponsePart is one piece of an answer, in stream order (schema ResponsePart).
// Its implementations are pointers that never change once they are in a state;
// so two states hold the same part exactly if they hold the same pointer.
type ResponsePart interface{ partKind() string }

// MarkdownPart is prose (schema MarkdownResponsePart).
type MarkdownPart struct {
	ID      string `json:"id"`
	Content Text   `json:"content"`
}

// ReasoningPart is what the model thought (schema ReasoningResponsePart).
type ReasoningPart struct {
	ID      string `json:"id"`
	Content Text   `json:"content"`
}

// ToolCallPart holds a tool call (schema ToolCallResponsePart).
type ToolCallPart struct {
	ToolCall ToolCall `json:"toolCall"`
}

// NotificationPart is a remark of the system within an answer (schema
// SystemNotificationResponsePart).
type NotificationPart struct {
	Content StringOrMarkdown `json:"content"`
}

// OpaquePart is a part of a kind this program does not know.
type OpaquePart struct {
	Kind string
	Raw  json.RawMessage
}

func (*MarkdownPart) partKind() string     { return "markdown" }
func (*ReasoningPart) partKind() string    { return "reasoning" }
func (*ToolCallPart) partKind() string     { return "toolCall" }
func (*NotificationPart) partKind() string { return "systemNotification" }
func (p *OpaquePart) partKind() string     { return p.Kind }

// parts gives a list of response parts its JSON form.
type parts []ResponsePart

// MarshalJSON writes each part with its kind.
func (ps parts) MarshalJSON() ([]byte, error) {
	out := make([]json.RawMessage, len(ps))
	for i, p := range ps {
		b, err := marshalPart(p)
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads parts of any kind; unknown kinds become OpaqueParts.
func (ps *parts) UnmarshalJSON(b []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*ps = make(parts, len(raw))
	for i, r := range raw {
		p, err := unmarshalPart(r)
		if err != nil {
			return err
		}
		(*ps)[i] = p
	}
	return nil
}

func marshalPart(p ResponsePart) ([]byte, error) {
	if o, ok := p.(*OpaquePart); ok {
		return o.Raw, nil
	}
	return marshalTagged("kind", p.partKind(), p)
}

func unmarshalPart(b []byte) (ResponsePart, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("response part: %w", err)
	}
	var p ResponsePart
	switch head.Kind {
	case "markdown":
		p = new(MarkdownPart)
	case "reasoning":
		p = new(ReasoningPart)
	case "toolCall":
		p = new(ToolCallPart)
	case "systemNotification":
		p = new(NotificationPart)
	default:
		return &OpaquePart{Kind: head.Kind, Raw: bytes.Clone(b)}, nil
	}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("%s part: %w", head.Kind, err)
	}
	return p, nil
}

// marshalTagged writes v, a struct, as a JSON object that begins with a tag:
// the form of every discriminated union of the schema.
func marshalTagged(key, tag string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(map[string]string{key: tag})
	if err != nil {
		return nil, err
	}
	if len(body) > 2 { // not {}
		head = append(append(head[:len(head)-1], ','), body[1:]...)
	}
	return head, nil
}

type turnFields Turn

// MarshalJSON writes the turn with the JSON form of its parts.
func (t Turn) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		turnFields
		ResponseParts parts `json:"responseParts"`
	}{turnFields(t), t.ResponseParts})
}

// UnmarshalJSON reads a turn.
func (t *Turn) UnmarshalJSON(b []byte) error {
	var in struct {
		turnFields
		ResponseParts parts `json:"responseParts"`
	}
	err := json.Unmarshal(b, &in)
	*t, t.ResponseParts = Turn(in.turnFields), in.ResponseParts
	return err
}

type activeTurnFields ActiveTurn

// MarshalJSON writes the turn with the JSON form of its parts.
func (t ActiveTurn) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		activeTurnFields
		ResponseParts parts `json:"responseParts"`
	}{activeTurnFields(t), t.ResponseParts})
}

// UnmarshalJSON reads a turn.
func (t *ActiveTurn) UnmarshalJSON(b []byte) error {
	var in struct {
		activeTurnFields
		ResponseParts parts `json:"responseParts"`
	}
	err := json.Unmarshal(b, &in)
	*t, t.ResponseParts = ActiveTurn(in.activeTurnFields), in.ResponseParts
	return err
}

// StringOrMarkdown is text that is either plain or markdown (schema
// StringOrMarkdown).
type StringOrMarkdown struct {
	Text     string
	Markdown bool
}

// Plain returns text that is shown as it is.
func Plain(s string) StringOrMarkdown { return StringOrMarkdown{Text: s} }

// MarshalJSON writes a string or an object with the key markdown.
func (s StringOrMarkdown) MarshalJSON() ([]byte, error) {
	if s.Markdown {
		return json.Marshal(map[string]string{"markdown": s.Text})
	}
	return json.Marshal(s.Text)
}

// UnmarshalJSON reads either form.
func (s *StringOrMarkdown) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var m struct {
			Markdown string `json:"markdown"`
		}
		err := json.Unmarshal(b, &m)
		*s = StringOrMarkdown{Text: m.Markdown, Markdown: true}
		return err
	}
	*s = StringOrMarkdown{}
	return json.Unmarshal(b, &s.Text)
}
