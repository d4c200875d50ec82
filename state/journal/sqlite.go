package journal

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite" // the driver; no other file names it
)

//go:embed schema.sql
var schema string

// schemaVersion is SQLite's user_version of the files this program writes.
const schemaVersion = 1

// FileName is the database's name in the data folder.
const FileName = "nod.db"

const (
	// flushAfter bounds what a power cut can take of streaming text.
	flushAfter = 25 * time.Millisecond
	// maxGroup bounds how many batches share one transaction, and with it how
	// long the first of them waits.
	maxGroup = 256
	// maxBuffered bounds the events kept in memory while the disk refuses them.
	maxBuffered = 10_000
)

type sqlite struct {
	log   *slog.Logger
	write *sql.DB // one connection, used by the writer goroutine and short statements
	read  *sql.DB

	queue chan job
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once
}

type job struct {
	batch  Batch
	result chan error // nil: nobody waits, the batch may linger
}

// Open opens or creates the journal in a folder. The error of a damaged or newer
// file is a sentence; the file is left as it is.
func Open(ctx context.Context, folder string, log *slog.Logger) (Store, error) {
	file := filepath.Join(folder, FileName)
	write, err := sql.Open("sqlite", dsn(file, "rwc"))
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	if err := migrate(ctx, write); err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("the journal %s cannot be used: %w", file, err)
	}
	read, err := sql.Open("sqlite", dsn(file, "ro"))
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	s := &sqlite{log: log, write: write, read: read, queue: make(chan job, maxGroup), quit: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s, nil
}

// dsn sets the pragmas on every connection. FULL: what is acknowledged survives
// a power cut, since an approval is a security record; groups pay for it.
func dsn(file, mode string) string {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}}
	pragmas := []string{"busy_timeout(5000)", "foreign_keys(1)", "mmap_size(0)", "trusted_schema(0)"}
	if mode != "ro" {
		pragmas = append(pragmas, "auto_vacuum(2)", "journal_mode(WAL)", "synchronous(FULL)",
			"wal_autocheckpoint(1000)", "journal_size_limit(67108864)", "fullfsync(1)", "checkpoint_fullfsync(1)")
	}
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	return (&url.URL{Scheme: "file", Path: file, RawQuery: q.Encode()}).String()
}

func migrate(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	switch version {
	case schemaVersion:
		return nil
	case 0:
		_, err := db.ExecContext(ctx, "BEGIN IMMEDIATE;\n"+schema+fmt.Sprintf("\nPRAGMA user_version = %d;\nCOMMIT;", schemaVersion))
		return err
	}
	return fmt.Errorf("it was written by a newer nod (format %d, this one knows %d); use that nod, or another data folder", version, schemaVersion)
}

func (s *sqlite) Append(ctx context.Context, b Batch) error {
	j := job{batch: b, result: make(chan error, 1)}
	select {
	case s.queue <- j:
	case <-s.quit:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	// From here on the batch is committed whatever happens to ctx, so the
	// caller has to wait to know.
	select {
	case err := <-j.result:
		return err
	case <-s.done:
	}
	select { // the last group may have had it
	case err := <-j.result:
		return err
	default:
		return errClosed
	}
}

func (s *sqlite) Buffer(b Batch) {
	select {
	case s.queue <- job{batch: b}:
	case <-s.quit:
	}
}

var errClosed = errors.New("journal: closed")

// run is the one writer. Whatever arrives while a transaction is being
// committed goes into the next one.
func (s *sqlite) run() {
	defer close(s.done)
	var waiting []job
	var flush <-chan time.Time
	refused := false
	timer := time.NewTimer(flushAfter)
	timer.Stop()
	commit := func() {
		waiting = s.commit(waiting)
		timer.Stop()
		flush = nil
		if refused = len(waiting) > 0; refused { // by the disk: what nobody waits for waits
			timer.Reset(time.Second)
			flush = timer.C
		}
	}
	for {
		select {
		case j := <-s.queue:
			waiting = append(waiting, j)
			urgent := j.result != nil
			for more := true; more && len(waiting) < maxGroup; {
				select {
				case j := <-s.queue:
					waiting = append(waiting, j)
					urgent = urgent || j.result != nil
				default:
					more = false
				}
			}
			switch {
			case urgent || len(waiting) >= maxGroup && !refused:
				commit()
			case flush == nil:
				timer.Reset(flushAfter)
				flush = timer.C
			}
		case <-flush:
			commit()
		case <-s.quit:
			for {
				select {
				case j := <-s.queue:
					waiting = append(waiting, j)
					continue
				default:
				}
				break
			}
			s.commit(waiting)
			return
		}
	}
}

// commit writes all jobs in one transaction, answers those who wait, and returns
// what nobody waits for and the disk refused.
func (s *sqlite) commit(jobs []job) (left []job) {
	if len(jobs) == 0 {
		return nil
	}
	results, err := s.transact(jobs)
	for i, j := range jobs {
		switch {
		case j.result != nil && err != nil:
			j.result <- err
		case j.result != nil:
			j.result <- results[i]
		case err != nil:
			left = append(left, j)
		case results[i] != nil:
			s.log.Error("an event was not recorded", "err", results[i])
		}
	}
	if err != nil {
		s.log.Error("the journal cannot be written", "err", err, "kept", len(left))
		left = left[max(0, len(left)-maxBuffered):]
	}
	return left
}

func (s *sqlite) transact(jobs []job) ([]error, error) {
	ctx := context.Background() // a commit is never cut short
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	results := make([]error, len(jobs))
	for i, j := range jobs {
		// What is wrong with one batch undoes that batch, not its neighbours.
		if _, err := tx.ExecContext(ctx, "SAVEPOINT job"); err != nil {
			return nil, err
		}
		if err := writeBatch(ctx, tx, j.batch); errors.Is(err, ErrConflict) || isConstraint(err) {
			results[i] = err
			if _, err := tx.ExecContext(ctx, "ROLLBACK TO job"); err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, "RELEASE job"); err != nil {
			return nil, err
		}
	}
	return results, tx.Commit()
}

// isConstraint reports whether a batch contradicts what is stored, so that
// trying it again would fail again.
func isConstraint(err error) bool {
	var e *sqlite3.Error
	return errors.As(err, &e) && e.Code()&0xff == sqliteConstraint
}

// sqliteConstraint is SQLite's primary result code SQLITE_CONSTRAINT.
const sqliteConstraint = 19

func writeBatch(ctx context.Context, tx *sql.Tx, b Batch) error {
	for _, x := range b.Sessions {
		if _, err := tx.ExecContext(ctx, "INSERT INTO sessions(uri, initial) VALUES(?, ?)", x.URI, []byte(x.Initial)); err != nil {
			return err
		}
	}
	for _, e := range b.Events {
		if _, err := tx.ExecContext(ctx, "INSERT INTO events(session, seq, time, channel, action) VALUES(?, ?, ?, ?, ?)",
			e.Session, e.Seq, e.Time, e.Channel, []byte(e.Action)); err != nil {
			return err
		}
	}
	for _, a := range b.Approvals {
		if a.From == "" {
			if _, err := tx.ExecContext(ctx, "INSERT INTO approvals(id, session, state, digest, record) VALUES(?, ?, ?, ?, ?)",
				a.ID, a.Session, a.State, a.Digest, []byte(a.Record)); err != nil {
				return err
			}
			continue
		}
		r, err := tx.ExecContext(ctx, "UPDATE approvals SET state = ?, record = ? WHERE id = ? AND state = ? AND digest = ?",
			a.State, []byte(a.Record), a.ID, a.From, a.Digest)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil {
			return err
		} else if n != 1 {
			return ErrConflict
		}
	}
	for _, a := range b.Audit {
		if _, err := tx.ExecContext(ctx, "INSERT INTO audit(time, actor, what, detail) VALUES(?, ?, ?, ?)", a.Time, a.Actor, a.What, []byte(a.Detail)); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlite) Opaque(ctx context.Context, session string, at int64, raw json.RawMessage) error {
	_, err := s.write.ExecContext(ctx, "INSERT INTO opaque(session, time, raw) VALUES(?, ?, ?)", session, at, []byte(raw))
	return err
}

func (s *sqlite) Sessions(ctx context.Context) ([]Session, error) {
	return collect(ctx, s.read, func(r *sql.Rows) (x Session, err error) {
		err = r.Scan(&x.URI, (*[]byte)(&x.Initial))
		return x, err
	}, "SELECT uri, initial FROM sessions ORDER BY id")
}

func (s *sqlite) Approvals(ctx context.Context, session string) ([]Approval, error) {
	return collect(ctx, s.read, func(r *sql.Rows) (a Approval, err error) {
		err = r.Scan(&a.ID, &a.Session, &a.State, &a.Digest, (*[]byte)(&a.Record))
		return a, err
	}, "SELECT id, session, state, digest, record FROM approvals WHERE session = ? ORDER BY rowid", session)
}

func (s *sqlite) Events(ctx context.Context, session string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		rows, err := s.read.QueryContext(ctx, "SELECT seq, time, channel, action FROM events WHERE session = ? AND seq > ? ORDER BY seq", session, after)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			e := Event{Session: session}
			err := rows.Scan(&e.Seq, &e.Time, &e.Channel, (*[]byte)(&e.Action))
			if !yield(e, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Event{}, err)
		}
	}
}

func collect[T any](ctx context.Context, db *sql.DB, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []T
	for rows.Next() {
		x, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, rows.Err()
}

func (s *sqlite) PutLogin(ctx context.Context, hash string, expires int64) error {
	_, err := s.write.ExecContext(ctx, "INSERT INTO logins(hash, expires) VALUES(?, ?)", hash, expires)
	return err
}

func (s *sqlite) TakeLogin(ctx context.Context, hash string, now int64) error {
	if err := s.one(ctx, "DELETE FROM logins WHERE hash = ? AND expires > ?", hash, now); err != nil {
		return err
	}
	_, err := s.write.ExecContext(ctx, "DELETE FROM logins WHERE expires <= ?", now)
	return err
}

func (s *sqlite) PutDevice(ctx context.Context, d Device) error {
	_, err := s.write.ExecContext(ctx, "INSERT INTO devices(id, token_hash, name, created_at, seen_at) VALUES(?, ?, ?, ?, ?)",
		d.ID, d.TokenHash, d.Name, d.CreatedAt, d.SeenAt)
	return err
}

const selectDevices = "SELECT id, token_hash, name, created_at, seen_at FROM devices "

func scanDevice(r *sql.Rows) (d Device, err error) {
	err = r.Scan(&d.ID, &d.TokenHash, &d.Name, &d.CreatedAt, &d.SeenAt)
	return d, err
}

func (s *sqlite) Device(ctx context.Context, tokenHash string) (Device, error) {
	ds, err := collect(ctx, s.read, scanDevice, selectDevices+"WHERE token_hash = ?", tokenHash)
	if err == nil && len(ds) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Device{}, err
	}
	return ds[0], nil
}

func (s *sqlite) Devices(ctx context.Context) ([]Device, error) {
	return collect(ctx, s.read, scanDevice, selectDevices+"ORDER BY seen_at DESC, id")
}

func (s *sqlite) SeeDevice(ctx context.Context, id string, at int64) error {
	return s.one(ctx, "UPDATE devices SET seen_at = ? WHERE id = ?", at, id)
}

func (s *sqlite) DeleteDevice(ctx context.Context, id string) error {
	return s.one(ctx, "DELETE FROM devices WHERE id = ?", id)
}

// one runs a statement that must hit exactly one row.
func (s *sqlite) one(ctx context.Context, query string, args ...any) error {
	r, err := s.write.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	return err
}

func (s *sqlite) Close() error {
	s.once.Do(func() { close(s.quit) })
	<-s.done
	_, err := s.write.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	return errors.Join(err, s.read.Close(), s.write.Close())
}
