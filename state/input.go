package state

import "github.com/go-json-experiment/json/jsontext"

// InputRequest asks a person questions (schema SessionInputRequest).
type InputRequest struct {
	ID        string                 `json:"id"`
	Message   *string                `json:"message,omitzero"`
	URL       *string                `json:"url,omitzero"`
	Questions []Question             `json:"questions,omitzero"`
	Answers   map[string]InputAnswer `json:"answers,omitzero"` // drafts, by question id

	Unknown *jsontext.Value `json:",embed"`
}

// Question is one question of an InputRequest (schema SessionInputQuestion).
// Kind decides which of the other fields have a meaning.
type Question struct {
	ID                 string           `json:"id"`
	Kind               string           `json:"kind"` // text, number, integer, boolean, single-select, multi-select
	Title              *string          `json:"title,omitzero"`
	Message            string           `json:"message"`
	Required           *bool            `json:"required,omitzero"`
	Options            []QuestionOption `json:"options,omitzero"`
	AllowFreeformInput *bool            `json:"allowFreeformInput,omitzero"`
	Format             *string          `json:"format,omitzero"`
	Min                jsontext.Value   `json:"min,omitzero"` // a number, exactly as it came; so is Max
	Max                jsontext.Value   `json:"max,omitzero"`
	DefaultValue       jsontext.Value   `json:"defaultValue,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// QuestionOption is a choice (schema SessionInputOption).
type QuestionOption struct {
	ID          string  `json:"id"`
	Label       string  `json:"label"`
	Description *string `json:"description,omitzero"`
	Recommended *bool   `json:"recommended,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// InputAnswer answers one question (schema SessionInputAnswer: SessionInputAnswered
// or SessionInputSkipped).
type InputAnswer struct {
	State          InputAnswerState  `json:"state"`
	Value          *InputAnswerValue `json:"value,omitzero"`          // draft, submitted
	FreeformValues []string          `json:"freeformValues,omitzero"` // skipped

	Unknown *jsontext.Value `json:",embed"`
}

// InputAnswerState tells how far an answer is (schema SessionInputAnswerState).
type InputAnswerState string

// Values of InputAnswerState.
const (
	AnswerDraft     InputAnswerState = "draft"
	AnswerSubmitted InputAnswerState = "submitted"
	AnswerSkipped   InputAnswerState = "skipped"
)

// InputAnswerValue is the content of an answer (schema SessionInputAnswerValue).
type InputAnswerValue struct {
	Kind           string         `json:"kind"`                    // text, number, boolean, selected, selected-many
	Value          jsontext.Value `json:"value"`                   // of the JSON type that Kind asks for
	FreeformValues []string       `json:"freeformValues,omitzero"` // selected, selected-many

	Unknown *jsontext.Value `json:",embed"`
}

// InputResponse is how a request ended (schema SessionInputResponseKind).
type InputResponse string

// Values of InputResponse.
const (
	InputAccept  InputResponse = "accept"
	InputDecline InputResponse = "decline"
	InputCancel  InputResponse = "cancel"
)
