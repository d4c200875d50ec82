package state

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	StatusIsArchived  Status = 64

	statusActivity Status = 31
)

// Activity returns the exclusive lower bits.
func (s Status) Activity() Status { return s & statusActivity }

// Archived reports whether a person has put the session away.
func (s Status) Archived() bool { return s&StatusIsArchived != 0 }

// UnmarshalJSONFrom also reads what JavaScript makes of a set with bit 31: a
// negative number of 32 bits.
func (s *Status) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if raw, err := d.ReadValue(); err != nil {
		return err
	} else if n, err := strconv.ParseInt(string(raw), 10, 32); err == nil && n < 0 {
		*s = Status(uint32(n))
		return nil
	} else {
		return json.Unmarshal(raw, (*uint64)(s))
	}
}

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
	Summary         *SessionSummary      `json:"summary"` // never nil
	Lifecycle       Lifecycle            `json:"lifecycle"`
	CreationError   *ErrorInfo           `json:"creationError,omitzero"`
	ServerTools     []ToolDefinition     `json:"serverTools,omitzero"`
	ActiveClient    *SessionActiveClient `json:"activeClient,omitzero"`
	Turns           []*Turn              `json:"turns"`
	ActiveTurn      *ActiveTurn          `json:"activeTurn,omitzero"`
	SteeringMessage *PendingMessage      `json:"steeringMessage,omitzero"`
	QueuedMessages  []PendingMessage     `json:"queuedMessages,omitzero"`
	InputRequests   []*InputRequest      `json:"inputRequests,omitzero"`
	Config          *SessionConfigState  `json:"config,omitzero"`
	Customizations  []*Customization     `json:"customizations,omitzero"`
	Meta            Meta                 `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// SessionSummary is what a list of sessions shows (schema SessionSummary). Like
// a Session it is never changed. Times are Unix milliseconds.
type SessionSummary struct {
	Resource         string             `json:"resource"`
	Provider         string             `json:"provider"`
	Title            string             `json:"title"`
	Status           Status             `json:"status"`
	Activity         *string            `json:"activity,omitzero"`
	CreatedAt        int64              `json:"createdAt"`
	ModifiedAt       int64              `json:"modifiedAt"`
	Project          *ProjectInfo       `json:"project,omitzero"`
	Model            *ModelSelection    `json:"model,omitzero"`
	Agent            *AgentSelection    `json:"agent,omitzero"`
	WorkingDirectory *string            `json:"workingDirectory,omitzero"` // URI
	Changesets       []ChangesetSummary `json:"changesets,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ProjectInfo names the project a session works in (schema ProjectInfo).
type ProjectInfo struct {
	URI         string `json:"uri"`
	DisplayName string `json:"displayName"`

	Unknown *jsontext.Value `json:",embed"`
}

// ModelSelection names a chosen model (schema ModelSelection).
type ModelSelection struct {
	ID     string            `json:"id"`
	Config map[string]string `json:"config,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// AgentSelection names a chosen agent customization (schema AgentSelection).
type AgentSelection struct {
	URI string `json:"uri"`

	Unknown *jsontext.Value `json:",embed"`
}

// SessionConfigState is a session's configuration (schema SessionConfigState).
type SessionConfigState struct {
	Schema ConfigSchema              `json:"schema"`
	Values map[string]jsontext.Value `json:"values"`

	Unknown *jsontext.Value `json:",embed"`
}

// SessionActiveClient is the client that offers tools to a session (schema
// SessionActiveClient).
type SessionActiveClient struct {
	ClientID       string           `json:"clientId"`
	DisplayName    *string          `json:"displayName,omitzero"`
	Tools          []ToolDefinition `json:"tools"`
	Customizations []*Customization `json:"customizations,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ErrorInfo describes a failure (schema ErrorInfo).
type ErrorInfo struct {
	ErrorType string  `json:"errorType"`
	Message   string  `json:"message"`
	Stack     *string `json:"stack,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
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
	Usage         *UsageInfo     `json:"usage,omitzero"`
	State         TurnState      `json:"state"`
	Error         *ErrorInfo     `json:"error,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ActiveTurn is the turn in progress (schema ActiveTurn).
type ActiveTurn struct {
	ID            string     `json:"id"`
	Message       Message    `json:"message"`
	ResponseParts Parts      `json:"responseParts"`
	Usage         *UsageInfo `json:"usage,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// Message starts or steers a turn (schema Message).
type Message struct {
	Text        string              `json:"text"`
	Origin      MessageOrigin       `json:"origin"`
	Attachments []MessageAttachment `json:"attachments,omitzero"`
	Meta        Meta                `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// MessageOrigin tells who wrote a message (schema Message.origin, MessageKind).
type MessageOrigin struct {
	Kind string `json:"kind"` // user or systemNotification

	Unknown *jsontext.Value `json:",embed"`
}

// SessionScheme begins the URI of every session that nod knows: what follows is the
// session's id, which is safe in an address.
const SessionScheme = "ahp-session:/"

// MaxTitle bounds a title that is made of a message, in characters.
const MaxTitle = 80

// TitleOf makes a session's title of a message: its first line, cut.
func TitleOf(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	if r := []rune(line); len(r) > MaxTitle {
		line = string(r[:MaxTitle-1]) + "…"
	}
	return line
}

// HasTurn reports whether a turn of that id is, or was, one of the session's.
func (s *Session) HasTurn(id string) bool {
	return s.ActiveTurn != nil && s.ActiveTurn.ID == id || slices.ContainsFunc(s.Turns, func(t *Turn) bool { return t.ID == id })
}

// UserMessage returns a message written by a person.
func UserMessage(text string) Message {
	return Message{Text: text, Origin: MessageOrigin{Kind: "user"}}
}

// PendingMessage waits until the agent takes it (schema PendingMessage).
type PendingMessage struct {
	ID      string  `json:"id"`
	Message Message `json:"message"`

	Unknown *jsontext.Value `json:",embed"`
}

// PendingMessageKind tells how a message waits (schema PendingMessageKind).
type PendingMessageKind string

// Values of PendingMessageKind.
const (
	PendingSteering PendingMessageKind = "steering" // for the turn in progress; there is one at most
	PendingQueued   PendingMessageKind = "queued"   // for a turn of its own
)

// MessageAttachment goes along with a message (schema MessageAttachment). Type
// decides which fields have a meaning.
type MessageAttachment struct {
	Type                string         `json:"type"` // simple, embeddedResource, resource
	Label               string         `json:"label"`
	Range               *TextRange     `json:"range,omitzero"` // of the message's text that refers to it
	DisplayKind         *string        `json:"displayKind,omitzero"`
	ModelRepresentation *string        `json:"modelRepresentation,omitzero"` // simple
	Data                *string        `json:"data,omitzero"`                // embeddedResource: base64
	URI                 *string        `json:"uri,omitzero"`                 // resource
	SizeHint            *int64         `json:"sizeHint,omitzero"`            // resource: bytes
	ContentType         *string        `json:"contentType,omitzero"`
	Selection           *TextSelection `json:"selection,omitzero"`
	Meta                Meta           `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// Light returns the message without the data that go along with it, which its agent
// has: a session's state names them and says how long they are.
func (m Message) Light() Message {
	m.Attachments = slices.Clone(m.Attachments)
	for i, a := range m.Attachments {
		if a.Data != nil {
			m.Attachments[i].Data, m.Attachments[i].SizeHint = nil, new(a.Size())
		}
	}
	return m
}

// Size is how long the attachment is, in bytes; 0 if that is not known.
func (a MessageAttachment) Size() int64 {
	if a.Data != nil {
		return int64(base64.StdEncoding.DecodedLen(len(*a.Data)) - strings.Count((*a.Data)[max(0, len(*a.Data)-2):], "="))
	}
	return Value(a.SizeHint)
}

// TextPosition counts from 0 (schema TextPosition).
type TextPosition struct {
	Line      int64 `json:"line"`
	Character int64 `json:"character"`

	Unknown *jsontext.Value `json:",embed"`
}

// TextRange is a span of text (schema TextRange).
type TextRange struct {
	Start TextPosition `json:"start"`
	End   TextPosition `json:"end"`

	Unknown *jsontext.Value `json:",embed"`
}

// TextSelection is what was selected in a resource (schema TextSelection).
type TextSelection struct {
	Range TextRange `json:"range"`

	Unknown *jsontext.Value `json:",embed"`
}

// UsageInfo counts tokens (schema UsageInfo). A nil count was not reported.
type UsageInfo struct {
	InputTokens     *int64  `json:"inputTokens,omitzero"`
	OutputTokens    *int64  `json:"outputTokens,omitzero"`
	Model           *string `json:"model,omitzero"`
	CacheReadTokens *int64  `json:"cacheReadTokens,omitzero"`
	Meta            Meta    `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// Value returns what an optional field holds, or the zero value.
func Value[T any](field *T) (v T) {
	if field != nil {
		v = *field
	}
	return v
}

// Optional returns a field that is missing if v is the zero value.
func Optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
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
