package state

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Action is one change of a channel's state (AHP actions). Implementations are
// pointers to structs named after the action.
type Action interface {
	// Type is the action's name on the wire, such as "session/delta".
	Type() string
}

// Envelope is an action and the channel it changes (AHP ActionEnvelope, without
// the host's own sequence number: the hub gives a number of its own).
type Envelope struct {
	Channel string
	Action  Action
}

// Session actions (AHP "session/*"), in the order of a session's life.
type (
	// SessionReady ends the creation of a session.
	SessionReady struct{}
	// SessionCreationFailed tells why a session could not be created.
	SessionCreationFailed struct {
		Error ErrorInfo `json:"error"`
	}
	// SessionTurnStarted begins a turn.
	SessionTurnStarted struct {
		TurnID  string  `json:"turnId"`
		Message Message `json:"message"`
	}
	// SessionDelta appends to a markdown part.
	SessionDelta struct {
		TurnID  string `json:"turnId"`
		PartID  string `json:"partId"`
		Content string `json:"content"`
	}
	// SessionReasoning appends to a reasoning part.
	SessionReasoning struct {
		TurnID  string `json:"turnId"`
		PartID  string `json:"partId"`
		Content string `json:"content"`
	}
	// SessionResponsePart appends a part.
	SessionResponsePart struct {
		TurnID string
		Part   ResponsePart
	}
	// SessionToolCallStart begins a tool call.
	SessionToolCallStart struct {
		TurnID       string                     `json:"turnId"`
		ToolCallID   string                     `json:"toolCallId"`
		ToolName     string                     `json:"toolName"`
		DisplayName  string                     `json:"displayName"`
		ToolClientID string                     `json:"toolClientId,omitempty"`
		Meta         map[string]json.RawMessage `json:"_meta,omitempty"`
	}
	// SessionToolCallDelta appends to the streamed input of a call.
	SessionToolCallDelta struct {
		TurnID            string            `json:"turnId"`
		ToolCallID        string            `json:"toolCallId"`
		Content           string            `json:"content"`
		InvocationMessage *StringOrMarkdown `json:"invocationMessage,omitempty"`
	}
	// SessionToolCallReady says that the input of a call is complete. With
	// Confirmed the call runs, without it the call waits for a person.
	SessionToolCallReady struct {
		TurnID            string               `json:"turnId"`
		ToolCallID        string               `json:"toolCallId"`
		InvocationMessage StringOrMarkdown     `json:"invocationMessage"`
		ToolInput         string               `json:"toolInput,omitempty"`
		ConfirmationTitle *StringOrMarkdown    `json:"confirmationTitle,omitempty"`
		Edits             *FileEdits           `json:"edits,omitempty"`
		Editable          bool                 `json:"editable,omitempty"`
		Confirmed         string               `json:"confirmed,omitempty"`
		Options           []ConfirmationOption `json:"options,omitempty"`
	}
	// SessionToolCallConfirmed is a person's answer.
	SessionToolCallConfirmed struct {
		TurnID           string            `json:"turnId"`
		ToolCallID       string            `json:"toolCallId"`
		Approved         bool              `json:"approved"`
		Confirmed        string            `json:"confirmed,omitempty"`       // if approved
		EditedToolInput  string            `json:"editedToolInput,omitempty"` // if approved
		Reason           string            `json:"reason,omitempty"`          // if denied
		ReasonMessage    *StringOrMarkdown `json:"reasonMessage,omitempty"`   // if denied
		UserSuggestion   *Message          `json:"userSuggestion,omitempty"`  // if denied
		SelectedOptionID string            `json:"selectedOptionId,omitempty"`
	}
	// SessionToolCallContentChanged replaces what a running call has returned.
	SessionToolCallContentChanged struct {
		TurnID     string              `json:"turnId"`
		ToolCallID string              `json:"toolCallId"`
		Content    []ToolResultContent `json:"content"`
	}
	// SessionToolCallComplete ends a call.
	SessionToolCallComplete struct {
		TurnID                     string         `json:"turnId"`
		ToolCallID                 string         `json:"toolCallId"`
		Result                     ToolCallResult `json:"result"`
		RequiresResultConfirmation bool           `json:"requiresResultConfirmation,omitempty"`
	}
	// SessionUsage sets the token counts of the turn.
	SessionUsage struct {
		TurnID string    `json:"turnId"`
		Usage  UsageInfo `json:"usage"`
	}
	// SessionTurnComplete ends a turn well.
	SessionTurnComplete struct {
		TurnID string `json:"turnId"`
	}
	// SessionTurnCancelled ends a turn because somebody stopped it.
	SessionTurnCancelled struct {
		TurnID string `json:"turnId"`
	}
	// SessionError ends a turn with a failure.
	SessionError struct {
		TurnID string    `json:"turnId"`
		Error  ErrorInfo `json:"error"`
	}
	// SessionInputRequested asks a person; it replaces a request of the same id.
	SessionInputRequested struct {
		Request InputRequest `json:"request"`
	}
	// SessionInputCompleted ends a request: Response is accept, decline or cancel.
	SessionInputCompleted struct {
		RequestID string                     `json:"requestId"`
		Response  string                     `json:"response"`
		Answers   map[string]json.RawMessage `json:"answers,omitempty"`
	}
	// SessionTitleChanged sets the title.
	SessionTitleChanged struct {
		Title string `json:"title"`
	}
	// SessionModelChanged sets the model.
	SessionModelChanged struct {
		Model ModelSelection `json:"model"`
	}
	// SessionActivityChanged sets, or with "" clears, what the session is doing.
	SessionActivityChanged struct {
		Activity string `json:"activity,omitempty"`
	}
	// SessionMetaChanged replaces the session's _meta.
	SessionMetaChanged struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
)

// Terminal actions (AHP "terminal/*").
type (
	// TerminalData is output.
	TerminalData struct {
		Data string `json:"data"`
	}
	// TerminalCommandExecuted begins a command. Timestamp is in Unix milliseconds.
	TerminalCommandExecuted struct {
		CommandID   string `json:"commandId"`
		CommandLine string `json:"commandLine"`
		Timestamp   int64  `json:"timestamp"`
	}
	// TerminalCommandFinished ends a command.
	TerminalCommandFinished struct {
		CommandID  string `json:"commandId"`
		ExitCode   *int   `json:"exitCode,omitempty"`
		DurationMs *int64 `json:"durationMs,omitempty"`
	}
	// TerminalExited says that the terminal's process has ended.
	TerminalExited struct {
		ExitCode *int `json:"exitCode,omitempty"`
	}
)

// OpaqueAction is an action of a type this program does not know. Reducers
// ignore it; it is kept as it came.
type OpaqueAction struct {
	Name string
	Raw  json.RawMessage
}

func (*SessionReady) Type() string                  { return "session/ready" }
func (*SessionCreationFailed) Type() string         { return "session/creationFailed" }
func (*SessionTurnStarted) Type() string            { return "session/turnStarted" }
func (*SessionDelta) Type() string                  { return "session/delta" }
func (*SessionReasoning) Type() string              { return "session/reasoning" }
func (*SessionResponsePart) Type() string           { return "session/responsePart" }
func (*SessionToolCallStart) Type() string          { return "session/toolCallStart" }
func (*SessionToolCallDelta) Type() string          { return "session/toolCallDelta" }
func (*SessionToolCallReady) Type() string          { return "session/toolCallReady" }
func (*SessionToolCallConfirmed) Type() string      { return "session/toolCallConfirmed" }
func (*SessionToolCallContentChanged) Type() string { return "session/toolCallContentChanged" }
func (*SessionToolCallComplete) Type() string       { return "session/toolCallComplete" }
func (*SessionUsage) Type() string                  { return "session/usage" }
func (*SessionTurnComplete) Type() string           { return "session/turnComplete" }
func (*SessionTurnCancelled) Type() string          { return "session/turnCancelled" }
func (*SessionError) Type() string                  { return "session/error" }
func (*SessionInputRequested) Type() string         { return "session/inputRequested" }
func (*SessionInputCompleted) Type() string         { return "session/inputCompleted" }
func (*SessionTitleChanged) Type() string           { return "session/titleChanged" }
func (*SessionModelChanged) Type() string           { return "session/modelChanged" }
func (*SessionActivityChanged) Type() string        { return "session/activityChanged" }
func (*SessionMetaChanged) Type() string            { return "session/metaChanged" }
func (*TerminalData) Type() string                  { return "terminal/data" }
func (*TerminalCommandExecuted) Type() string       { return "terminal/commandExecuted" }
func (*TerminalCommandFinished) Type() string       { return "terminal/commandFinished" }
func (*TerminalExited) Type() string                { return "terminal/exited" }
func (a *OpaqueAction) Type() string                { return a.Name }

// actionTypes makes an empty action of each known type.
var actionTypes = func() map[string]func() Action {
	m := map[string]func() Action{}
	for _, f := range []func() Action{
		func() Action { return new(SessionReady) },
		func() Action { return new(SessionCreationFailed) },
		func() Action { return new(SessionTurnStarted) },
		func() Action { return new(SessionDelta) },
		func() Action { return new(SessionReasoning) },
		func() Action { return new(SessionResponsePart) },
		func() Action { return new(SessionToolCallStart) },
		func() Action { return new(SessionToolCallDelta) },
		func() Action { return new(SessionToolCallReady) },
		func() Action { return new(SessionToolCallConfirmed) },
		func() Action { return new(SessionToolCallContentChanged) },
		func() Action { return new(SessionToolCallComplete) },
		func() Action { return new(SessionUsage) },
		func() Action { return new(SessionTurnComplete) },
		func() Action { return new(SessionTurnCancelled) },
		func() Action { return new(SessionError) },
		func() Action { return new(SessionInputRequested) },
		func() Action { return new(SessionInputCompleted) },
		func() Action { return new(SessionTitleChanged) },
		func() Action { return new(SessionModelChanged) },
		func() Action { return new(SessionActivityChanged) },
		func() Action { return new(SessionMetaChanged) },
		func() Action { return new(TerminalData) },
		func() Action { return new(TerminalCommandExecuted) },
		func() Action { return new(TerminalCommandFinished) },
		func() Action { return new(TerminalExited) },
	} {
		m[f().Type()] = f
	}
	return m
}()

// MarshalAction writes an action in its wire form, an object with a type.
func MarshalAction(a Action) ([]byte, error) {
	switch a := a.(type) {
	case *OpaqueAction:
		return a.Raw, nil
	case *SessionResponsePart:
		part, err := marshalPart(a.Part)
		if err != nil {
			return nil, err
		}
		return marshalTagged("type", a.Type(), struct {
			TurnID string          `json:"turnId"`
			Part   json.RawMessage `json:"part"`
		}{a.TurnID, part})
	}
	return marshalTagged("type", a.Type(), a)
}

// UnmarshalAction reads an action. An unknown type becomes an OpaqueAction; a
// known type with fields of a wrong JSON type is an error.
func UnmarshalAction(b []byte) (Action, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	make, known := actionTypes[head.Type]
	if !known {
		return &OpaqueAction{Name: head.Type, Raw: bytes.Clone(b)}, nil
	}
	a := make()
	if err := json.Unmarshal(b, a); err != nil {
		return nil, fmt.Errorf("action %s: %w", head.Type, err)
	}
	return a, nil
}

// UnmarshalJSON reads the part by its kind.
func (a *SessionResponsePart) UnmarshalJSON(b []byte) error {
	var in struct {
		TurnID string          `json:"turnId"`
		Part   json.RawMessage `json:"part"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	p, err := unmarshalPart(in.Part)
	a.TurnID, a.Part = in.TurnID, p
	return err
}
