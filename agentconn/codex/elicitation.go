package codex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nod/state"
)

// askElicitation asks what an MCP server wants to know of a person, or whether a
// tool of it may run: Codex asks both in one form.
func (c *conn) askElicitation(ctx context.Context, th *thread, p requestParams, r state.Request) bool {
	if p.ServerName == "" {
		return false
	}
	r.Kind, r.Title, r.Questions = state.RequestQuestion, "The server “"+p.ServerName+"” asks", &state.InputRequest{Message: state.Optional(p.Message)}
	r.Options = []state.ConfirmationOption{
		{ID: "accept", Label: "Answer", Kind: state.OptionApprove},
		{ID: "decline", Label: "Decline", Kind: state.OptionDeny},
		{ID: "cancel", Label: "Cancel", Kind: state.OptionDeny, Group: new(forSession)},
	}
	r.Caution = caution(r.Params, "threadId", "turnId", "serverName", "environmentId", "mode", "_meta", "message", "requestedSchema", "url", "elicitationId")
	meta := members(p.Meta)
	switch p.Mode {
	case "form":
		questions, ok := formQuestions(p.RequestedSchema)
		if r.Questions.Questions = questions; !ok {
			r.Caution = cannotShow("requestedSchema")
		}
	case "url":
		r.Options[0].Label = "I have done it"
		if r.Questions.URL = &p.URL; !state.WebAddress(p.URL) {
			r.Questions.URL = nil
			r.Caution = "nod opens only addresses that begin with http:// or https://, so this can only be refused here. The whole request is below."
		}
	default: // such as openai/userVerification, which wants a proof of the device
		r.Kind, r.Reason, r.Questions = state.RequestElsewhere, p.Message, nil
		r.Caution = "Another program has to answer this (" + shorten(p.Mode, 60) + "): open Codex itself, or refuse it here."
	}
	switch kind, _ := asText(memberOf(meta, "codex_approval_kind")); {
	case kind == "mcp_tool_call" && p.Mode == "form":
		toToolCall(&r, p, meta)
	case kind != "":
		r.Caution = cannotShow("_meta.codex_approval_kind: " + kind)
	default:
		r.Details = rest(meta)
	}
	c.askFree(ctx, th, r)
	return true
}

// toolOptions are the answers to a call of a tool. persist are the words that
// Codex takes for one that lasts.
func toolOptions(persist []string) []state.ConfirmationOption {
	options := []state.ConfirmationOption{{ID: "accept", Label: "Allow once", Kind: state.OptionApprove}}
	if slices.Contains(persist, "session") {
		options = append(options, state.ConfirmationOption{ID: "session", Label: "Allow for this session: this tool, with whatever parameters", Kind: state.OptionApprove, Group: new(forSession)})
	}
	if slices.Contains(persist, "always") {
		options = append(options, state.ConfirmationOption{ID: "always", Label: "Always allow this tool (permanent rule)", Kind: state.OptionApprove, Group: new(forGood)})
	}
	return append(options,
		state.ConfirmationOption{ID: "decline", Label: "Deny", Kind: state.OptionDeny},
		state.ConfirmationOption{ID: "cancel", Label: "Deny and cancel the call", Kind: state.OptionDeny, Group: new(forSession)})
}

// toToolCall makes a request one about running a tool.
func toToolCall(r *state.Request, p requestParams, meta []member) {
	tool, _ := asText(memberOf(meta, "tool_name"))
	title, _ := asText(memberOf(meta, "tool_title"))
	connector, _ := asText(memberOf(meta, "connector_name"))
	r.Kind, r.Reason, r.Questions.Message = state.RequestTool, p.Message, nil
	r.Title = "Run the tool “" + cmp.Or(tool, title) + "” of “" + cmp.Or(connector, p.ServerName) + "”?"
	if tool == "" && title == "" {
		r.Title = "Run a tool of “" + cmp.Or(connector, p.ServerName) + "”?"
	}
	var persist []string
	if raw := memberOf(meta, "persist"); json.Unmarshal(raw, &persist) != nil { // one word, or a list of them
		word, _ := asText(raw)
		persist = []string{word}
	}
	r.Options = toolOptions(persist)
	if len(r.Questions.Questions) == 0 {
		r.Questions.Message = &r.Title
	}
	var display []struct {
		Name        string          `json:"name"`
		DisplayName string          `json:"display_name"`
		Value       json.RawMessage `json:"value"`
	}
	_ = json.Unmarshal(memberOf(meta, "tool_params_display"), &display) // only words for what tool_params hold
	raw := memberOf(meta, "tool_params")
	params := members(raw)
	if len(params) == 0 && len(raw) > 0 && string(raw) != "{}" && string(raw) != "null" {
		params = []member{{"all of it", raw}}
	}
	if raw == nil {
		for _, d := range display {
			params = append(params, member{d.Name, d.Value})
		}
	}
	for _, m := range params {
		label := "Parameter " + m.name
		for _, d := range display {
			if d.Name == m.name && d.DisplayName != "" && d.DisplayName != m.name {
				label += " (" + d.DisplayName + ")"
			}
		}
		r.Details = append(r.Details, state.Detail{Label: label, Text: m.words()})
	}
	if len(params) == 0 {
		r.Details = append(r.Details, state.Detail{Label: "Parameters", Text: "none"})
	}
	r.Details = append(r.Details, state.Detail{Label: "MCP server", Text: p.ServerName})
	if says := hints(memberOf(meta, "tool_annotations")); says != "" {
		r.Details = append(r.Details, state.Detail{Label: "The server says that this tool", Text: says})
	}
	r.Details = append(r.Details, rest(meta, "codex_approval_kind", "persist", "tool_name", "tool_params", "tool_params_display", "tool_annotations")...)
}

// hints tells what a server says of its tool.
func hints(raw json.RawMessage) string {
	var h struct {
		ReadOnly    bool `json:"readOnlyHint"`
		Destructive bool `json:"destructiveHint"`
		OpenWorld   bool `json:"openWorldHint"`
	}
	_ = json.Unmarshal(raw, &h) // no hints then
	var says []string
	if h.ReadOnly {
		says = append(says, "only reads")
	}
	if h.Destructive {
		says = append(says, "may destroy or overwrite")
	}
	if h.OpenWorld {
		says = append(says, "reaches beyond this machine")
	}
	return strings.Join(says, ", ")
}

// elicited answers an elicitation. What an approval of a tool is to last for goes
// into _meta.
func elicited(r state.Request, _ requestParams, d state.Decision) any {
	action, content, meta := d.OptionID, any(nil), any(nil)
	switch d.OptionID {
	case "session", "always":
		action, meta = "accept", map[string]string{"persist": d.OptionID}
	}
	if action == "accept" && r.Questions.URL == nil {
		values := map[string]jsontext.Value{}
		for _, q := range r.Questions.Questions {
			if v, ok := q.JSON(d.Answers[q.ID]); ok {
				values[q.ID] = v
			}
		}
		content = values
	}
	return map[string]any{"action": action, "content": content, "_meta": meta}
}

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

// formQuestions makes a question of each field of a form, in the form's order. ok
// is false if some field is of no kind that nod knows.
func formQuestions(schema json.RawMessage) (questions []state.Question, ok bool) {
	var required []string
	form := members(schema)
	if raw := memberOf(form, "required"); raw != nil && json.Unmarshal(raw, &required) != nil {
		return nil, false
	}
	for _, m := range members(memberOf(form, "properties")) {
		var p property
		if json.Unmarshal(m.value, &p) != nil {
			return nil, false
		}
		q := state.Question{
			ID: m.name, Kind: p.Type, Message: cmp.Or(p.Description, p.Title, m.name),
			Required: new(slices.Contains(required, m.name)), DefaultValue: set(p.Default),
		}
		if p.Description != "" {
			q.Title = new(cmp.Or(p.Title, m.name))
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
	return questions, form != nil && unique(questions)
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

// member is one of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// words are what a person reads of a value: a text as it is, else JSON.
func (m member) words() string {
	if s, ok := asText(m.value); ok {
		return s
	}
	return string(m.value)
}

// members returns those of an object in their order, nil if it is none.
func members(raw json.RawMessage) []member {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	out := []member{}
	for d.More() {
		name, err := d.Token()
		var m member
		if err != nil || d.Decode(&m.value) != nil {
			return nil
		}
		m.name, _ = name.(string) // a key is nothing else
		out = append(out, m)
	}
	return out
}

func memberOf(list []member, name string) json.RawMessage {
	for _, m := range list {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// rest shows what else a request holds.
func rest(list []member, shown ...string) []state.Detail {
	var out []state.Detail
	for _, m := range list {
		if !slices.Contains(shown, m.name) && string(m.value) != "null" {
			out = append(out, state.Detail{Label: strings.ReplaceAll(m.name, "_", " "), Text: m.words()})
		}
	}
	return out
}
