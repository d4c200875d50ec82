package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite" // the driver; no other file names it
)

// FileName is the database's name in the data folder.
const FileName = "nod.db"

const (
	// maxReaders bounds the memory that page caches take.
	maxReaders = 8
	// busyTimeout outlasts a backup tool or a person's query that has the lock.
	busyTimeout = 5 * time.Second
)

// sqlite is the Store of one file. The way through the package: migrate.go looks
// at the file before it is touched, queue.go holds what waits, writer.go commits
// it, batch.go says what one batch writes, upkeep.go what makes the file smaller,
// read.go and login.go are the short ones.
type sqlite struct {
	log   *slog.Logger
	file  string
	write *sql.DB // one connection: the writer's, and that of short statements
	read  *sql.DB

	queue   *queue
	quit    chan struct{}
	done    chan struct{} // closed when the writer has ended
	unsaved error         // what the writer could not commit at the end; read it after done
	once    sync.Once
	closed  error

	healthMu sync.Mutex
	health   func(error) // nil: nobody is told
}

// Open opens or creates the journal in a folder. The error of a damaged, newer
// or foreign file is a sentence; the file is left as it is.
func Open(ctx context.Context, folder string, log *slog.Logger) (Store, error) {
	folder, err := filepath.Abs(folder) // SQLite would read a relative one as a host
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, FileName)
	s, err := openSQLite(ctx, file, log)
	if err != nil {
		return nil, unusable(file, err)
	}
	go s.run()
	return s, nil
}

func unusable(file string, err error) error {
	return fmt.Errorf("the journal %s cannot be used: %w", file, err)
}

func openSQLite(ctx context.Context, file string, log *slog.Logger) (*sqlite, error) {
	version, err := inspect(ctx, file)
	if err != nil {
		return nil, err
	}
	// SQLite would make the file readable by everybody.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil { // a copy that was put here may be readable by others
		return nil, err
	}
	pragmas := forWriting
	if version == 0 {
		pragmas = append([]string{forCreating}, pragmas...)
	}
	write, err := sql.Open("sqlite", dsn(file, "rw", pragmas...))
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	if err := migrate(ctx, write, version); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read, err := sql.Open("sqlite", dsn(file, "ro"))
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read.SetMaxOpenConns(maxReaders)
	return &sqlite{log: log, file: file, write: write, read: read, queue: newQueue(log), quit: make(chan struct{}), done: make(chan struct{})}, nil
}

// forWriting are the pragmas of the connection that writes. FULL: what is
// acknowledged survives a power cut, since an approval is a security record;
// groups pay for it.
var forWriting = []string{"journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(1000)",
	"journal_size_limit(67108864)", "fullfsync(1)", "checkpoint_fullfsync(1)"}

// forCreating comes before the first table; in a file that has some it would
// only cost a write each time it is opened.
const forCreating = "auto_vacuum(INCREMENTAL)"

func dsn(file, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}}
	for _, p := range append([]string{fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "foreign_keys(1)", "mmap_size(0)", "trusted_schema(0)"}, pragmas...) {
		q.Add("_pragma", p)
	}
	return (&url.URL{Scheme: "file", Path: file, RawQuery: q.Encode()}).String()
}

// SQLite's result codes that mean something here.
const (
	sqliteCorrupt          = 11
	sqliteFull             = 13
	sqliteTooBig           = 18
	sqliteConstraint       = 19
	sqliteMismatch         = 20
	sqliteNotADB           = 26
	sqliteReadOnlyRollback = 776
	sqliteIOErrFsync       = 1034
	sqliteForeignKey       = 787
)

// code returns SQLite's extended result code, 0 if the error is not SQLite's. Its
// lowest byte is the primary code.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite3.Error](err); ok {
		return e.Code()
	}
	return 0
}

func (s *sqlite) Begin(ctx context.Context) (bool, error) {
	if err := s.queue.usable(); err != nil {
		return false, err
	}
	var clean bool
	if err := s.write.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'clean'").Scan(&clean); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = errDamaged
		}
		return false, s.damage(err)
	}
	if !clean { // a crash of the machine may have hurt the file
		if err := quickCheck(ctx, s.read); err != nil {
			return false, s.damage(err)
		}
	}
	return clean, s.exec(ctx, "UPDATE meta SET value = 0 WHERE key = 'clean'")
}

// damage sees to it that nothing more is written to a damaged file: a person may
// still get much out of it.
func (s *sqlite) damage(err error) error {
	if isDamage(err) {
		err = fmt.Errorf("%w (%w)", errDamaged, err)
	}
	err = unusable(s.file, err)
	if errors.Is(err, errDamaged) {
		s.queue.close(err)
	}
	return err
}

// isDamage tells a file that can no longer be trusted from a disk that is only
// full: what a failed fsync has left of it nobody knows.
func isDamage(err error) bool {
	c := code(err)
	return c&0xff == sqliteCorrupt || c&0xff == sqliteNotADB || c == sqliteIOErrFsync
}

func (s *sqlite) End(context.Context) error {
	return s.do(job{
		task: func() error {
			if err := s.queue.whole(); err != nil {
				return err
			}
			_, err := s.write.ExecContext(context.Background(), "UPDATE meta SET value = 1 WHERE key = 'clean'")
			return err
		},
		after: func(Batch) bool { return true },
	})
}

// exec runs a short statement beside the writer.
func (s *sqlite) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.affected(ctx, query, args...)
	return err
}

// one runs a statement that must hit a row.
func (s *sqlite) one(ctx context.Context, query string, args ...any) error {
	n, err := s.affected(ctx, query, args...)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	return err
}

func (s *sqlite) affected(ctx context.Context, query string, args ...any) (int64, error) {
	if err := s.queue.usable(); err != nil {
		return 0, err
	}
	r, err := s.write.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	s.queue.poke() // the WAL has grown
	return r.RowsAffected()
}

// Backup takes the name at once; what has it is empty until the copy is whole.
func (s *sqlite) Backup(ctx context.Context, file string) (err error) {
	if file, err = filepath.Abs(file); err != nil { // SQLite would read "file:" as a scheme
		return err
	}
	if err := createEmpty(file); err != nil {
		return err
	}
	part := file + ".part"
	defer func() {
		if err != nil {
			_, _ = os.Remove(part), os.Remove(file)
		}
	}()
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) { // of a crash
		return err
	}
	if err := createEmpty(part); err != nil {
		return err
	}
	if _, err := s.read.ExecContext(ctx, "VACUUM INTO ?", part); err != nil {
		return err
	}
	if err := syncFile(part); err != nil { // VACUUM INTO leaves that to us
		return err
	}
	if err := os.Rename(part, file); err != nil {
		return err
	}
	return syncFile(filepath.Dir(file))
}

func createEmpty(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *sqlite) Close() error {
	s.once.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *sqlite) close() error {
	damaged := errors.Is(s.queue.usable(), errDamaged)
	s.queue.close(errClosed)
	close(s.quit)
	<-s.done
	if damaged {
		return s.closeUntouched()
	}
	if _, err := s.emptyWAL(); err != nil { // no harm: what is in the WAL is on disk
		s.log.Warn("the journal's WAL could not be emptied", "err", err)
	}
	return errors.Join(s.unsaved, s.queue.whole(), s.read.Close(), s.write.Close())
}

// closeUntouched keeps SQLite from its last checkpoint: only the last connection
// does one, and the last one here may not write.
func (s *sqlite) closeUntouched() error {
	last, err := s.read.Conn(context.Background())
	if err != nil {
		return errors.Join(err, s.read.Close(), s.write.Close())
	}
	return errors.Join(s.write.Close(), last.Close(), s.read.Close())
}
