// Package forms reads the forms of MCP servers (MCP: elicitation, requestedSchema),
// which agents pass on.
package forms

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
)

// property is what a form says of a field (schema McpElicitationPrimitiveSchema).
type property struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Format      string          `json:"format"`
	Default     json.RawMessage `json:"default"`
	Minimum     json.RawMessage `json:"minimum"`
	Maximum     json.RawMessage `json:"maximum"`
	MinLength   json.RawMessage `json:"minLength"`
	MaxLength   json.RawMessage `json:"maxLength"`
	MinItems    json.RawMessage `json:"minItems"`
	MaxItems    json.RawMessage `json:"maxItems"`
	choices
	EnumNames []string `json:"enumNames"`
	Items     *choices `json:"items"`
}

type choices struct {
	Enum  []string      `json:"enum"`
	OneOf []constOption `json:"oneOf"`
	AnyOf []constOption `json:"anyOf"`
}

type constOption struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

func (c choices) options(names []string) []state.QuestionOption {
	var out []state.QuestionOption
	for i, word := range c.Enum {
		label := word
		if i < len(names) && names[i] != "" {
			label = names[i]
		}
		out = append(out, state.QuestionOption{ID: word, Label: label})
	}
	for _, o := range slices.Concat(c.OneOf, c.AnyOf) {
		out = append(out, state.QuestionOption{ID: o.Const, Label: cmp.Or(o.Title, o.Const)})
	}
	return out
}

// Questions makes a question of each field of a form, in the form's order. ok
// is false if some field is of no kind that nod knows.
func Questions(schema json.RawMessage) (questions []state.Question, ok bool) {
	var required []string
	fields := Members(schema)
	if raw := MemberOf(fields, "required"); raw != nil && json.Unmarshal(raw, &required) != nil {
		return nil, false
	}
	for _, m := range Members(MemberOf(fields, "properties")) {
		var p property
		if json.Unmarshal(m.Value, &p) != nil {
			return nil, false
		}
		q := state.Question{
			ID: m.Name, Kind: p.Type, Message: cmp.Or(p.Description, p.Title, m.Name),
			Required: new(slices.Contains(required, m.Name)), DefaultValue: set(p.Default),
		}
		if p.Description != "" {
			q.Title = new(cmp.Or(p.Title, m.Name))
		}
		switch p.Type {
		case "string":
			q.Kind, q.Format, q.Min, q.Max = "text", state.Optional(p.Format), set(p.MinLength), set(p.MaxLength)
			if q.Options = p.options(p.EnumNames); len(q.Options) > 0 {
				q.Kind, q.Format, q.Min, q.Max = "single-select", nil, nil, nil
			}
		case "number", "integer":
			q.Min, q.Max = set(p.Minimum), set(p.Maximum)
		case "boolean":
		case "array":
			q.Kind, q.Min, q.Max = "multi-select", set(p.MinItems), set(p.MaxItems)
			if p.Items != nil {
				q.Options = p.Items.options(nil)
			}
			if len(q.Options) == 0 {
				return nil, false
			}
		default:
			return nil, false
		}
		questions = append(questions, q)
	}
	return questions, fields != nil && unique(questions)
}

// set is a value that is there and not null.
func set(raw json.RawMessage) jsontext.Value {
	if string(raw) == "null" {
		return nil
	}
	return jsontext.Value(raw)
}

func unique(questions []state.Question) bool {
	known := map[string]bool{}
	for _, q := range questions {
		known[q.ID] = true
	}
	return len(known) == len(questions)
}

// Member is one of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Words are what a person reads of a value: a text as it is, else JSON.
func (m Member) Words() string {
	if s, ok := AsText(m.Value); ok {
		return s
	}
	return string(m.Value)
}

// Members returns those of an object in their order, nil if it is none.
func Members(raw json.RawMessage) []Member {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	out := []Member{}
	for d.More() {
		name, err := d.Token()
		var m Member
		if err != nil || d.Decode(&m.Value) != nil {
			return nil
		}
		m.Name, _ = name.(string) // a key is nothing else
		out = append(out, m)
	}
	return out
}

// MemberOf returns the value of the member of that name, nil if there is none.
func MemberOf(list []Member, name string) json.RawMessage {
	for _, m := range list {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// Rest shows what else a request holds.
func Rest(list []Member, shown ...string) []state.Detail {
	var out []state.Detail
	for _, m := range list {
		if !slices.Contains(shown, m.Name) && string(m.Value) != "null" {
			out = append(out, state.Detail{Label: strings.ReplaceAll(m.Name, "_", " "), Text: m.Words()})
		}
	}
	return out
}

// AsText returns a JSON value that is a text.
func AsText(raw json.RawMessage) (s string, ok bool) {
	return s, len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
}
