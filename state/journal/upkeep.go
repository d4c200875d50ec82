package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
)

// vacuumPages is how much is given back in one go, so that the writer comes in
// between.
const vacuumPages = 1000

// maxOpaque is how many messages that nobody understood are worth keeping.
const maxOpaque = 10_000

// Compact calls merge from the writer: it must not call the Store.
func (s *sqlite) Compact(ctx context.Context, session string, from, to uint64, merge func([]Event) ([]Event, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.do(job{
		after: func(b Batch) bool { return touched(b)[session] },
		task:  func() error { return s.inTx(func(tx *sql.Tx) error { return compact(tx, session, from, to, merge) }) },
	})
}

func compact(tx *sql.Tx, session string, from, to uint64, merge func([]Event) ([]Event, error)) error {
	ctx := context.Background()
	if err := errors.Join(number(from), number(to)); err != nil {
		return err
	}
	across, err := exists(ctx, tx, "SELECT 1 FROM snapshots WHERE session = ? AND seq >= ? AND seq < ?", session, from, to)
	if err != nil {
		return err
	}
	if across {
		return fmt.Errorf("journal: events %d to %d of %s lie on both sides of a snapshot", from, to, session)
	}
	old, err := collect(ctx, tx, func(r *sql.Rows) (Event, error) { return scanEvent(r, session) },
		selectEvents+"WHERE session = ? AND seq BETWEEN ? AND ? ORDER BY seq", session, from, to)
	if err != nil || len(old) == 0 {
		return err
	}
	given := make(map[uint64]Event, len(old))
	for _, e := range old {
		given[e.Seq] = e
	}
	merged, err := merge(old)
	if err != nil {
		return err
	}
	last := uint64(0)
	for i, e := range merged {
		was, ok := given[e.Seq]
		if !ok || e.Session != session || i > 0 && e.Seq <= last {
			return fmt.Errorf("journal: to compact events %d to %d of %s gave event %d of %s, which was not there or not in order", from, to, session, e.Seq, e.Session)
		}
		last = e.Seq
		delete(given, e.Seq)
		if equalEvents(was, e) {
			continue
		}
		if _, err := tx.ExecContext(ctx, "UPDATE events SET time = ?, channel = ?, action = ? WHERE session = ? AND seq = ?",
			e.Time, e.Channel, blob(e.Action), session, e.Seq); err != nil {
			return err
		}
	}
	for seq := range given {
		if _, err := tx.ExecContext(ctx, "DELETE FROM events WHERE session = ? AND seq = ?", session, seq); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlite) Cut(ctx context.Context, snap Snapshot, row Session, approvals []Approval) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.do(job{
		after: func(b Batch) bool { return touched(b)[snap.Session] },
		task: func() error {
			err := s.inTx(func(tx *sql.Tx) error { return cut(tx, snap, row, approvals) })
			if fault := batchFault(err); fault != nil {
				return fault
			}
			if err == nil {
				s.queue.mend(snap.Session, snap.Seq)
			}
			return err
		},
	})
}

func cut(tx *sql.Tx, snap Snapshot, row Session, approvals []Approval) error {
	ctx := context.Background()
	if err := number(snap.Seq); err != nil {
		return err
	}
	known, err := exists(ctx, tx, "SELECT 1 FROM sessions WHERE uri = ?", snap.Session)
	if err != nil {
		return err
	}
	if !known { // deleted
		return ErrNotFound
	}
	// From before the first one, no events lead to now any more.
	late, err := exists(ctx, tx, "SELECT 1 FROM snapshots WHERE session = ? GROUP BY session HAVING min(seq) > ?", snap.Session, snap.Seq)
	if err != nil {
		return err
	}
	if late {
		return fmt.Errorf("%w: %s begins after event %d", ErrConflict, snap.Session, snap.Seq)
	}
	for _, query := range []string{
		"DELETE FROM sources WHERE session = ?1 AND seq <= (SELECT min(seq) FROM snapshots WHERE session = ?1) AND ?2 > 0",
		"DELETE FROM snapshots WHERE session = ? AND seq <= ?",
		"DELETE FROM events WHERE session = ? AND seq <= ?",
	} {
		if _, err := tx.ExecContext(ctx, query, snap.Session, snap.Seq); err != nil {
			return err
		}
	}
	if err := writeBatch(ctx, tx, Batch{Sessions: []Session{row}}); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO snapshots(session, seq, data) VALUES(?, ?, ?)", snap.Session, snap.Seq, blob(snap.Data)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM approvals WHERE session = ?", snap.Session); err != nil {
		return err
	}
	for _, a := range approvals {
		if err := writeApproval(ctx, tx, ApprovalChange{Approval: a}); err != nil {
			return err
		}
	}
	return nil
}

// Delete comes after what was queued before it, so that nothing of that brings a
// session back; what the disk refuses of it is forgotten too.
func (s *sqlite) Delete(ctx context.Context, at int64, sessions ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.do(job{
		forgets: sessions,
		task: func() error {
			if err := s.inTx(func(tx *sql.Tx) error { return remove(tx, at, sessions) }); err != nil {
				return err
			}
			for _, uri := range sessions {
				s.queue.mend(uri, math.MaxUint64)
			}
			return nil
		},
	})
}

func remove(tx *sql.Tx, at int64, sessions []string) error {
	for _, uri := range sessions {
		for _, table := range []string{"events", "snapshots", "sources", "approvals", "opaque", "shares"} {
			if _, err := tx.ExecContext(context.Background(), "DELETE FROM "+table+" WHERE session = ?", uri); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(context.Background(), "DELETE FROM sessions WHERE uri = ?", uri); err != nil {
			return err
		}
		if _, err := tx.ExecContext(context.Background(), "INSERT OR REPLACE INTO deleted(uri, time) VALUES(?, ?)", uri, at); err != nil {
			return err
		}
	}
	return nil
}

// forget takes deleted sessions out of waiting batches.
func (s *sqlite) forget(jobs []job, sessions []string) (left []job) {
	for _, j := range jobs {
		b := without(j.batch, sessions)
		if len(b.Sessions)+len(b.Snapshots)+len(b.Events)+len(b.Approvals)+len(b.Audit) == 0 {
			s.queue.release(j)
			continue
		}
		j.batch = b
		left = append(left, j)
	}
	return left
}

func (s *sqlite) Prune(ctx context.Context, opaqueBefore, auditBefore int64) error {
	if err := s.exec(ctx, "DELETE FROM opaque WHERE time < ?", opaqueBefore); err != nil {
		return err
	}
	if err := s.exec(ctx, "DELETE FROM opaque WHERE id <= (SELECT max(id) FROM opaque) - ?", maxOpaque); err != nil {
		return err
	}
	if err := s.do(job{task: func() error { return s.inTx(func(tx *sql.Tx) error { return pruneAudit(tx, auditBefore) }) }}); err != nil {
		return err
	}
	if err := s.exec(ctx, "DELETE FROM deleted WHERE time < ?", auditBefore); err != nil {
		return err
	}
	if err := s.exec(ctx, "DELETE FROM logins WHERE expires < ?", opaqueBefore); err != nil {
		return err
	}
	if err := s.exec(ctx, "DELETE FROM devices WHERE seen_at < ?", auditBefore); err != nil {
		return err
	}
	for before := math.MaxInt; ; {
		var free int
		if err := s.write.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free); err != nil {
			return err
		}
		if free == 0 || free >= before { // a file that a tool has rewritten may not give any back
			break
		}
		before = free
		if err := s.exec(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages)); err != nil {
			return err
		}
	}
	// Only that makes the file shorter. Under a reader the idle writer does it.
	_, err := s.emptyWAL()
	return err
}
