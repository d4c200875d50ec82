package schematest

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// This file is all that is known to be wrong with the pinned schema file.
//
// The enums are closed here, although a reader has to accept values it does not
// know: these checks are for what nod itself puts out.

// lost are definitions that the schema refers to and does not have. A name with
// a dot is one member of an enum.
var lost = map[string]string{
	"URI": `{"type":"string"}`,

	// Bits 0-4 are one of four activities, 5 and 6 are IsRead and IsArchived.
	"SessionStatus":    `{"enum":[1,2,8,24, 33,34,40,56, 65,66,72,88, 97,98,104,120]}`,
	"SessionLifecycle": `{"enum":["creating","ready","creationFailed"]}`,
	"TurnState":        `{"enum":["complete","cancelled","error"]}`,
	"PolicyState":      `{"enum":["enabled","disabled","unconfigured"]}`,

	"ResponsePartKind.Markdown":           `{"const":"markdown"}`,
	"ResponsePartKind.ContentRef":         `{"const":"contentRef"}`,
	"ResponsePartKind.ToolCall":           `{"const":"toolCall"}`,
	"ResponsePartKind.Reasoning":          `{"const":"reasoning"}`,
	"ResponsePartKind.SystemNotification": `{"const":"systemNotification"}`,

	"MessageAttachmentKind.Simple":           `{"const":"simple"}`,
	"MessageAttachmentKind.EmbeddedResource": `{"const":"embeddedResource"}`,
	"MessageAttachmentKind.Resource":         `{"const":"resource"}`,

	"ToolCallStatus.Streaming":                 `{"const":"streaming"}`,
	"ToolCallStatus.PendingConfirmation":       `{"const":"pending-confirmation"}`,
	"ToolCallStatus.Running":                   `{"const":"running"}`,
	"ToolCallStatus.PendingResultConfirmation": `{"const":"pending-result-confirmation"}`,
	"ToolCallStatus.Completed":                 `{"const":"completed"}`,
	"ToolCallStatus.Cancelled":                 `{"const":"cancelled"}`,
	"ToolCallConfirmationReason":               `{"enum":["not-needed","user-action","setting"]}`,
	"ToolCallCancellationReason":               `{"enum":["denied","skipped","result-denied"]}`,
	"ConfirmationOptionKind":                   `{"enum":["approve","deny"]}`,

	"ToolResultContentType.Text":             `{"const":"text"}`,
	"ToolResultContentType.EmbeddedResource": `{"const":"embeddedResource"}`,
	"ToolResultContentType.Resource":         `{"const":"resource"}`,
	"ToolResultContentType.FileEdit":         `{"const":"fileEdit"}`,
	"ToolResultContentType.Terminal":         `{"const":"terminal"}`,
	"ToolResultContentType.Subagent":         `{"const":"subagent"}`,

	"SessionInputQuestionKind.Text":            `{"const":"text"}`,
	"SessionInputQuestionKind.Number":          `{"const":"number"}`,
	"SessionInputQuestionKind.Integer":         `{"const":"integer"}`,
	"SessionInputQuestionKind.Boolean":         `{"const":"boolean"}`,
	"SessionInputQuestionKind.SingleSelect":    `{"const":"single-select"}`,
	"SessionInputQuestionKind.MultiSelect":     `{"const":"multi-select"}`,
	"SessionInputAnswerState.Draft":            `{"const":"draft"}`,
	"SessionInputAnswerState.Submitted":        `{"const":"submitted"}`,
	"SessionInputAnswerState.Skipped":          `{"const":"skipped"}`,
	"SessionInputAnswerValueKind.Text":         `{"const":"text"}`,
	"SessionInputAnswerValueKind.Number":       `{"const":"number"}`,
	"SessionInputAnswerValueKind.Boolean":      `{"const":"boolean"}`,
	"SessionInputAnswerValueKind.Selected":     `{"const":"selected"}`,
	"SessionInputAnswerValueKind.SelectedMany": `{"const":"selected-many"}`,

	"CustomizationType.Plugin":         `{"const":"plugin"}`,
	"CustomizationType.Directory":      `{"const":"directory"}`,
	"CustomizationType.Agent":          `{"const":"agent"}`,
	"CustomizationType.Skill":          `{"const":"skill"}`,
	"CustomizationType.Prompt":         `{"const":"prompt"}`,
	"CustomizationType.Rule":           `{"const":"rule"}`,
	"CustomizationType.Hook":           `{"const":"hook"}`,
	"CustomizationType.McpServer":      `{"const":"mcpServer"}`,
	"CustomizationLoadStatus.Loading":  `{"const":"loading"}`,
	"CustomizationLoadStatus.Loaded":   `{"const":"loaded"}`,
	"CustomizationLoadStatus.Degraded": `{"const":"degraded"}`,
	"CustomizationLoadStatus.Error":    `{"const":"error"}`,

	"TerminalClaimKind.Client":  `{"const":"client"}`,
	"TerminalClaimKind.Session": `{"const":"session"}`,

	"ChangesetStatus":          `{"enum":["computing","ready","error"]}`,
	"ChangesetOperationStatus": `{"enum":["idle","running","error"]}`,
	"ChangesetOperationScope":  `{"enum":["changeset","resource","range"]}`,
	"ResourceChangeType":       `{"enum":["added","updated","deleted"]}`,
}

// wrong are places that have a definition, and a wrong one: an object type
// written in place, and its members that are no plain types, came out as string.
var wrong = map[string]string{
	"FileEdit/properties/before/properties/content":                  `{"$ref":"#/$defs/ContentRef"}`,
	"FileEdit/properties/after/properties/content":                   `{"$ref":"#/$defs/ContentRef"}`,
	"ToolResultFileEditContent/properties/before/properties/content": `{"$ref":"#/$defs/ContentRef"}`,
	"ToolResultFileEditContent/properties/after/properties/content":  `{"$ref":"#/$defs/ContentRef"}`,

	"ToolCallPendingConfirmationState/properties/edits/properties/items": `{"type":"array","items":{"$ref":"#/$defs/FileEdit"}}`,

	"ToolDefinition/properties/inputSchema/properties/type":        `{"const":"object"}`,
	"ToolDefinition/properties/inputSchema/properties/properties":  `{"type":"object","additionalProperties":{"type":"object"}}`,
	"ToolDefinition/properties/inputSchema/properties/required":    `{"type":"array","items":{"type":"string"}}`,
	"ToolDefinition/properties/outputSchema/properties/type":       `{"const":"object"}`,
	"ToolDefinition/properties/outputSchema/properties/properties": `{"type":"object","additionalProperties":{"type":"object"}}`,
	"ToolDefinition/properties/outputSchema/properties/required":   `{"type":"array","items":{"type":"string"}}`,

	"ResourceWatchState/properties/excludes/properties/items": `{"type":"array","items":{"type":"string"}}`,
	"ResourceWatchState/properties/includes/properties/items": `{"type":"array","items":{"type":"string"}}`,

	"Message/properties/origin/properties/kind": `{"enum":["user","systemNotification"]}`,

	// usage is `UsageInfo | undefined`, which is not "required".
	"Turn/required":       `["id","message","responseParts","state"]`,
	"ActiveTurn/required": `["id","message","responseParts"]`,
}

// openUnions are the unions with an empty schema among their members. It matches
// everything, so that nothing matches exactly one of them.
var openUnions = []string{
	"MessageAttachment", "ResponsePart", "ToolCallState", "ToolResultContent", "ChildCustomizationType",
	"CustomizationLoadState", "ChildCustomization", "TerminalContentPart",
}

// fill repairs the definitions in place.
func fill(defs map[string]any) error {
	for name, schema := range lost {
		if _, has := defs[name]; has {
			return fmt.Errorf("the definition %s is no longer lost", name)
		}
		defs[name] = literal(schema)
	}
	for at, schema := range wrong {
		path := strings.Split(at, "/")
		last := len(path) - 1
		node := defs
		for _, step := range path[:last] {
			node, _ = node[step].(map[string]any)
		}
		if !mistaken(node[path[last]]) {
			return fmt.Errorf("%s is not as wrong as it was", at)
		}
		node[path[last]] = literal(schema)
	}
	for _, name := range openUnions {
		union, _ := defs[name].(map[string]any)
		members, _ := union["oneOf"].([]any)
		named := make([]any, 0, len(members))
		for _, m := range members {
			if s, _ := m.(map[string]any); len(s) > 0 {
				named = append(named, m)
			}
		}
		if len(named) == len(members) {
			return fmt.Errorf("the union %s has no empty member any more", name)
		}
		delete(union, "oneOf")
		union["anyOf"] = named
	}
	return nil
}

// mistaken reports whether v is what the generator writes at each place of
// wrong: a plain string, or a list of required members with usage in it.
func mistaken(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return v["type"] == "string" && v["enum"] == nil
	case []any:
		for _, name := range v {
			if name == "usage" {
				return true
			}
		}
	}
	return false
}

// literal is a JSON text of this file as a value.
func literal(text string) any {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		panic(text + ": " + err.Error())
	}
	return v
}
