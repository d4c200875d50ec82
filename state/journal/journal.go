// Package journal is what must survive a crash: the events of every session,
// the pending requests, who may come in, and what was decided by whom.
//
// Store is the interface; nothing above it knows SQL. Open gives the SQLite
// implementation: one file, one writing goroutine that commits in groups, and a
// pool of readers. Package journaltest holds what every implementation must do.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
)

// Session is one row of what a list of sessions shows.
type Session struct {
	URI  string
	Head json.RawMessage // the hub's own form; the store does not look inside
	Open bool            // something ran or waited: the next process must look at it
}

// Snapshot is a session's whole state as it was after event Seq. A store keeps
// two of a session: the first one it was given, from which all kept events lead
// to now, and the newest one, which bounds what has to be read to get there.
type Snapshot struct {
	Session string
	Seq     uint64 // 0 before the first event
	Data    json.RawMessage
}

// Event is one action on a channel that belongs to a session.
type Event struct {
	Session string // URI of the session
	Seq     uint64 // counts the session's events from 1; compaction leaves gaps
	Time    int64  // Unix milliseconds; a label, never an order
	Channel string // URI of what changes: the session or one of its terminals
	Action  json.RawMessage
}

// Source names the upstream event that a batch came from, so that a replay after
// a reconnect applies once. The zero Source names none.
type Source struct {
	Session string // URI of the session
	Epoch   string // of the upstream's own numbering
	ID      string // unique within Epoch
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
// is still in state From with the same digest. A change that has been made
// already is no error.
type ApprovalChange struct {
	From string
	Approval
}

// AuditEntry says who did what. Entries are only ever added, and form a chain: who
// changes one, or takes one out, breaks it. The names are those of the export.
type AuditEntry struct {
	ID      int64           `json:"id"`      // given by the store, counts from 1 without a gap
	Time    int64           `json:"time"`    // Unix milliseconds
	Actor   string          `json:"actor"`   // id of a device; "" for nod itself
	Name    string          `json:"name"`    // of the device, as it was then; "" to have the store look
	Address string          `json:"address"` // of the network that it came from; "" for nod itself
	What    string          `json:"what"`    // stable, such as "request decided"
	About   string          `json:"about"`   // id of what it happened to
	Detail  json.RawMessage `json:"detail,omitempty"`
	Prev    string          `json:"prev"` // Hash of the entry before, hex
	Hash    string          `json:"hash"` // over all of the above, hex; given by the store
}

// Batch is committed whole or not at all, in the order of its fields.
type Batch struct {
	Source    Source
	Sessions  []Session // new ones, and known ones whose Head or Open has changed
	Snapshots []Snapshot
	Events    []Event
	Approvals []ApprovalChange
	Audit     []AuditEntry
}

// Device is a browser that has logged in. Times are Unix milliseconds.
type Device struct {
	ID         string // public, for lists and the audit
	TokenHash  string // of the cookie's value; the value itself is never stored
	Name       string
	Scope      string // what it may do; the store does not look inside
	Granted    string // the scope that it gets with its next cookie; "" for none
	CreatedAt  int64
	SeenAt     int64
	VerifiedAt int64 // when its person last proved to be there; 0 for never
}

// Passkey is a key that a browser or phone holds for nod's owner, as one name of
// nod's knows it. Times are Unix milliseconds.
type Passkey struct {
	ID        string
	Host      string
	Name      string
	Record    json.RawMessage // what a signature is checked with; nothing secret
	CreatedAt int64
	UsedAt    int64
}

// Share is what guests may see of a session. Times are Unix milliseconds.
type Share struct {
	ID        string          // public, in addresses
	TokenHash string          // of what lets guests in; the value itself is never stored
	Session   string          // URI
	Record    json.RawMessage // its own form; the store does not look inside
	Frozen    json.RawMessage // the picture of one that stands still, when it is stored; see Store.Frozen
	CreatedAt int64
	ExpiresAt int64
	EndedAt   int64 // when its owner ended it; 0 for not
	Views     int64
	ViewedAt  int64 // 0 for never
}

// Errors of a Store.
var (
	// ErrConflict: an approval was no longer in the state the change began from,
	// or a sequence number holds another event already.
	ErrConflict = errors.New("journal: what the change began from has changed meanwhile")
	// ErrDuplicate: a batch of the same Source is on disk already.
	ErrDuplicate = errors.New("journal: this upstream event is recorded already")
	// ErrBroken: events of this session were lost while the disk was full and
	// memory ran out. Its log goes on after a Cut.
	ErrBroken = errors.New("journal: the log of this session broke off while the disk was full")
	// ErrChain: the audit is not as it was written. Its text names the first entry
	// that is wrong.
	ErrChain = errors.New("journal: the audit was changed")
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("journal: no such record")
)

// Store keeps what must survive. Its methods may be called by many goroutines.
type Store interface {
	// Begin notes that a process serves from this store, and tells whether the
	// last one that did said End: if not, it crashed.
	Begin(ctx context.Context) (clean bool, err error)
	// End says that everything which was shown is on disk. It fails if something
	// is not.
	End(ctx context.Context) error
	// OnHealth names a function that is told when the disk begins to refuse what
	// is buffered (with the cause), and when all that waited is on disk (nil).
	// It is called by the writer and must not call the Store.
	OnHealth(func(error))

	// Append returns once the batch is on disk. The same batch again is no error
	// and changes nothing, as long as nothing newer of its session was appended,
	// compacted or cut: a caller that does not know whether the first try
	// succeeded may try again.
	Append(ctx context.Context, b Batch) error
	// Buffer takes what may be shown before it is on disk: growing text, and
	// what the disk has refused. It is committed within 25 ms, or with the next
	// Append if that is earlier; while the disk refuses it, it is kept in order.
	Buffer(b Batch)
	// Opaque keeps a message that nobody understood; session may be "".
	Opaque(ctx context.Context, session string, at int64, raw json.RawMessage) error

	// Compact replaces the events of a session from one sequence number to
	// another, both included, by what merge makes of them: some of the same
	// numbers, in order. It is one transaction, ordered with Append and Buffer. A
	// range across the newest snapshot is refused: what is read after that one must
	// not hold what it holds.
	Compact(ctx context.Context, session string, from, to uint64, merge func([]Event) ([]Event, error)) error
	// Cut has a session begin anew: with snap as its first snapshot, and the newest
	// if it is newer than that, with this row, and with these approvals and no
	// others. The events up to snap are forgotten, and the sources of those that
	// were forgotten the time before.
	Cut(ctx context.Context, snap Snapshot, row Session, approvals []Approval) error
	// Delete forgets sessions and all that belongs to them. The audit stays, and the
	// names with the time (Unix milliseconds), until a session of that name begins.
	Delete(ctx context.Context, at int64, sessions ...string) error
	// Prune forgets unknown messages from before a time, and audit entries, names of
	// deleted sessions and devices that nobody used from before another (Unix
	// milliseconds), all but the newest 10,000 unknown messages, and logins that nobody
	// used; and it gives space back to the disk.
	Prune(ctx context.Context, opaqueBefore, auditBefore int64) error

	// Sessions returns all sessions in the order they were created in.
	Sessions(ctx context.Context) ([]Session, error)
	// Deleted returns the names of deleted sessions.
	Deleted(ctx context.Context) ([]string, error)
	// First and Newest return a session's snapshots, or ErrNotFound.
	First(ctx context.Context, session string) (Snapshot, error)
	Newest(ctx context.Context, session string) (Snapshot, error)
	// Events yields a session's events after a sequence number, in order.
	Events(ctx context.Context, session string, after uint64) iter.Seq2[Event, error]
	// Count returns how many events of a session are kept.
	Count(ctx context.Context, session string) (int, error)
	// Sources yields the sources of a session.
	Sources(ctx context.Context, session string) iter.Seq2[Source, error]
	// Approvals returns the approvals of a session in the order they were asked in.
	Approvals(ctx context.Context, session string) ([]Approval, error)
	// Approval returns one approval, or ErrNotFound.
	Approval(ctx context.Context, id string) (Approval, error)

	// Audit yields the audit's entries after an id, the oldest first.
	Audit(ctx context.Context, after int64) iter.Seq2[AuditEntry, error]
	// AuditBefore returns up to n entries from before an id, the newest first, fewer
	// if they are large; 0 stands for the end.
	AuditBefore(ctx context.Context, id int64, n int) ([]AuditEntry, error)
	// AuditAbout returns the entries about one thing, the oldest first.
	AuditAbout(ctx context.Context, about string) ([]AuditEntry, error)
	// AuditFate returns what the newest entry about one thing says, "" if there is none.
	AuditFate(ctx context.Context, about string) (what string, err error)
	// VerifyAudit walks the chain and returns how many entries of it are good;
	// ErrChain if not all are.
	VerifyAudit(ctx context.Context) (entries int, err error)

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
	// VerifyDevice, RenameDevice and GrantDevice each store one thing of a known
	// device, and leave what others store meanwhile. A scope that is granted is in
	// force with the next cookie, or now.
	VerifyDevice(ctx context.Context, id string, at int64) error
	RenameDevice(ctx context.Context, id, name string) error
	GrantDevice(ctx context.Context, id, scope string, now bool) error
	// RenewDevice gives a device another token, and what it was granted. ErrNotFound:
	// there is none of that ID and that token hash any more, or nothing is granted.
	RenewDevice(ctx context.Context, id, tokenHash, newHash string) error
	DeleteDevice(ctx context.Context, id string) error

	// PutPasskey stores a passkey, a new one or one that is known.
	PutPasskey(ctx context.Context, k Passkey) error
	// Passkeys returns all of them, oldest first.
	Passkeys(ctx context.Context) ([]Passkey, error)
	DeletePasskey(ctx context.Context, id string) error
	// PutDoor keeps what the door needs to know under a name, and Door returns it:
	// "" if it is not there. To keep "" forgets it.
	PutDoor(ctx context.Context, key, value string) error
	Door(ctx context.Context, key string) (string, error)

	// PutShare stores a new share of a session that is there. It goes when its session
	// is deleted.
	PutShare(ctx context.Context, x Share) error
	// Shares returns all of them, the newest first, and Share one of them, or
	// ErrNotFound; both without what is frozen, which Frozen returns.
	Shares(ctx context.Context) ([]Share, error)
	Share(ctx context.Context, id string) (Share, error)
	Frozen(ctx context.Context, id string) (json.RawMessage, error)
	// ChangeShare stores the record of a known share, and when it ends.
	ChangeShare(ctx context.Context, x Share) error
	// EndShares ends all that can be looked at.
	EndShares(ctx context.Context, at int64) error
	// ViewShare counts somebody who has looked.
	ViewShare(ctx context.Context, id string, at int64) error

	// Backup writes a consistent copy to a file that does not exist yet, while
	// the store is in use.
	Backup(ctx context.Context, file string) error
	// Close commits what is buffered and closes the files.
	Close() error
}
