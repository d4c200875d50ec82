package state

import "github.com/go-json-experiment/json/jsontext"

// ToolCallStatus is the discriminant of ToolCall (schema ToolCallStatus).
type ToolCallStatus string

// Values of ToolCallStatus.
const (
	ToolStreaming           ToolCallStatus = "streaming"
	ToolPendingConfirmation ToolCallStatus = "pending-confirmation"
	ToolRunning             ToolCallStatus = "running"
	ToolPendingResult       ToolCallStatus = "pending-result-confirmation"
	ToolCompleted           ToolCallStatus = "completed"
	ToolCancelled           ToolCallStatus = "cancelled"
)

// Why a tool call runs or does not (schema ToolCallConfirmationReason and
// ToolCallCancellationReason).
const (
	ConfirmedNotNeeded  = "not-needed"
	ConfirmedUserAction = "user-action"
	ConfirmedSetting    = "setting"

	CancelledDenied       = "denied"
	CancelledSkipped      = "skipped"
	CancelledResultDenied = "result-denied"
)

// ToolCall is a tool call in any state of its life (schema ToolCallState, the
// union of six). Status decides which fields have a meaning.
type ToolCall struct {
	ToolCallID   string         `json:"toolCallId"`
	ToolName     string         `json:"toolName"`
	DisplayName  string         `json:"displayName"`
	ToolClientID *string        `json:"toolClientId,omitzero"`
	Meta         Meta           `json:"_meta,omitzero"`
	Status       ToolCallStatus `json:"status"`

	PartialInput      Text                 `json:"partialInput,omitzero"`      // streaming
	InvocationMessage *StringOrMarkdown    `json:"invocationMessage,omitzero"` // all; optional while streaming
	ToolInput         *string              `json:"toolInput,omitzero"`
	ConfirmationTitle *StringOrMarkdown    `json:"confirmationTitle,omitzero"` // pending-confirmation
	Edits             *FileEdits           `json:"edits,omitzero"`             // pending-confirmation
	Editable          *bool                `json:"editable,omitzero"`          // pending-confirmation
	Options           []ConfirmationOption `json:"options,omitzero"`           // pending-confirmation
	Confirmed         string               `json:"confirmed,omitzero"`         // running and later
	SelectedOption    *ConfirmationOption  `json:"selectedOption,omitzero"`
	Content           []ToolResultContent  `json:"content,omitzero"` // partial while running
	Reason            string               `json:"reason,omitzero"`  // cancelled
	ReasonMessage     *StringOrMarkdown    `json:"reasonMessage,omitzero"`
	UserSuggestion    *Message             `json:"userSuggestion,omitzero"`

	// Of the result (schema ToolCallResult). Success is nil before there is one.
	Success           *bool             `json:"success,omitzero"`
	PastTenseMessage  *StringOrMarkdown `json:"pastTenseMessage,omitzero"`
	StructuredContent Meta              `json:"structuredContent,omitzero"`
	Error             *ToolError        `json:"error,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// Open reports whether the call has neither completed nor been cancelled.
func (t *ToolCall) Open() bool { return t.Status != ToolCompleted && t.Status != ToolCancelled }

// asks reports whether the call waits for a person.
func (t *ToolCall) asks() bool {
	return t.Status == ToolPendingConfirmation || t.Status == ToolPendingResult
}

// ToolCallResult is what a tool returned (schema ToolCallResult).
type ToolCallResult struct {
	Success           bool                `json:"success"`
	PastTenseMessage  StringOrMarkdown    `json:"pastTenseMessage"`
	Content           []ToolResultContent `json:"content,omitzero"`
	StructuredContent Meta                `json:"structuredContent,omitzero"`
	Error             *ToolError          `json:"error,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ToolError says why a tool failed (schema ToolCallResult.error).
type ToolError struct {
	Message string  `json:"message"`
	Code    *string `json:"code,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ConfirmationOption is an answer that the agent offers (schema
// ConfirmationOption).
type ConfirmationOption struct {
	ID    string     `json:"id"`
	Label string     `json:"label"`
	Kind  OptionKind `json:"kind"`
	Group *int64     `json:"group,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// Groups of options that reach further than the one request, each further than the one
// before. (Of ConfirmationOption.group, to which AHP gives no meaning.)
const (
	ForSession int64 = 1 // more than one run
	ForGood    int64 = 2 // a rule that stays
	Unattended int64 = 3 // the agent goes on without asking
)

// OptionKind tells whether an option lets the agent go on (schema
// ConfirmationOptionKind).
type OptionKind string

// Values of OptionKind.
const (
	OptionApprove OptionKind = "approve"
	OptionDeny    OptionKind = "deny"
)

// ToolResultContent is one block of a result (schema ToolResultContent). Type
// decides which fields have a meaning.
type ToolResultContent struct {
	Type        string    `json:"type"` // text, embeddedResource, resource, fileEdit, terminal, subagent
	Text        *string   `json:"text,omitzero"`
	Data        *string   `json:"data,omitzero"` // base64
	URI         *string   `json:"uri,omitzero"`
	SizeHint    *int64    `json:"sizeHint,omitzero"` // bytes
	ContentType *string   `json:"contentType,omitzero"`
	Before      *FileSide `json:"before,omitzero"`
	After       *FileSide `json:"after,omitzero"`
	Diff        *DiffSize `json:"diff,omitzero"`
	Resource    *string   `json:"resource,omitzero"` // URI of a terminal or of a sub-agent's session
	Title       *string   `json:"title,omitzero"`
	AgentName   *string   `json:"agentName,omitzero"`
	Description *string   `json:"description,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// Values of ToolResultContent.Type that refer to other channels.
const (
	ContentText     = "text"
	ContentTerminal = "terminal"
	ContentSubagent = "subagent"
)

// TextContent returns a block of text.
func TextContent(text string) ToolResultContent {
	return ToolResultContent{Type: ContentText, Text: &text}
}

// TerminalContent returns the block that refers to a terminal.
func TerminalContent(resource, title string) ToolResultContent {
	return ToolResultContent{Type: ContentTerminal, Resource: &resource, Title: &title}
}

// SubagentContent returns the block that refers to a sub-agent's session.
func SubagentContent(resource, title string) ToolResultContent {
	return ToolResultContent{Type: ContentSubagent, Resource: &resource, Title: &title}
}

// ToolDefinition describes a tool (schema ToolDefinition). The schemas are JSON
// Schema.
type ToolDefinition struct {
	Name         string           `json:"name"`
	Title        *string          `json:"title,omitzero"`
	Description  *string          `json:"description,omitzero"`
	InputSchema  jsontext.Value   `json:"inputSchema,omitzero"`
	OutputSchema jsontext.Value   `json:"outputSchema,omitzero"`
	Annotations  *ToolAnnotations `json:"annotations,omitzero"`
	Meta         Meta             `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ToolAnnotations are a tool's own claims; nothing may rest on them (schema
// ToolAnnotations).
type ToolAnnotations struct {
	Title           *string `json:"title,omitzero"`
	ReadOnlyHint    *bool   `json:"readOnlyHint,omitzero"`
	DestructiveHint *bool   `json:"destructiveHint,omitzero"`
	IdempotentHint  *bool   `json:"idempotentHint,omitzero"`
	OpenWorldHint   *bool   `json:"openWorldHint,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}
