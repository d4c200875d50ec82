package journal

import (
	"context"
	"database/sql"
	"errors"
	"iter"
)

const (
	// pageRows and pageBytes bound what one read transaction reads, since the
	// WAL cannot be emptied past it and the page is kept in memory.
	pageRows  = 500
	pageBytes = 1 << 20
)

func (s *sqlite) Sessions(ctx context.Context) ([]Session, error) {
	return collect(ctx, s.read, func(r *sql.Rows) (x Session, err error) {
		err = r.Scan(&x.URI, (*[]byte)(&x.Head), &x.Open)
		return x, err
	}, "SELECT uri, head, open FROM sessions ORDER BY id")
}

func (s *sqlite) First(ctx context.Context, session string) (Snapshot, error) {
	return s.snapshot(ctx, session, "ORDER BY seq LIMIT 1")
}

func (s *sqlite) Newest(ctx context.Context, session string) (Snapshot, error) {
	return s.snapshot(ctx, session, "ORDER BY seq DESC LIMIT 1")
}

func (s *sqlite) snapshot(ctx context.Context, session, which string) (Snapshot, error) {
	x := Snapshot{Session: session}
	err := s.read.QueryRowContext(ctx, "SELECT seq, data FROM snapshots WHERE session = ? "+which, session).Scan(&x.Seq, (*[]byte)(&x.Data))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return x, err
}

const selectEvents = "SELECT seq, time, channel, action FROM events "

func scanEvent(r *sql.Rows, session string) (Event, error) {
	e := Event{Session: session}
	err := r.Scan(&e.Seq, &e.Time, &e.Channel, (*[]byte)(&e.Action))
	return e, err
}

func (s *sqlite) Events(ctx context.Context, session string, after uint64) iter.Seq2[Event, error] {
	return paged(func(last *Event) ([]Event, bool, error) {
		from := after
		if last != nil {
			from = last.Seq
		}
		rows, size := 0, 0
		return collectUntil(ctx, s.read, func(r *sql.Rows) (Event, error) { return scanEvent(r, session) },
			func(e Event) bool {
				rows++
				size += len(e.Action)
				return rows == pageRows || size >= pageBytes
			}, selectEvents+"WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?", session, from, pageRows)
	})
}

func (s *sqlite) Sources(ctx context.Context, session string) iter.Seq2[Source, error] {
	return paged(func(last *Source) ([]Source, bool, error) {
		if last == nil {
			last = &Source{}
		}
		rows := 0
		return collectUntil(ctx, s.read, func(r *sql.Rows) (Source, error) {
			x := Source{Session: session}
			err := r.Scan(&x.Epoch, &x.ID)
			return x, err
		}, func(Source) bool {
			rows++
			return rows == pageRows
		}, "SELECT epoch, id FROM sources WHERE session = ? AND (epoch, id) > (?, ?) ORDER BY epoch, id LIMIT ?", session, last.Epoch, last.ID, pageRows)
	})
}

func (s *sqlite) Count(ctx context.Context, session string) (n int, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT count(*) FROM events WHERE session = ?", session).Scan(&n)
	return n, err
}

func (s *sqlite) Deleted(ctx context.Context) ([]string, error) {
	return collect(ctx, s.read, func(r *sql.Rows) (uri string, err error) {
		err = r.Scan(&uri)
		return uri, err
	}, "SELECT uri FROM deleted ORDER BY uri")
}

const selectApprovals = "SELECT id, session, state, digest, record FROM approvals "

func scanApproval(r *sql.Rows) (a Approval, err error) {
	err = r.Scan(&a.ID, &a.Session, &a.State, &a.Digest, (*[]byte)(&a.Record))
	return a, err
}

func (s *sqlite) Approvals(ctx context.Context, session string) ([]Approval, error) {
	return collect(ctx, s.read, scanApproval, selectApprovals+"WHERE session = ? ORDER BY rowid", session)
}

func (s *sqlite) Approval(ctx context.Context, id string) (Approval, error) {
	found, err := collect(ctx, s.read, scanApproval, selectApprovals+"WHERE id = ?", id)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Approval{}, err
	}
	return found[0], nil
}

// paged yields page after page; between two, and while the caller looks at one,
// nothing is open. next returns what comes after last (nil: from the beginning),
// and whether there may be more.
func paged[T any](next func(last *T) ([]T, bool, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last *T
		for more := true; more; {
			var page []T
			var err error
			page, more, err = next(last)
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
				last = &page[i]
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
		}
	}
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func collect[T any](ctx context.Context, db querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	out, _, err := collectUntil(ctx, db, scan, func(T) bool { return false }, query, args...)
	return out, err
}

// collectUntil reads rows until full says of one that it was the last to read.
func collectUntil[T any](ctx context.Context, db querier, scan func(*sql.Rows) (T, error), full func(T) bool, query string, args ...any) (out []T, stopped bool, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		x, err := scan(rows)
		if err != nil {
			return out, false, err
		}
		out = append(out, x)
		if full(x) {
			return out, true, nil
		}
	}
	return out, false, rows.Err()
}
