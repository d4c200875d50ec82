package state

import (
	"encoding/json"
	"net/url"
)

// Status is SessionSummary.status: a bit set whose lower five bits are one
// exclusive activity and whose upper bits are flags (schema SessionStatus).
type Status uint64

// Activities and flags of a Status. InputNeeded includes InProgress's bit, so
// test for it first.
const (
	StatusIdle        Status = 1
	StatusError       Status = 2
	StatusInProgress  Status = 8
	StatusInputNeeded Status = 24
	StatusIsRead      Status = 32

	statusActivity Status = 31
)

// Activity returns the exclusive lower bits.
func (s Status) Activity() Status { return s & statusActivity }

// Lifecycle is the initialization state of a session (schema SessionLifecycle).
type Lifecycle string

// Values of Lifecycle.
const (
	LifecycleCreating       Lifecycle = "creating"
	LifecycleReady          Lifecycle = "ready"
	LifecycleCreationFailed Lifecycle = "creationFailed"
)

// Session is the state of one session channel (schema SessionState). A Session
// reached through a pointer is never changed: reducers return a new one.
type Session struct {
	Summary       SessionSummary             `json:"summary"`
	Lifecycle     Lifecycle                  `json:"lifecycle"`
	CreationError *ErrorInfo                 `json:"creationError,omitempty"`
	Turns         []*Turn                    `json:"turns"`
	ActiveTurn    *ActiveTurn                `json:"activeTurn,omitempty"`
	InputRequests []*InputRequest            `json:"inputRequests,omitempty"`
	Meta          map[string]json.RawMessage `json:"_meta,omitempty"`
}

// SessionSummary is what a list of sessions shows (schema SessionSummary).
// Times are Unix milliseconds.
type SessionSummary struct {
	Resource         string          `json:"resource"`
	Provider         string          `json:"provider"`
	Title            string          `json:"title"`
	Status           Status          `json:"status"`
	Activity         string          `json:"activity,omitempty"`
	CreatedAt        int64           `json:"createdAt"`
	ModifiedAt       int64           `json:"modifiedAt"`
	Model            *ModelSelection `json:"model,omitempty"`
	WorkingDirectory string          `json:"workingDirectory,omitempty"`
}

// ModelSelection names a chosen model (schema ModelSelection).
type ModelSelection struct {
	ID     string            `json:"id"`
	Config map[string]string `json:"config,omitempty"`
}

// ErrorInfo describes a failure (schema ErrorInfo).
type ErrorInfo struct {
	ErrorType string `json:"errorType"`
	Message   string `json:"message"`
	Stack     string `json:"stack,omitempty"`
}

// TurnState tells how a turn ended (schema TurnState).
type TurnState string

// Values of TurnState.
const (
	TurnComplete  TurnState = "complete"
	TurnCancelled TurnState = "cancelled"
	TurnError     TurnState = "error"
)

// Turn is a finished cycle of request and response (schema Turn).
type Turn struct {
	ID            string         `json:"id"`
	Message       Message        `json:"message"`
	ResponseParts []ResponsePart `json:"responseParts"`
	Usage         *UsageInfo     `json:"usage,omitempty"`
	State         TurnState      `json:"state"`
	Error         *ErrorInfo     `json:"error,omitempty"`
}

// ActiveTurn is the turn in progress (schema ActiveTurn).
type ActiveTurn struct {
	ID            string         `json:"id"`
	Message       Message        `json:"message"`
	ResponseParts []ResponsePart `json:"responseParts"`
	Usage         *UsageInfo     `json:"usage,omitempty"`
}

// Message starts or steers a turn (schema Message).
type Message struct {
	Text   string                     `json:"text"`
	Origin MessageOrigin              `json:"origin"`
	Meta   map[string]json.RawMessage `json:"_meta,omitempty"`
}

// MessageOrigin tells who wrote a message (schema Message.origin).
type MessageOrigin struct {
	Kind string `json:"kind"` // user or systemNotification
}

// UserMessage returns a message written by a person.
func UserMessage(text string) Message {
	return Message{Text: text, Origin: MessageOrigin{Kind: "user"}}
}

// UsageInfo counts tokens (schema UsageInfo). A nil count was not reported.
type UsageInfo struct {
	InputTokens     *int64                     `json:"inputTokens,omitempty"`
	OutputTokens    *int64                     `json:"outputTokens,omitempty"`
	Model           string                     `json:"model,omitempty"`
	CacheReadTokens *int64                     `json:"cacheReadTokens,omitempty"`
	Meta            map[string]json.RawMessage `json:"_meta,omitempty"`
}

// InputRequest asks a person questions (schema SessionInputRequest).
type InputRequest struct {
	ID        string                     `json:"id"`
	Message   string                     `json:"message,omitempty"`
	URL       string                     `json:"url,omitempty"`
	Questions []Question                 `json:"questions,omitempty"`
	Answers   map[string]json.RawMessage `json:"answers,omitempty"`
}

// Question is one question of an InputRequest (schema SessionInputQuestion).
// Kind decides which of the other fields have a meaning.
type Question struct {
	ID                 string           `json:"id"`
	Kind               string           `json:"kind"` // text, number, integer, boolean, single-select, multi-select
	Title              string           `json:"title,omitempty"`
	Message            string           `json:"message"`
	Required           bool             `json:"required,omitempty"`
	Options            []QuestionOption `json:"options,omitempty"`
	AllowFreeformInput bool             `json:"allowFreeformInput,omitempty"`
	Format             string           `json:"format,omitempty"`
	Min                *float64         `json:"min,omitempty"`
	Max                *float64         `json:"max,omitempty"`
	DefaultValue       json.RawMessage  `json:"defaultValue,omitempty"`
}

// QuestionOption is a choice (schema SessionInputOption).
type QuestionOption struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Recommended bool   `json:"recommended,omitempty"`
}

// FileURI returns the URI of a file or folder on this machine.
func FileURI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// FilePath returns the path that a file URI names, and any other URI as it is.
func FilePath(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Scheme == "file" {
		return u.Path
	}
	return uri
}
