// Package journal is what must survive a crash: the events of every session,
// the pending requests, who may come in, and what was decided by whom.
//
// Store is the interface; nothing above it knows SQL. Open gives the SQLite
// implementation: one file, one writing goroutine that commits in groups, and a
// pool of readers.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
)

// Event is one action on a channel that belongs to a session.
type Event struct {
	Session string // URI of the session
	Seq     uint64 // counts the session's events from 1
	Time    int64  // Unix milliseconds; a label, never an order
	Channel string // URI of what changes: the session or one of its terminals
	Action  json.RawMessage
}

// Session is what a session began as.
type Session struct {
	URI     string
	Initial json.RawMessage // AHP SessionState
}

// Approval is a pending request as stored. Record is its whole content; the
// other fields are what the store itself decides by.
type Approval struct {
	ID      string
	Session string
	State   string
	Digest  string
	Record  json.RawMessage
}

// ApprovalChange stores a new approval (From is "") or moves a stored one, if it
// is still in state From with the same digest.
type ApprovalChange struct {
	From string
	Approval
}

// AuditEntry says who did what. Entries are only ever added.
type AuditEntry struct {
	Time   int64
	Actor  string
	What   string
	Detail json.RawMessage
}

// Batch is committed whole or not at all.
type Batch struct {
	Sessions  []Session
	Events    []Event
	Approvals []ApprovalChange
	Audit     []AuditEntry
}

// Device is a browser that has logged in. Times are Unix milliseconds.
type Device struct {
	ID        string // public, for lists and the audit
	TokenHash string // of the cookie's value; the value itself is never stored
	Name      string
	CreatedAt int64
	SeenAt    int64
}

// Errors of a Store.
var (
	// ErrConflict: an approval was no longer in the state the change began from.
	ErrConflict = errors.New("journal: the approval has changed meanwhile")
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("journal: no such record")
)

// Store keeps what must survive. Its methods may be called by many goroutines.
type Store interface {
	// Append returns once the batch is on disk.
	Append(ctx context.Context, b Batch) error
	// Buffer takes what may be shown before it is on disk: growing text, and
	// what the disk has refused. It is committed within 25 ms, or with the next
	// Append if that is earlier; while the disk refuses it, it is kept.
	Buffer(b Batch)
	// Opaque keeps a message that nobody understood; session may be "".
	Opaque(ctx context.Context, session string, at int64, raw json.RawMessage) error

	// Sessions returns all sessions in the order they were created in.
	Sessions(ctx context.Context) ([]Session, error)
	// Events yields a session's events after a sequence number, in order.
	Events(ctx context.Context, session string, after uint64) iter.Seq2[Event, error]
	// Approvals returns the approvals of a session in the order they were asked in.
	Approvals(ctx context.Context, session string) ([]Approval, error)

	// PutLogin stores the hash of a one-time login token.
	PutLogin(ctx context.Context, hash string, expires int64) error
	// TakeLogin uses a login token up: ErrNotFound if it is unknown, used or expired.
	TakeLogin(ctx context.Context, hash string, now int64) error
	PutDevice(ctx context.Context, d Device) error
	// Device returns the device of a token hash, or ErrNotFound.
	Device(ctx context.Context, tokenHash string) (Device, error)
	// Devices returns all devices, the one that was seen last first.
	Devices(ctx context.Context) ([]Device, error)
	SeeDevice(ctx context.Context, id string, at int64) error
	DeleteDevice(ctx context.Context, id string) error

	// Close commits what is buffered and closes the files.
	Close() error
}
