package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nod/agentconn/forms"
	"nod/agentconn/plain"
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
		{ID: "cancel", Label: "Cancel", Kind: state.OptionDeny, Group: new(state.ForSession)},
	}
	r.Caution = caution(r.Params, "threadId", "turnId", "serverName", "environmentId", "mode", "_meta", "message", "requestedSchema", "url", "elicitationId")
	meta := forms.Members(p.Meta)
	switch p.Mode {
	case "form":
		questions, ok := forms.Questions(p.RequestedSchema)
		if r.Questions.Questions = questions; !ok {
			r.Caution = cannotShow("requestedSchema")
		}
	case "url":
		r.Options[0].Label = "I have done it"
		if r.Questions.URL = &p.URL; !state.WebAddress(p.URL) {
			r.Questions.URL = nil
			r.Caution = "nod opens only addresses that begin with http:// or https://, so this can only be refused here. The whole request stands here."
		}
	default: // such as openai/userVerification, which wants a proof of the device
		r.Kind, r.Reason, r.Questions = state.RequestElsewhere, p.Message, nil
		r.Caution = "Another program has to answer this (" + plain.Shorten(p.Mode, 60) + "): open Codex itself, or refuse it here."
	}
	switch kind, _ := forms.AsText(forms.MemberOf(meta, "codex_approval_kind")); {
	case kind == "mcp_tool_call" && p.Mode == "form":
		toToolCall(&r, p, meta)
	case kind != "":
		r.Caution = cannotShow("_meta.codex_approval_kind: " + kind)
	default:
		r.Details = forms.Rest(meta)
	}
	c.askFree(ctx, th, r)
	return true
}

// toolOptions are the answers to a call of a tool. persist are the words that
// Codex takes for one that lasts.
func toolOptions(persist []string) []state.ConfirmationOption {
	options := []state.ConfirmationOption{{ID: "accept", Label: "Allow once", Kind: state.OptionApprove}}
	if slices.Contains(persist, "session") {
		options = append(options, state.ConfirmationOption{ID: "session", Label: "Allow for this session: this tool, with whatever parameters", Kind: state.OptionApprove, Group: new(state.ForSession)})
	}
	if slices.Contains(persist, "always") {
		options = append(options, state.ConfirmationOption{ID: "always", Label: "Always allow this tool (permanent rule)", Kind: state.OptionApprove, Group: new(state.ForGood)})
	}
	return append(options,
		state.ConfirmationOption{ID: "decline", Label: "Deny", Kind: state.OptionDeny},
		state.ConfirmationOption{ID: "cancel", Label: "Deny and cancel the call", Kind: state.OptionDeny, Group: new(state.ForSession)})
}

// toToolCall makes a request one about running a tool.
func toToolCall(r *state.Request, p requestParams, meta []forms.Member) {
	tool, _ := forms.AsText(forms.MemberOf(meta, "tool_name"))
	title, _ := forms.AsText(forms.MemberOf(meta, "tool_title"))
	connector, _ := forms.AsText(forms.MemberOf(meta, "connector_name"))
	r.Kind, r.Reason, r.Questions.Message = state.RequestTool, p.Message, nil
	r.Title = "Run the tool “" + cmp.Or(tool, title) + "” of “" + cmp.Or(connector, p.ServerName) + "”?"
	if tool == "" && title == "" {
		r.Title = "Run a tool of “" + cmp.Or(connector, p.ServerName) + "”?"
	}
	var persist []string
	if raw := forms.MemberOf(meta, "persist"); json.Unmarshal(raw, &persist) != nil { // one word, or a list of them
		word, _ := forms.AsText(raw)
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
	_ = json.Unmarshal(forms.MemberOf(meta, "tool_params_display"), &display) // only words for what tool_params hold
	raw := forms.MemberOf(meta, "tool_params")
	params := forms.Members(raw)
	if len(params) == 0 && len(raw) > 0 && string(raw) != "{}" && string(raw) != "null" {
		params = []forms.Member{{Name: "all of it", Value: raw}}
	}
	if raw == nil {
		for _, d := range display {
			params = append(params, forms.Member{Name: d.Name, Value: d.Value})
		}
	}
	for _, m := range params {
		label := "Parameter " + m.Name
		for _, d := range display {
			if d.Name == m.Name && d.DisplayName != "" && d.DisplayName != m.Name {
				label += " (" + d.DisplayName + ")"
			}
		}
		r.Details = append(r.Details, state.Detail{Label: label, Text: m.Words()})
	}
	if len(params) == 0 {
		r.Details = append(r.Details, state.Detail{Label: "Parameters", Text: "none"})
	}
	r.Details = append(r.Details, state.Detail{Label: "MCP server", Text: p.ServerName})
	if says := hints(forms.MemberOf(meta, "tool_annotations")); says != "" {
		r.Details = append(r.Details, state.Detail{Label: "The server says that this tool", Text: says})
	}
	r.Details = append(r.Details, forms.Rest(meta, "codex_approval_kind", "persist", "tool_name", "tool_params", "tool_params_display", "tool_annotations")...)
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
