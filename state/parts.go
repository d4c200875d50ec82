package state

import (
	"bytes"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ResponsePart is one piece of an answer, in stream order (schema ResponsePart).
// Its implementations are pointers that never change once they are in a state;
// so two states hold the same part exactly if they hold the same pointer.
type ResponsePart interface{ partKind() string }

// MarkdownPart is prose (schema MarkdownResponsePart). Meta is nod's own addition.
type MarkdownPart struct {
	ID      string `json:"id"`
	Content Text   `json:"content"`
	Meta    Meta   `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ReasoningPart is what the model thought (schema ReasoningResponsePart). Meta is
// nod's own addition.
type ReasoningPart struct {
	ID      string `json:"id"`
	Content Text   `json:"content"`
	Meta    Meta   `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ContentRefPart is content that lies elsewhere (schema ResourceReponsePart).
type ContentRefPart struct {
	URI         string  `json:"uri"`
	SizeHint    *int64  `json:"sizeHint,omitzero"` // bytes
	ContentType *string `json:"contentType,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ToolCallPart holds a tool call (schema ToolCallResponsePart).
type ToolCallPart struct {
	ToolCall ToolCall `json:"toolCall"`

	Unknown *jsontext.Value `json:",embed"`
}

// NotificationPart is a remark of the system within an answer (schema
// SystemNotificationResponsePart). Meta is nod's own addition.
type NotificationPart struct {
	Content StringOrMarkdown `json:"content"`
	Meta    Meta             `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// OpaquePart is a part of a kind this program does not know, as it came.
type OpaquePart struct {
	Kind string
	Raw  jsontext.Value
}

func (*MarkdownPart) partKind() string     { return "markdown" }
func (*ReasoningPart) partKind() string    { return "reasoning" }
func (*ContentRefPart) partKind() string   { return "contentRef" }
func (*ToolCallPart) partKind() string     { return "toolCall" }
func (*NotificationPart) partKind() string { return "systemNotification" }
func (p *OpaquePart) partKind() string     { return p.Kind }

// The variants' own members, without the methods below.
type (
	markdownMembers     MarkdownPart
	reasoningMembers    ReasoningPart
	contentRefMembers   ContentRefPart
	toolCallMembers     ToolCallPart
	notificationMembers NotificationPart
)

// MarshalJSONTo writes the part with its kind.
func (p *MarkdownPart) MarshalJSONTo(e *jsontext.Encoder) error {
	return json.MarshalEncode(e, tagged[markdownMembers]{p.partKind(), (*markdownMembers)(p)})
}

// MarshalJSONTo writes the part with its kind.
func (p *ReasoningPart) MarshalJSONTo(e *jsontext.Encoder) error {
	return json.MarshalEncode(e, tagged[reasoningMembers]{p.partKind(), (*reasoningMembers)(p)})
}

// MarshalJSONTo writes the part with its kind.
func (p *ContentRefPart) MarshalJSONTo(e *jsontext.Encoder) error {
	return json.MarshalEncode(e, tagged[contentRefMembers]{p.partKind(), (*contentRefMembers)(p)})
}

// MarshalJSONTo writes the part with its kind.
func (p *ToolCallPart) MarshalJSONTo(e *jsontext.Encoder) error {
	return json.MarshalEncode(e, tagged[toolCallMembers]{p.partKind(), (*toolCallMembers)(p)})
}

// MarshalJSONTo writes the part with its kind.
func (p *NotificationPart) MarshalJSONTo(e *jsontext.Encoder) error {
	return json.MarshalEncode(e, tagged[notificationMembers]{p.partKind(), (*notificationMembers)(p)})
}

// MarshalJSONTo writes the part as it came.
func (p *OpaquePart) MarshalJSONTo(e *jsontext.Encoder) error { return e.WriteValue(p.Raw) }

func init() {
	types := map[string]reflect.Type{
		"markdown":           reflect.TypeFor[MarkdownPart](),
		"reasoning":          reflect.TypeFor[ReasoningPart](),
		"contentRef":         reflect.TypeFor[ContentRefPart](),
		"toolCall":           reflect.TypeFor[ToolCallPart](),
		"systemNotification": reflect.TypeFor[NotificationPart](),
	}
	variants[reflect.TypeFor[ResponsePart]()] = func(raw jsontext.Value) (reflect.Type, error) {
		kind, err := discriminant("kind", raw)
		return types[kind], err
	}
}

func unmarshalPart(d *jsontext.Decoder, p *ResponsePart) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	kind, err := discriminant("kind", raw)
	if err != nil {
		return err
	}
	switch kind {
	case "markdown":
		v, err := readTagged[markdownMembers](raw, d.Options())
		*p = (*MarkdownPart)(v)
		return err
	case "reasoning":
		v, err := readTagged[reasoningMembers](raw, d.Options())
		*p = (*ReasoningPart)(v)
		return err
	case "contentRef":
		v, err := readTagged[contentRefMembers](raw, d.Options())
		*p = (*ContentRefPart)(v)
		return err
	case "toolCall":
		v, err := readTagged[toolCallMembers](raw, d.Options())
		*p = (*ToolCallPart)(v)
		return err
	case "systemNotification":
		v, err := readTagged[notificationMembers](raw, d.Options())
		*p = (*NotificationPart)(v)
		return err
	}
	*p = &OpaquePart{Kind: kind, Raw: bytes.Clone(raw)}
	return nil
}

func readTagged[T any](raw []byte, options json.Options) (*T, error) {
	v := tagged[T]{Body: new(T)}
	err := json.Unmarshal(raw, &v, options)
	return v.Body, err
}

// StringOrMarkdown is text that is either plain or markdown (schema
// StringOrMarkdown).
type StringOrMarkdown struct {
	Text     string
	Markdown bool
	Unknown  *jsontext.Value // further members of the markdown form
}

// Plain returns text that is shown as it is.
func Plain(s string) StringOrMarkdown { return StringOrMarkdown{Text: s} }

type markdownForm struct {
	Markdown string          `json:"markdown"`
	Unknown  *jsontext.Value `json:",embed"`
}

func init() {
	variants[reflect.TypeFor[StringOrMarkdown]()] = func(raw jsontext.Value) (reflect.Type, error) {
		if raw.Kind() == '{' {
			return reflect.TypeFor[markdownForm](), nil
		}
		return nil, nil
	}
}

// MarshalJSONTo writes a string, or an object with the member markdown.
func (s StringOrMarkdown) MarshalJSONTo(e *jsontext.Encoder) error {
	if s.Markdown {
		return json.MarshalEncode(e, markdownForm{s.Text, s.Unknown})
	}
	return e.WriteToken(jsontext.String(s.Text))
}

// UnmarshalJSONFrom reads either form.
func (s *StringOrMarkdown) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		*s = StringOrMarkdown{}
		return json.UnmarshalDecode(d, &s.Text)
	}
	var m markdownForm
	err := json.UnmarshalDecode(d, &m)
	*s = StringOrMarkdown{m.Markdown, true, m.Unknown}
	return err
}
