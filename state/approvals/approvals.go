// Package approvals holds the life of a pending request: from asked over
// decided and sent to confirmed, or to one of the ends where nobody's decision
// took effect. It is pure; state/hub makes the steps last.
//
//	pending -> decided -> sent -> confirmed
//	pending, decided, sent -> answered-elsewhere
//	pending -> expired
//	decided, sent -> delivery-unknown
//	decided -> superseded
package approvals

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"nod/state"
)

// State is where an approval is in its life.
type State string

// Values of State. A decision is shown as recorded (Decided), as sent, and as
// confirmed; only the agent's own event confirms.
const (
	Pending           State = "pending"
	Decided           State = "decided"
	Sent              State = "sent"
	Confirmed         State = "confirmed"
	AnsweredElsewhere State = "answered-elsewhere" // by another client of the same agent
	Expired           State = "expired"            // its turn or its link ended first
	DeliveryUnknown   State = "delivery-unknown"   // decided, but the link was lost before the agent confirmed
	Superseded        State = "superseded"         // denied while the link was down; the denial answers what was asked anew
)

// Approval is a request and what has become of it. Times are Unix milliseconds,
// 0 until the step is made.
type Approval struct {
	ID       string // random; safe in a URL
	Nonce    string // one per card; a decision must carry it
	Digest   string // of what was asked and shown; a decision must carry it
	Request  state.Request
	State    State
	Decision *state.Decision // nil while pending
	Actor    string          // device that decided
	AskedAt  int64
	EndedAt  int64 // when it left pending: was decided, or ended without a decision

	// Unrecorded is set while the disk refuses this decision, which denies and was
	// sent all the same.
	Unrecorded bool `json:"-"`
}

// Denies reports whether an answer only refuses: it may be sent even if it cannot
// be recorded.
func (a *Approval) Denies(d state.Decision) bool {
	o, ok := a.Request.Option(d.OptionID)
	return ok && o.Kind == state.OptionDeny
}

// Held reports whether a denial is recorded that the agent has not been told. An
// allow is never held: whether it is still meant is for a person to say.
func (a *Approval) Held() bool { return a.State == Decided && a.Denies(*a.Decision) }

// Errors of Decide.
var (
	ErrNotPending  = errors.New("the request is no longer pending")
	ErrChanged     = errors.New("the decision was made on other content than what is asked")
	ErrOption      = errors.New("the request does not offer that answer")
	ErrNotEditable = errors.New("the request cannot be edited")
	ErrReason      = errors.New("the answer cannot carry that reason")
	ErrAnswers     = errors.New("an answer is not of the form that is asked for")
)

// Bounds of what can be approved, and of a change among it. Nothing is cut from what is approved, and
// this is what a browser still lays out within a moment, and more than anybody reads.
const (
	MaxDiff      = 1 << 20 // bytes
	MaxDiffLines = 20_000
	MaxRequest   = 4 << 20 // bytes, of all that a request holds
)

// New returns a pending approval for r. A request that is not Faithful, that its
// adapter warns of, that tells nothing of what it is about, or that is too large to be
// shown as a whole keeps only the options that deny it.
func New(r state.Request, now int64) *Approval {
	if err := Faithful(r.Params); err != nil {
		r.Caution = "The agent's request is ambiguous: " + err.Error() + ". What is shown may not be what would happen, so it cannot be approved."
	}
	if r.Caution == "" && (r.Kind == state.RequestCommand || r.Kind == state.RequestFileChange) && r.Input == "" && r.Diff == "" && len(r.Details) == 0 {
		r.Caution = "No details given: the agent does not say what it would do, so it cannot be approved."
	}
	if r.Caution == "" && (len(r.Diff) > MaxDiff || strings.Count(r.Diff, "\n") > MaxDiffLines) {
		r.Caution = "This change is too large for a page that shows all of it, so it can only be denied here. Deny it and ask for smaller steps, or answer it where the agent runs."
	}
	if r.Caution == "" && len(r.Params) > MaxRequest {
		r.Caution = fmt.Sprintf("This request is too long for a page that shows all of it (%d MiB), so it can only be denied here. Deny it and ask for smaller steps, or answer it where the agent runs.", len(r.Params)>>20)
	}
	if r.Caution != "" {
		r.Options = slices.DeleteFunc(slices.Clone(r.Options), func(o state.ConfirmationOption) bool { return o.Kind != state.OptionDeny })
	}
	return &Approval{ID: rand.Text(), Nonce: rand.Text(), Digest: Digest(r), Request: r, State: Pending, AskedAt: now}
}

// digestVersion is bound into every digest; change it with the fields.
const digestVersion = "nod-approval-2"

// Digest binds a decision to what it is about: SHA-256 over the length-prefixed
// link, session, turn and request, the raw parameters as they were received, and
// the text a person is shown.
func Digest(r state.Request) string {
	fields := []string{
		digestVersion, r.Provider, r.Epoch, r.Session, r.TurnID, r.ToolCallID,
		string(r.UpstreamID), r.Method, string(r.Params), r.Input, r.Diff, r.Cwd, r.Environment,
	}
	for _, d := range r.Details {
		fields = append(fields, d.Label, d.Text, d.Option)
	}
	return hex.EncodeToString(bind(fields))
}

// bind is SHA-256 over texts, each with its length before it.
func bind(fields []string) []byte {
	h := sha256.New()
	for _, field := range fields {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(field)))
		h.Write(n[:])
		h.Write([]byte(field))
	}
	return h.Sum(nil)
}

// challengeVersion is bound into every Challenge; change it with the fields.
const challengeVersion = "nod-decision-2"

// Challenge is what a passkey signs, in unpadded base64url: this decision on this
// request and no other. Secrets are not part of it, nor is the address it comes from.
func Challenge(a *Approval, d state.Decision) string {
	d.Address = ""                      // a phone changes its network between the page and the tap
	told, err := json.Marshal(d.Told()) // maps come in the order of their keys
	if err != nil {
		panic(err) // strings in maps and lists
	}
	return base64.RawURLEncoding.EncodeToString(bind([]string{challengeVersion, a.ID, a.Nonce, Digest(a.Request), string(told)}))
}

// SameContent reports whether two requests ask for the same thing in the same
// place, though over another link or in another run of the agent.
func SameContent(a, b state.Request) bool {
	a.Epoch, b.Epoch, a.UpstreamID, b.UpstreamID = "", "", nil, nil
	return equal(Digest(a), Digest(b))
}

// Decide returns a decided copy of a. The digest is computed again from the
// stored request, so neither the page nor the record can put one thing in
// another's place. The same decision by the same actor again is no error: it
// returns a itself.
func Decide(a *Approval, actor, digest, nonce string, d state.Decision, now int64) (*Approval, error) {
	if !equal(digest, Digest(a.Request)) || !equal(nonce, a.Nonce) {
		return nil, ErrChanged
	}
	if a.State != Pending {
		if a.Decision != nil && a.Actor == actor && same(*a.Decision, d) {
			return a, nil
		}
		return nil, ErrNotPending
	}
	o, ok := a.Request.Option(d.OptionID)
	switch {
	case !ok:
		return nil, ErrOption
	case d.EditedInput != "" && !a.Request.Editable:
		return nil, ErrNotEditable
	case d.Reason != "" && (d.OptionID != a.Request.Explains || !utf8.ValidString(d.Reason) || utf8.RuneCountInString(d.Reason) > state.MaxReason):
		return nil, ErrReason
	case o.Kind == state.OptionApprove && len(a.Request.Questions.Wrong(d.Answers)) > 0:
		return nil, ErrAnswers
	}
	n := *a
	n.State, n.Decision, n.Actor, n.EndedAt = Decided, &d, actor, now
	return &n, nil
}

// same reports whether two decisions are one, as far as can be told: secrets are
// forgotten once they are sent.
func same(a, b state.Decision) bool {
	answers := func(a, b state.Answer) bool { return slices.Equal(a.Selected, b.Selected) && a.Text == b.Text }
	given := func(d state.Decision) map[string]state.Answer {
		told := d.Told().Answers
		maps.DeleteFunc(told, func(_ string, a state.Answer) bool { return len(a.Given()) == 0 })
		return told
	}
	return a.OptionID == b.OptionID && a.EditedInput == b.EditedInput && a.Reason == b.Reason && maps.EqualFunc(given(a), given(b), answers)
}

// MarkSent returns a copy that is on its way to the agent. Like every later one
// it holds no secret.
func MarkSent(a *Approval) *Approval {
	n := a.told()
	n.State = Sent
	return n
}

// told returns a copy without the secrets of its decision.
func (a *Approval) told() *Approval {
	n := *a
	if n.Decision != nil {
		d := n.Decision.Told()
		n.Decision = &d
	}
	return &n
}

// Supersede returns a copy of a held denial that goes to another request.
func Supersede(a *Approval) *Approval {
	n := *a
	n.State = Superseded
	return &n
}

// Resolve returns a copy after the agent said that it no longer waits.
func Resolve(a *Approval, how state.Ending, now int64) *Approval {
	if how == state.EndedWithdrawn {
		return Sweep(a, now)
	}
	n := a.told()
	switch a.State {
	case Pending:
		n.State, n.EndedAt = AnsweredElsewhere, now
	case Decided: // ours has not left yet
		n.State = AnsweredElsewhere
	case Sent:
		if n.State = Confirmed; how == state.EndedElsewhere {
			n.State = AnsweredElsewhere
		}
	}
	return n
}

// Sweep returns a copy after the agent can no longer be waiting: its turn or its
// link has ended, or it has withdrawn the request.
func Sweep(a *Approval, now int64) *Approval {
	n := a.told()
	switch a.State {
	case Pending:
		n.State, n.EndedAt = Expired, now
	case Decided, Sent:
		n.State = DeliveryUnknown
	}
	return n
}

// Open reports whether the agent may still be waiting.
func (a *Approval) Open() bool { return a.State == Pending || a.State == Decided || a.State == Sent }

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
