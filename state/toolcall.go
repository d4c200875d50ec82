package state

import "encoding/json"

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

	CancelledDenied  = "denied"
	CancelledSkipped = "skipped"
)

// ToolCall is a tool call in any state of its life (schema ToolCallState, the
// union of six). Status decides which fields have a meaning.
type ToolCall struct {
	ToolCallID   string                     `json:"toolCallId"`
	ToolName     string                     `json:"toolName"`
	DisplayName  string                     `json:"displayName"`
	ToolClientID string                     `json:"toolClientId,omitempty"`
	Meta         map[string]json.RawMessage `json:"_meta,omitempty"`
	Status       ToolCallStatus             `json:"status"`

	PartialInput      string               `json:"partialInput,omitempty"`      // streaming
	InvocationMessage *StringOrMarkdown    `json:"invocationMessage,omitempty"` // all; optional while streaming
	ToolInput         string               `json:"toolInput,omitempty"`
	ConfirmationTitle *StringOrMarkdown    `json:"confirmationTitle,omitempty"` // pending-confirmation
	Edits             *FileEdits           `json:"edits,omitempty"`             // pending-confirmation
	Editable          bool                 `json:"editable,omitempty"`          // pending-confirmation
	Options           []ConfirmationOption `json:"options,omitempty"`           // pending-confirmation
	Confirmed         string               `json:"confirmed,omitempty"`         // running and later
	SelectedOption    *ConfirmationOption  `json:"selectedOption,omitempty"`
	Content           []ToolResultContent  `json:"content,omitempty"` // partial while running
	Reason            string               `json:"reason,omitempty"`  // cancelled
	ReasonMessage     *StringOrMarkdown    `json:"reasonMessage,omitempty"`
	UserSuggestion    *Message             `json:"userSuggestion,omitempty"`

	// Of the result (schema ToolCallResult). Success is nil before there is one.
	Success           *bool                      `json:"success,omitempty"`
	PastTenseMessage  *StringOrMarkdown          `json:"pastTenseMessage,omitempty"`
	StructuredContent map[string]json.RawMessage `json:"structuredContent,omitempty"`
	Error             *ToolError                 `json:"error,omitempty"`
}

// Open reports whether the call has neither completed nor been cancelled.
func (t *ToolCall) Open() bool { return t.Status != ToolCompleted && t.Status != ToolCancelled }

// ToolCallResult is what a tool returned (schema ToolCallResult).
type ToolCallResult struct {
	Success           bool                       `json:"success"`
	PastTenseMessage  StringOrMarkdown           `json:"pastTenseMessage"`
	Content           []ToolResultContent        `json:"content,omitempty"`
	StructuredContent map[string]json.RawMessage `json:"structuredContent,omitempty"`
	Error             *ToolError                 `json:"error,omitempty"`
}

// ToolError says why a tool failed (schema ToolCallResult.error).
type ToolError struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// ConfirmationOption is an answer that the agent offers (schema
// ConfirmationOption).
type ConfirmationOption struct {
	ID    string     `json:"id"`
	Label string     `json:"label"`
	Kind  OptionKind `json:"kind"`
	Group int        `json:"group,omitempty"`
}

// OptionKind tells whether an option lets the agent go on (schema
// ConfirmationOptionKind).
type OptionKind string

// Values of OptionKind.
const (
	OptionApprove OptionKind = "approve"
	OptionDeny    OptionKind = "deny"
)

// FileEdits are the edits a pending call would make (schema
// ToolCallPendingConfirmationState.edits).
type FileEdits struct {
	Items []FileEdit `json:"items"`
}

// FileEdit describes a changed file (schema FileEdit).
type FileEdit struct {
	Before *FileSide `json:"before,omitempty"`
	After  *FileSide `json:"after,omitempty"`
	Diff   *DiffSize `json:"diff,omitempty"`
}

// FileSide is a file before or after an edit (schema FileEdit.before, .after).
type FileSide struct {
	URI     string          `json:"uri"`
	Content json.RawMessage `json:"content"`
}

// DiffSize counts lines (schema FileEdit.diff).
type DiffSize struct {
	Added   int `json:"added,omitempty"`
	Removed int `json:"removed,omitempty"`
}

// ToolResultContent is one block of a result (schema ToolResultContent). Type
// decides which fields have a meaning.
type ToolResultContent struct {
	Type        string    `json:"type"` // text, embeddedResource, resource, fileEdit, terminal, subagent
	Text        string    `json:"text,omitempty"`
	Data        string    `json:"data,omitempty"`
	URI         string    `json:"uri,omitempty"`
	SizeHint    *int64    `json:"sizeHint,omitempty"`
	ContentType string    `json:"contentType,omitempty"`
	Before      *FileSide `json:"before,omitempty"`
	After       *FileSide `json:"after,omitempty"`
	Diff        *DiffSize `json:"diff,omitempty"`
	Resource    string    `json:"resource,omitempty"` // terminal or subagent URI
	Title       string    `json:"title,omitempty"`
	AgentName   string    `json:"agentName,omitempty"`
	Description string    `json:"description,omitempty"`
}

// TerminalContent returns the block that refers to a terminal.
func TerminalContent(resource, title string) ToolResultContent {
	return ToolResultContent{Type: "terminal", Resource: resource, Title: title}
}
