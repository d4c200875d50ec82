package state

import "github.com/go-json-experiment/json/jsontext"

// Changeset is the state of one changeset channel (schema ChangesetState).
type Changeset struct {
	Status     ChangesetStatus      `json:"status"`
	Error      *ErrorInfo           `json:"error,omitzero"`
	Files      []ChangesetFile      `json:"files"`
	Operations []ChangesetOperation `json:"operations,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ChangesetStatus tells how far a changeset is (schema ChangesetStatus).
type ChangesetStatus string

// Values of ChangesetStatus.
const (
	ChangesetComputing ChangesetStatus = "computing"
	ChangesetReady     ChangesetStatus = "ready"
	ChangesetError     ChangesetStatus = "error"
)

// ChangesetSummary is a changeset in a session's catalogue (schema
// ChangesetSummary). URITemplate is of RFC 6570.
type ChangesetSummary struct {
	Label       string  `json:"label"`
	URITemplate string  `json:"uriTemplate"`
	Description *string `json:"description,omitzero"`
	Additions   *int64  `json:"additions,omitzero"`
	Deletions   *int64  `json:"deletions,omitzero"`
	Files       *int64  `json:"files,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ChangesetFile is one changed file (schema ChangesetFile).
type ChangesetFile struct {
	ID   string   `json:"id"`
	Edit FileEdit `json:"edit"`
	Meta Meta     `json:"_meta,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ChangesetOperation is something that can be done with a changeset (schema
// ChangesetOperation).
type ChangesetOperation struct {
	ID           string            `json:"id"`
	Label        string            `json:"label"`
	Description  *string           `json:"description,omitzero"`
	Scopes       []string          `json:"scopes"` // changeset, resource, range
	Confirmation *StringOrMarkdown `json:"confirmation,omitzero"`
	Icon         *string           `json:"icon,omitzero"`
	Status       OperationStatus   `json:"status"`
	Error        *ErrorInfo        `json:"error,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// OperationStatus tells whether an operation runs (schema
// ChangesetOperationStatus).
type OperationStatus string

// Values of OperationStatus.
const (
	OperationIdle    OperationStatus = "idle"
	OperationRunning OperationStatus = "running"
	OperationError   OperationStatus = "error"
)

// FileEdits are the edits a pending call would make (schema
// ToolCallPendingConfirmationState.edits).
type FileEdits struct {
	Items []FileEdit `json:"items"`

	Unknown *jsontext.Value `json:",embed"`
}

// FileEdit describes a changed file (schema FileEdit).
type FileEdit struct {
	Before *FileSide `json:"before,omitzero"` // nil for a new file
	After  *FileSide `json:"after,omitzero"`  // nil for a deleted one
	Diff   *DiffSize `json:"diff,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// FileSide is a file before or after an edit (schema FileEdit.before, .after).
// Content is a ContentRef; the pinned schema says string, which its own fixtures
// are not.
type FileSide struct {
	URI     string         `json:"uri"`
	Content jsontext.Value `json:"content"`

	Unknown *jsontext.Value `json:",embed"`
}

// DiffSize counts lines (schema FileEdit.diff).
type DiffSize struct {
	Added   *int64 `json:"added,omitzero"`
	Removed *int64 `json:"removed,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// ResourceWatch is the state of one resource watch channel (schema
// ResourceWatchState). Changes pass through it and leave no trace.
type ResourceWatch struct {
	Root      string   `json:"root"` // URI
	Recursive bool     `json:"recursive"`
	Excludes  *Pattern `json:"excludes,omitzero"`
	Includes  *Pattern `json:"includes,omitzero"`

	Unknown *jsontext.Value `json:",embed"`
}

// Pattern selects resources (schema ResourceWatchState.excludes, .includes). The
// pinned schema says that items is a string, its prose that it is a list.
type Pattern struct {
	Items jsontext.Value `json:"items"`

	Unknown *jsontext.Value `json:",embed"`
}

// ResourceChange is one change that a watch saw (schema ResourceChange).
type ResourceChange struct {
	URI  string `json:"uri"`
	Type string `json:"type"` // added, updated, deleted

	Unknown *jsontext.Value `json:",embed"`
}

// ResourceChanges is what a watch reports at once (AHP resourceWatch/changed).
type ResourceChanges struct {
	Items []ResourceChange `json:"items"`

	Unknown *jsontext.Value `json:",embed"`
}
