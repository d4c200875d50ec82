package journal

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// errBatch is what is wrong with a batch by itself.
var errBatch = errors.New("journal: the batch cannot be recorded")

// batchFault tells what is wrong with a batch, nil if it is the disk: to try
// such a batch again would fail again.
func batchFault(err error) error {
	switch c := code(err); {
	case errors.Is(err, ErrConflict), errors.Is(err, ErrDuplicate), errors.Is(err, ErrNotFound), errors.Is(err, errBatch):
		return err
	case c == sqliteForeignKey:
		return fmt.Errorf("%w: the session", ErrNotFound)
	case c&0xff == sqliteConstraint, c&0xff == sqliteTooBig, c&0xff == sqliteMismatch:
		return fmt.Errorf("%w: %w", errBatch, err)
	}
	return nil
}

// writeBatch writes what is not there yet.
func writeBatch(ctx context.Context, tx *sql.Tx, b Batch) error {
	if b.Source != (Source{}) {
		known, err := exists(ctx, tx, "SELECT 1 FROM sources WHERE session = ? AND epoch = ? AND id = ?", b.Source.Session, b.Source.Epoch, b.Source.ID)
		if err != nil {
			return err
		}
		if known {
			return repeated(ctx, tx, b)
		}
	}
	for _, x := range b.Sessions {
		if _, err := tx.ExecContext(ctx, `INSERT INTO sessions(uri, head, open) VALUES(?, ?, ?)
			ON CONFLICT(uri) DO UPDATE SET head = excluded.head, open = excluded.open`, x.URI, blob(x.Head), x.Open); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM deleted WHERE uri = ?", x.URI); err != nil {
			return err
		}
	}
	if b.Source != (Source{}) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO sources(session, epoch, id, seq) VALUES(?, ?, ?, ?)", b.Source.Session, b.Source.Epoch, b.Source.ID, lastSeq(b)); err != nil {
			return err
		}
	}
	for _, x := range b.Snapshots {
		if err := writeSnapshot(ctx, tx, x); err != nil {
			return err
		}
	}
	for _, x := range b.Events {
		if err := writeEvent(ctx, tx, x); err != nil {
			return err
		}
	}
	for _, x := range b.Approvals {
		if err := writeApproval(ctx, tx, x); err != nil {
			return err
		}
	}
	for _, x := range b.Audit {
		if err := writeAudit(ctx, tx, x); err != nil {
			return err
		}
	}
	return nil
}

func lastSeq(b Batch) (seq uint64) {
	for _, e := range b.Events {
		seq = max(seq, e.Seq)
	}
	return seq
}

// repeated decides about a batch whose source is known: it may be that very
// batch, tried again. Its events tell, since their numbers are its own; only a
// batch without any is known by its approvals and sessions.
func repeated(ctx context.Context, tx *sql.Tx, b Batch) error {
	same := true
	for _, x := range b.Events {
		there, equal, err := eventThere(ctx, tx, x)
		if err != nil {
			return err
		}
		same = same && there && equal
	}
	if len(b.Events) == 0 {
		for _, x := range b.Approvals {
			equal, err := approvalThere(ctx, tx, x.Approval)
			if err != nil {
				return err
			}
			same = same && equal
		}
		for _, x := range b.Sessions {
			equal, err := exists(ctx, tx, "SELECT 1 FROM sessions WHERE uri = ? AND head = ? AND open = ?", x.URI, blob(x.Head), x.Open)
			if err != nil {
				return err
			}
			same = same && equal
		}
	}
	if !same {
		return ErrDuplicate
	}
	return nil
}

// writeSnapshot keeps the first and the newest.
func writeSnapshot(ctx context.Context, tx *sql.Tx, x Snapshot) error {
	if err := number(x.Seq); err != nil {
		return err
	}
	var first, newest sql.Null[uint64]
	if err := tx.QueryRowContext(ctx, "SELECT min(seq), max(seq) FROM snapshots WHERE session = ?", x.Session).Scan(&first, &newest); err != nil {
		return err
	}
	if newest.Valid && x.Seq <= newest.V {
		return nil
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM snapshots WHERE session = ? AND seq > ?", x.Session, first.V); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO snapshots(session, seq, data) VALUES(?, ?, ?)", x.Session, x.Seq, blob(x.Data))
	return err
}

func writeEvent(ctx context.Context, tx *sql.Tx, x Event) error {
	if err := number(x.Seq); err != nil {
		return err
	}
	n, err := affected(tx.ExecContext(ctx, `INSERT INTO events(session, seq, time, channel, action) VALUES(?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, x.Session, x.Seq, x.Time, x.Channel, blob(x.Action)))
	if err != nil || n == 1 {
		return err
	}
	if _, equal, err := eventThere(ctx, tx, x); err != nil {
		return err
	} else if !equal {
		return fmt.Errorf("%w: event %d of %s", ErrConflict, x.Seq, x.Session)
	}
	return nil
}

func eventThere(ctx context.Context, tx *sql.Tx, x Event) (there, equal bool, err error) {
	if err := number(x.Seq); err != nil {
		return false, false, err
	}
	old := Event{Session: x.Session, Seq: x.Seq}
	err = tx.QueryRowContext(ctx, "SELECT time, channel, action FROM events WHERE session = ? AND seq = ?", x.Session, x.Seq).
		Scan(&old.Time, &old.Channel, (*[]byte)(&old.Action))
	if errors.Is(err, sql.ErrNoRows) {
		return false, false, nil
	}
	return err == nil, err == nil && equalEvents(old, x), err
}

func equalEvents(a, b Event) bool {
	return a.Session == b.Session && a.Seq == b.Seq && a.Time == b.Time && a.Channel == b.Channel && bytes.Equal(a.Action, b.Action)
}

func writeApproval(ctx context.Context, tx *sql.Tx, x ApprovalChange) error {
	query, args := "INSERT INTO approvals(id, session, state, digest, record) VALUES(?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		[]any{x.ID, x.Session, x.State, x.Digest, blob(x.Record)}
	if x.From != "" {
		query, args = "UPDATE approvals SET state = ?, record = ? WHERE id = ? AND session = ? AND state = ? AND digest = ?",
			[]any{x.State, blob(x.Record), x.ID, x.Session, x.From, x.Digest}
	}
	n, err := affected(tx.ExecContext(ctx, query, args...))
	if err != nil || n == 1 {
		return err
	}
	if equal, err := approvalThere(ctx, tx, x.Approval); err != nil {
		return err
	} else if !equal {
		return fmt.Errorf("%w: request %s", ErrConflict, x.ID)
	}
	return nil
}

func approvalThere(ctx context.Context, tx *sql.Tx, x Approval) (bool, error) {
	return exists(ctx, tx, "SELECT 1 FROM approvals WHERE id = ? AND session = ? AND state = ? AND digest = ? AND record = ?",
		x.ID, x.Session, x.State, x.Digest, blob(x.Record))
}

// number refuses what SQLite's integers cannot hold.
func number(seq uint64) error {
	if seq > math.MaxInt64 {
		return fmt.Errorf("%w: %d is no number of an event", errBatch, seq)
	}
	return nil
}

// blob keeps empty apart from SQL's NULL.
func blob(raw json.RawMessage) []byte {
	if raw == nil {
		return []byte{}
	}
	return raw
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func exists(ctx context.Context, tx *sql.Tx, query string, args ...any) (bool, error) {
	var one int
	err := tx.QueryRowContext(ctx, query, args...).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// without returns what a batch holds of other sessions.
func without(b Batch, sessions []string) Batch {
	gone := func(uri string) bool { return slices.Contains(sessions, uri) }
	if gone(b.Source.Session) {
		b.Source = Source{}
	}
	b.Sessions = kept(b.Sessions, func(x Session) bool { return gone(x.URI) })
	b.Snapshots = kept(b.Snapshots, func(x Snapshot) bool { return gone(x.Session) })
	b.Events = kept(b.Events, func(x Event) bool { return gone(x.Session) })
	b.Approvals = kept(b.Approvals, func(x ApprovalChange) bool { return gone(x.Session) })
	return b
}

// kept leaves the caller's slice alone.
func kept[T any](xs []T, gone func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(xs), gone)
}
