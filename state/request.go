package state

import (
	"errors"
	"maps"
	"slices"
)

// RequestKind tells what an agent wants of a person.
type RequestKind string

// Values of RequestKind.
const (
	RequestCommand     RequestKind = "command"     // to run Input
	RequestFileChange  RequestKind = "fileChange"  // to write Diff
	RequestPermissions RequestKind = "permissions" // more rights, as Details tell
	RequestRead        RequestKind = "read"        // to read a file or a page, as Details tell
	RequestTool        RequestKind = "tool"        // to run a tool of some server with Details
	RequestQuestion    RequestKind = "question"    // answers to Questions
	RequestElsewhere   RequestKind = "elsewhere"   // what only another program can give; Caution tells which
	RequestTooLong     RequestKind = "tooLong"     // more than nod reads: Params are its outline
	RequestUnknown     RequestKind = "unknown"     // nobody knows; only Params tell
)

// Request is one thing that an agent asked for and waits on. AHP holds one
// confirmation per tool call, but agents may ask several times for one call; so
// a request is a record of its own, and the tool call's state follows it.
type Request struct {
	Session    string // URI of the session
	TurnID     string // "" if the agent did not say
	ToolCallID string // "" for a request that belongs to no tool call

	// Where it came from: the link, that link's epoch (see Link), and the message
	// as received. UpstreamID keeps its JSON type.
	Provider   string
	Epoch      string
	UpstreamID []byte // JSON, as are Params; not RawMessage, which encoding rewrites
	Method     string
	Params     []byte

	// What a person is shown.
	Kind        RequestKind
	Title       string   // "Run a command?"
	Caution     string   // why it can only be refused; "" if all of it can be shown
	Reason      string   // why, in the agent's own words; "" if it gave none
	Input       string   // the exact text that will take effect
	Diff        string   // unified diff of what will be written
	Details     []Detail `json:",omitzero"` // what else an approval allows or takes along
	Cwd         string   // folder it happens in
	Folder      string   `json:",omitzero"` // the session's own, as the hub knew it when this was asked; not the agent's word, so no part of what is bound
	Environment string   // where it happens; "" for the machine that nod runs on
	Options     []ConfirmationOption
	Explains    string // id of the option that may carry a person's reason; "" if none may
	Editable    bool   // Input may be changed before it is approved

	// Questions is what AHP shows of a request that no tool call shows; many
	// such requests have no question in it.
	Questions *InputRequest
}

// Detail is a further text of a Request.
type Detail struct {
	Label  string
	Text   string
	Option string // id of the option that it is about; "" if it is about all that approve
	File   bool   `json:",omitzero"` // Text is all that a file will hold, of which the request's Diff shows what changes
}

// SameAs reports whether two requests are one: they came under one id in one
// epoch.
func (r *Request) SameAs(other Request) bool {
	return r.Epoch == other.Epoch && string(r.UpstreamID) == string(other.UpstreamID)
}

// Edited returns a request of which a person has changed the input; "" leaves it as it is.
func (r *Request) Edited(input string) Request {
	n := *r
	if input != "" {
		n.Input = input
	}
	return n
}

// Option returns the option of that id.
func (r *Request) Option(id string) (ConfirmationOption, bool) {
	for _, o := range r.Options {
		if o.ID == id {
			return o, true
		}
	}
	return ConfirmationOption{}, false
}

// Decision is a person's answer to a Request.
type Decision struct {
	OptionID    string            `json:"optionId"`
	EditedInput string            `json:"editedInput,omitempty"` // "" if Input was left as it is
	Reason      string            `json:"reason,omitempty"`      // why, told to the agent after the answer
	Answers     map[string]Answer `json:"answers,omitempty"`     // by question id
	Address     string            `json:"address,omitempty"`     // of the network that it came from, for the audit
}

// MaxReason bounds the characters of a Decision's Reason.
const MaxReason = 2000

// ErrReasonLost says that a decision was delivered and its reason was not.
var ErrReasonLost = errors.New("the reason did not reach the agent")

// ErrAnsweredElsewhere says that a decision came too late: the agent had an answer,
// or asked no more.
var ErrAnsweredElsewhere = errors.New("the request was answered elsewhere")

// ErrStillWaits says that the agent refused a decision as it was sent, so that the
// request still waits for one.
var ErrStillWaits = errors.New("the agent did not take the answer")

// Ending is how a request has ended, as far as the agent tells.
type Ending string

// Values of Ending.
const (
	EndedAnswered  Ending = "answered"  // by our answer if one was sent, else by somebody else's
	EndedElsewhere Ending = "elsewhere" // by somebody else's, whatever was sent
	EndedWithdrawn Ending = "withdrawn" // by no answer
)

// Answer answers one Question: Selected for choices, Text for the rest.
type Answer struct {
	Selected []string `json:"selected,omitempty"` // option ids
	Text     string   `json:"text,omitempty"`
	// Secret holds the whole answer to a secret question. It is sent, and never
	// written down or shown.
	Secret []string `json:"-"`
}

// Given returns all of an answer.
func (a Answer) Given() []string {
	given := slices.Concat(a.Selected, a.Secret)
	if a.Text != "" {
		given = append(given, a.Text)
	}
	return given
}

// Told returns the answer without what is secret in it.
func (a Answer) Told() Answer {
	a.Secret = nil
	return a
}

// Told returns the decision without its secrets.
func (d Decision) Told() Decision {
	told := maps.Clone(d.Answers)
	for id, a := range told {
		told[id] = a.Told()
	}
	d.Answers = told
	return d
}

// LinkStatus tells how a link to an agent runtime is.
type LinkStatus string

// Values of LinkStatus.
const (
	LinkIdle       LinkStatus = "idle"       // not started: nobody needed it yet
	LinkConnecting LinkStatus = "connecting" // started, not ready
	LinkUp         LinkStatus = "up"
	LinkStalled    LinkStatus = "stalled" // up, but the runtime does not answer
	LinkLost       LinkStatus = "lost"
	LinkMissing    LinkStatus = "missing" // the runtime is not on this machine
)

// Down reports whether nothing can be told over such a link now.
func (s LinkStatus) Down() bool { return s != LinkUp && s != LinkStalled }

// Link is one connection to an agent runtime, as people see it.
type Link struct {
	Key         string // its own; a session knows by it where it is live
	Provider    string // whose sessions these are, such as "codex"
	DisplayName string
	Description string // what to know before starting a session
	Status      LinkStatus
	Epoch       string // of one run of the runtime, or of one connection if that cannot be told: its requests are numbered in it
	Keeps       bool   // the runtime has older sessions that can be listed and read
	Offers      Offers // none unless it is up
	Lasting     bool   // the runtime goes on without nod, so what is open on it stays open while the link is made again
	Detail      string // a sentence: the version when up, what happened when lost
	Since       int64  // when Status began, Unix milliseconds
}

// NewSession says what a person wants to begin (AHP: createSession).
type NewSession struct {
	Provider string
	Folder   string            // exists
	Config   map[string]string // by the names of the provider's own settings; absent or "": as the provider has it
}
