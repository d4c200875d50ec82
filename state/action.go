package state

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

// Root actions (AHP "root/*").
type (
	// RootAgentsChanged replaces the agents.
	RootAgentsChanged struct {
		Agents []AgentInfo `json:"agents"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// RootActiveSessionsChanged replaces the count of active sessions.
	RootActiveSessionsChanged struct {
		ActiveSessions int64 `json:"activeSessions"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// RootTerminalsChanged replaces the list of terminals.
	RootTerminalsChanged struct {
		Terminals []TerminalInfo `json:"terminals"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// RootConfigChanged merges values into the configuration, or with Replace replaces them all.
	RootConfigChanged struct {
		Config  map[string]jsontext.Value `json:"config"`
		Replace *bool                     `json:"replace,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
)

// Session actions (AHP "session/*"), in the order of a session's life.
type (
	// SessionReady ends the creation of a session.
	SessionReady struct {
		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionCreationFailed tells why a session could not be created.
	SessionCreationFailed struct {
		Error ErrorInfo `json:"error"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionTurnStarted begins a turn. QueuedMessageID names the pending message it came from.
	SessionTurnStarted struct {
		TurnID          string  `json:"turnId"`
		Message         Message `json:"message"`
		QueuedMessageID *string `json:"queuedMessageId,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionDelta appends to a markdown part.
	SessionDelta struct {
		TurnID  string `json:"turnId"`
		PartID  string `json:"partId"`
		Content string `json:"content"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionReasoning appends to a reasoning part.
	SessionReasoning struct {
		TurnID  string `json:"turnId"`
		PartID  string `json:"partId"`
		Content string `json:"content"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionResponsePart appends a part.
	SessionResponsePart struct {
		TurnID string       `json:"turnId"`
		Part   ResponsePart `json:"part"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionToolCallStart begins a tool call.
	SessionToolCallStart struct {
		TurnID       string  `json:"turnId"`
		ToolCallID   string  `json:"toolCallId"`
		ToolName     string  `json:"toolName"`
		DisplayName  string  `json:"displayName"`
		ToolClientID *string `json:"toolClientId,omitzero"`
		Meta         Meta    `json:"_meta,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionToolCallDelta appends to the streamed input of a call.
	SessionToolCallDelta struct {
		TurnID            string            `json:"turnId"`
		ToolCallID        string            `json:"toolCallId"`
		Content           string            `json:"content"`
		InvocationMessage *StringOrMarkdown `json:"invocationMessage,omitzero"`
		Meta              Meta              `json:"_meta,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionToolCallReady says that the input of a call is complete. With
	// Confirmed the call runs, without it the call waits for a person.
	SessionToolCallReady struct {
		TurnID            string               `json:"turnId"`
		ToolCallID        string               `json:"toolCallId"`
		InvocationMessage StringOrMarkdown     `json:"invocationMessage"`
		ToolInput         *string              `json:"toolInput,omitzero"`
		ConfirmationTitle *StringOrMarkdown    `json:"confirmationTitle,omitzero"`
		Edits             *FileEdits           `json:"edits,omitzero"`
		Editable          *bool                `json:"editable,omitzero"`
		Confirmed         string               `json:"confirmed,omitzero"`
		Options           []ConfirmationOption `json:"options,omitzero"`
		Meta              Meta                 `json:"_meta,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionToolCallConfirmed is a person's answer.
	SessionToolCallConfirmed struct {
		TurnID           string            `json:"turnId"`
		ToolCallID       string            `json:"toolCallId"`
		Approved         bool              `json:"approved"`
		Confirmed        string            `json:"confirmed,omitzero"`       // if approved
		EditedToolInput  *string           `json:"editedToolInput,omitzero"` // if approved
		Reason           string            `json:"reason,omitzero"`          // if denied
		ReasonMessage    *StringOrMarkdown `json:"reasonMessage,omitzero"`   // if denied
		UserSuggestion   *Message          `json:"userSuggestion,omitzero"`  // if denied
		SelectedOptionID *string           `json:"selectedOptionId,omitzero"`
		Meta             Meta              `json:"_meta,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionToolCallContentChanged replaces what a running call has returned.
	SessionToolCallContentChanged struct {
		TurnID     string              `json:"turnId"`
		ToolCallID string              `json:"toolCallId"`
		Content    []ToolResultContent `json:"content"`
		Meta       Meta                `json:"_meta,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionToolCallComplete ends a call, or asks a person to look at the result first.
	SessionToolCallComplete struct {
		TurnID                     string         `json:"turnId"`
		ToolCallID                 string         `json:"toolCallId"`
		Result                     ToolCallResult `json:"result"`
		RequiresResultConfirmation *bool          `json:"requiresResultConfirmation,omitzero"`
		Meta                       Meta           `json:"_meta,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionToolCallResultConfirmed is a person's answer about a result.
	SessionToolCallResultConfirmed struct {
		TurnID     string `json:"turnId"`
		ToolCallID string `json:"toolCallId"`
		Approved   bool   `json:"approved"`
		Meta       Meta   `json:"_meta,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionUsage sets the token counts of the turn.
	SessionUsage struct {
		TurnID string    `json:"turnId"`
		Usage  UsageInfo `json:"usage"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionTurnComplete ends a turn well.
	SessionTurnComplete struct {
		TurnID string `json:"turnId"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionTurnCancelled ends a turn because somebody stopped it.
	SessionTurnCancelled struct {
		TurnID string `json:"turnId"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionError ends a turn with a failure.
	SessionError struct {
		TurnID string    `json:"turnId"`
		Error  ErrorInfo `json:"error"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionInputRequested asks a person; it replaces a request of the same id.
	SessionInputRequested struct {
		Request InputRequest `json:"request"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionInputAnswerChanged sets a draft of an answer, or clears it.
	SessionInputAnswerChanged struct {
		RequestID  string       `json:"requestId"`
		QuestionID string       `json:"questionId"`
		Answer     *InputAnswer `json:"answer,omitzero"` // nil clears

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionInputCompleted ends a request.
	SessionInputCompleted struct {
		RequestID string                 `json:"requestId"`
		Response  InputResponse          `json:"response"`
		Answers   map[string]InputAnswer `json:"answers,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionPendingMessageSet adds a message that waits, or changes it.
	SessionPendingMessageSet struct {
		Kind    PendingMessageKind `json:"kind"`
		ID      string             `json:"id"`
		Message Message            `json:"message"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionPendingMessageRemoved takes a waiting message back.
	SessionPendingMessageRemoved struct {
		Kind PendingMessageKind `json:"kind"`
		ID   string             `json:"id"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionQueuedMessagesReordered reorders the queue; ids it does not name stay at the end.
	SessionQueuedMessagesReordered struct {
		Order []string `json:"order"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionTruncated forgets the turns after one, or all of them.
	SessionTruncated struct {
		TurnID *string `json:"turnId,omitzero" ahp:"notnull"` // missing: all turns; null is no way to say so

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionTitleChanged sets the title.
	SessionTitleChanged struct {
		Title string `json:"title"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionModelChanged sets the model.
	SessionModelChanged struct {
		Model ModelSelection `json:"model"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionAgentChanged sets or clears the chosen agent.
	SessionAgentChanged struct {
		Agent *AgentSelection `json:"agent,omitzero"` // nil clears

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionIsReadChanged sets or clears the flag StatusIsRead.
	SessionIsReadChanged struct {
		IsRead bool `json:"isRead"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionIsArchivedChanged sets or clears the flag StatusIsArchived.
	SessionIsArchivedChanged struct {
		IsArchived bool `json:"isArchived"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionActivityChanged sets or clears what the session is doing.
	SessionActivityChanged struct {
		Activity *string `json:"activity,omitzero"` // nil clears

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionChangesetsChanged replaces or removes the catalogue of changesets.
	SessionChangesetsChanged struct {
		Changesets []ChangesetSummary `json:"changesets,omitzero"` // nil removes

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionConfigChanged merges values into the configuration, or with Replace replaces them all.
	SessionConfigChanged struct {
		Config  map[string]jsontext.Value `json:"config"`
		Replace *bool                     `json:"replace,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionMetaChanged replaces the session's _meta.
	SessionMetaChanged struct {
		Meta Meta `json:"_meta"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionServerToolsChanged replaces the tools that the host offers.
	SessionServerToolsChanged struct {
		Tools []ToolDefinition `json:"tools"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionActiveClientChanged sets or unsets the active client.
	SessionActiveClientChanged struct {
		ActiveClient *SessionActiveClient `json:"activeClient" ahp:"nullable"` // nil unsets

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionActiveClientToolsChanged replaces the active client's tools.
	SessionActiveClientToolsChanged struct {
		Tools []ToolDefinition `json:"tools"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionCustomizationsChanged replaces all customizations.
	SessionCustomizationsChanged struct {
		Customizations []*Customization `json:"customizations"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionCustomizationToggled enables or disables a container.
	SessionCustomizationToggled struct {
		ID      string `json:"id"`
		Enabled bool   `json:"enabled"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionCustomizationUpdated adds a container, or replaces it whole.
	SessionCustomizationUpdated struct {
		Customization Customization `json:"customization"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// SessionCustomizationRemoved removes a container, or else children of that id.
	SessionCustomizationRemoved struct {
		ID string `json:"id"`

		Unknown *jsontext.Value `json:",embed"`
	}
)

// Changeset actions (AHP "changeset/*").
type (
	// ChangesetStatusChanged sets the status.
	ChangesetStatusChanged struct {
		Status ChangesetStatus `json:"status"`
		Error  *ErrorInfo      `json:"error,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// ChangesetFileSet adds a file, or replaces it.
	ChangesetFileSet struct {
		File ChangesetFile `json:"file"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// ChangesetFileRemoved removes a file.
	ChangesetFileRemoved struct {
		FileID string `json:"fileId"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// ChangesetOperationsChanged replaces or removes the operations.
	ChangesetOperationsChanged struct {
		Operations []ChangesetOperation `json:"operations,omitzero"` // nil removes

		Unknown *jsontext.Value `json:",embed"`
	}
	// ChangesetOperationStatusChanged tells whether an operation runs.
	ChangesetOperationStatusChanged struct {
		OperationID string          `json:"operationId"`
		Status      OperationStatus `json:"status"`
		Error       *ErrorInfo      `json:"error,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// ChangesetCleared removes all files.
	ChangesetCleared struct {
		Unknown *jsontext.Value `json:",embed"`
	}
)

// Terminal actions (AHP "terminal/*").
type (
	// TerminalData is output.
	TerminalData struct {
		Data string `json:"data"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalInput is what somebody typed. It changes no state.
	TerminalInput struct {
		Data string `json:"data"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalResized sets the size in characters.
	TerminalResized struct {
		Cols int64 `json:"cols"`
		Rows int64 `json:"rows"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalClaimed sets who holds the terminal.
	TerminalClaimed struct {
		Claim TerminalClaim `json:"claim"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalTitleChanged sets the title.
	TerminalTitleChanged struct {
		Title string `json:"title"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalCwdChanged sets the folder.
	TerminalCwdChanged struct {
		Cwd string `json:"cwd"` // URI

		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalExited says that the terminal's process has ended.
	TerminalExited struct {
		ExitCode *int64 `json:"exitCode,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalCleared forgets the output.
	TerminalCleared struct {
		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalCommandDetectionAvailable says that commands will be told apart.
	TerminalCommandDetectionAvailable struct {
		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalCommandExecuted begins a command.
	TerminalCommandExecuted struct {
		CommandID   string `json:"commandId"`
		CommandLine string `json:"commandLine"`
		Timestamp   int64  `json:"timestamp"` // Unix milliseconds

		Unknown *jsontext.Value `json:",embed"`
	}
	// TerminalCommandFinished ends a command.
	TerminalCommandFinished struct {
		CommandID  string   `json:"commandId"`
		ExitCode   *int64   `json:"exitCode,omitzero"`
		DurationMs *float64 `json:"durationMs,omitzero"`

		Unknown *jsontext.Value `json:",embed"`
	}
)

// ResourceWatch actions (AHP "resourceWatch/*").
type (
	// ResourceWatchChanged reports changes. It changes no state.
	ResourceWatchChanged struct {
		Changes ResourceChanges `json:"changes"`

		Unknown *jsontext.Value `json:",embed"`
	}
)

// OpaqueAction is an action of a type this program does not know. Reducers
// ignore it; it is kept as it came.
type OpaqueAction struct {
	Name string
	Raw  jsontext.Value
}

func (*RootAgentsChanged) Type() string                 { return "root/agentsChanged" }
func (*RootActiveSessionsChanged) Type() string         { return "root/activeSessionsChanged" }
func (*RootTerminalsChanged) Type() string              { return "root/terminalsChanged" }
func (*RootConfigChanged) Type() string                 { return "root/configChanged" }
func (*SessionReady) Type() string                      { return "session/ready" }
func (*SessionCreationFailed) Type() string             { return "session/creationFailed" }
func (*SessionTurnStarted) Type() string                { return "session/turnStarted" }
func (*SessionDelta) Type() string                      { return "session/delta" }
func (*SessionReasoning) Type() string                  { return "session/reasoning" }
func (*SessionResponsePart) Type() string               { return "session/responsePart" }
func (*SessionToolCallStart) Type() string              { return "session/toolCallStart" }
func (*SessionToolCallDelta) Type() string              { return "session/toolCallDelta" }
func (*SessionToolCallReady) Type() string              { return "session/toolCallReady" }
func (*SessionToolCallConfirmed) Type() string          { return "session/toolCallConfirmed" }
func (*SessionToolCallContentChanged) Type() string     { return "session/toolCallContentChanged" }
func (*SessionToolCallComplete) Type() string           { return "session/toolCallComplete" }
func (*SessionToolCallResultConfirmed) Type() string    { return "session/toolCallResultConfirmed" }
func (*SessionUsage) Type() string                      { return "session/usage" }
func (*SessionTurnComplete) Type() string               { return "session/turnComplete" }
func (*SessionTurnCancelled) Type() string              { return "session/turnCancelled" }
func (*SessionError) Type() string                      { return "session/error" }
func (*SessionInputRequested) Type() string             { return "session/inputRequested" }
func (*SessionInputAnswerChanged) Type() string         { return "session/inputAnswerChanged" }
func (*SessionInputCompleted) Type() string             { return "session/inputCompleted" }
func (*SessionPendingMessageSet) Type() string          { return "session/pendingMessageSet" }
func (*SessionPendingMessageRemoved) Type() string      { return "session/pendingMessageRemoved" }
func (*SessionQueuedMessagesReordered) Type() string    { return "session/queuedMessagesReordered" }
func (*SessionTruncated) Type() string                  { return "session/truncated" }
func (*SessionTitleChanged) Type() string               { return "session/titleChanged" }
func (*SessionModelChanged) Type() string               { return "session/modelChanged" }
func (*SessionAgentChanged) Type() string               { return "session/agentChanged" }
func (*SessionIsReadChanged) Type() string              { return "session/isReadChanged" }
func (*SessionIsArchivedChanged) Type() string          { return "session/isArchivedChanged" }
func (*SessionActivityChanged) Type() string            { return "session/activityChanged" }
func (*SessionChangesetsChanged) Type() string          { return "session/changesetsChanged" }
func (*SessionConfigChanged) Type() string              { return "session/configChanged" }
func (*SessionMetaChanged) Type() string                { return "session/metaChanged" }
func (*SessionServerToolsChanged) Type() string         { return "session/serverToolsChanged" }
func (*SessionActiveClientChanged) Type() string        { return "session/activeClientChanged" }
func (*SessionActiveClientToolsChanged) Type() string   { return "session/activeClientToolsChanged" }
func (*SessionCustomizationsChanged) Type() string      { return "session/customizationsChanged" }
func (*SessionCustomizationToggled) Type() string       { return "session/customizationToggled" }
func (*SessionCustomizationUpdated) Type() string       { return "session/customizationUpdated" }
func (*SessionCustomizationRemoved) Type() string       { return "session/customizationRemoved" }
func (*ChangesetStatusChanged) Type() string            { return "changeset/statusChanged" }
func (*ChangesetFileSet) Type() string                  { return "changeset/fileSet" }
func (*ChangesetFileRemoved) Type() string              { return "changeset/fileRemoved" }
func (*ChangesetOperationsChanged) Type() string        { return "changeset/operationsChanged" }
func (*ChangesetOperationStatusChanged) Type() string   { return "changeset/operationStatusChanged" }
func (*ChangesetCleared) Type() string                  { return "changeset/cleared" }
func (*TerminalData) Type() string                      { return "terminal/data" }
func (*TerminalInput) Type() string                     { return "terminal/input" }
func (*TerminalResized) Type() string                   { return "terminal/resized" }
func (*TerminalClaimed) Type() string                   { return "terminal/claimed" }
func (*TerminalTitleChanged) Type() string              { return "terminal/titleChanged" }
func (*TerminalCwdChanged) Type() string                { return "terminal/cwdChanged" }
func (*TerminalExited) Type() string                    { return "terminal/exited" }
func (*TerminalCleared) Type() string                   { return "terminal/cleared" }
func (*TerminalCommandDetectionAvailable) Type() string { return "terminal/commandDetectionAvailable" }
func (*TerminalCommandExecuted) Type() string           { return "terminal/commandExecuted" }
func (*TerminalCommandFinished) Type() string           { return "terminal/commandFinished" }
func (*ResourceWatchChanged) Type() string              { return "resourceWatch/changed" }

// Type is the unknown type.
func (a *OpaqueAction) Type() string { return a.Name }

// check refuses an answer that does not say why, for it would make an invalid
// tool call (schema SessionToolCallApprovedAction, SessionToolCallDeniedAction).
func (a *SessionToolCallConfirmed) check() error {
	if a.Approved && a.Confirmed == "" || !a.Approved && a.Reason == "" {
		return errors.New("confirmed or reason is missing")
	}
	return nil
}

// codec reads and writes the actions of one type.
type codec struct {
	read  func(raw []byte) (Action, error)
	write func(a Action) ([]byte, error)
}

// codecs are the actions that this program knows, by type.
var codecs = map[string]codec{}

func register[T any, P interface {
	*T
	Action
}]() {
	codecs[P(nil).Type()] = codec{
		read: func(raw []byte) (Action, error) {
			v := new(T)
			if err := checkMembers(reflect.TypeFor[T](), raw); err != nil {
				return nil, err
			}
			if err := json.Unmarshal(raw, &typed[T]{Body: v}, options); err != nil {
				return nil, err
			}
			if c, ok := any(v).(interface{ check() error }); ok {
				return P(v), c.check()
			}
			return P(v), nil
		},
		write: func(a Action) ([]byte, error) {
			return json.Marshal(typed[T]{a.Type(), a.(P)}, options)
		},
	}
}

func init() {
	register[RootAgentsChanged]()
	register[RootActiveSessionsChanged]()
	register[RootTerminalsChanged]()
	register[RootConfigChanged]()
	register[SessionReady]()
	register[SessionCreationFailed]()
	register[SessionTurnStarted]()
	register[SessionDelta]()
	register[SessionReasoning]()
	register[SessionResponsePart]()
	register[SessionToolCallStart]()
	register[SessionToolCallDelta]()
	register[SessionToolCallReady]()
	register[SessionToolCallConfirmed]()
	register[SessionToolCallContentChanged]()
	register[SessionToolCallComplete]()
	register[SessionToolCallResultConfirmed]()
	register[SessionUsage]()
	register[SessionTurnComplete]()
	register[SessionTurnCancelled]()
	register[SessionError]()
	register[SessionInputRequested]()
	register[SessionInputAnswerChanged]()
	register[SessionInputCompleted]()
	register[SessionPendingMessageSet]()
	register[SessionPendingMessageRemoved]()
	register[SessionQueuedMessagesReordered]()
	register[SessionTruncated]()
	register[SessionTitleChanged]()
	register[SessionModelChanged]()
	register[SessionAgentChanged]()
	register[SessionIsReadChanged]()
	register[SessionIsArchivedChanged]()
	register[SessionActivityChanged]()
	register[SessionChangesetsChanged]()
	register[SessionConfigChanged]()
	register[SessionMetaChanged]()
	register[SessionServerToolsChanged]()
	register[SessionActiveClientChanged]()
	register[SessionActiveClientToolsChanged]()
	register[SessionCustomizationsChanged]()
	register[SessionCustomizationToggled]()
	register[SessionCustomizationUpdated]()
	register[SessionCustomizationRemoved]()
	register[ChangesetStatusChanged]()
	register[ChangesetFileSet]()
	register[ChangesetFileRemoved]()
	register[ChangesetOperationsChanged]()
	register[ChangesetOperationStatusChanged]()
	register[ChangesetCleared]()
	register[TerminalData]()
	register[TerminalInput]()
	register[TerminalResized]()
	register[TerminalClaimed]()
	register[TerminalTitleChanged]()
	register[TerminalCwdChanged]()
	register[TerminalExited]()
	register[TerminalCleared]()
	register[TerminalCommandDetectionAvailable]()
	register[TerminalCommandExecuted]()
	register[TerminalCommandFinished]()
	register[ResourceWatchChanged]()
}

// MarshalAction writes an action in its wire form, an object with a type.
func MarshalAction(a Action) ([]byte, error) {
	if o, ok := a.(*OpaqueAction); ok {
		return o.Raw, nil
	}
	return codecs[a.Type()].write(a)
}

// UnmarshalAction reads an action. An unknown type becomes an OpaqueAction; a
// known one whose members are not as Unmarshal wants them is an error.
func UnmarshalAction(b []byte) (Action, error) {
	name, err := discriminant("type", b)
	if err == nil && name == "" {
		err = errors.New("type is missing")
	}
	if err == nil && !jsontext.Value(b).IsValid(lenient) {
		err = errors.New("not valid JSON")
	}
	if err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	c, known := codecs[name]
	if !known {
		return &OpaqueAction{Name: name, Raw: bytes.Clone(b)}, nil
	}
	a, err := c.read(b)
	if err != nil {
		return nil, fmt.Errorf("action %s: %w", name, err)
	}
	return a, nil
}

// Source names the upstream event that actions came from, so that a replay after
// a reconnect applies once. The zero Source names none.
type Source struct {
	Epoch string // of the upstream's own numbering; it outlives a connection
	ID    string // unique within Epoch
}
