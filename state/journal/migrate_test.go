package journal

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const uri = "ahp-session:/1"

func open(t *testing.T, folder string) *sqlite {
	t.Helper()
	s, err := Open(t.Context(), folder, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s.(*sqlite)
}

func closed(t *testing.T, s Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func begin(t *testing.T, s Store) {
	t.Helper()
	put(t, s, Batch{Sessions: []Session{{URI: uri, Head: json.RawMessage(`{}`)}}, Snapshots: []Snapshot{{Session: uri}}})
}

func put(t *testing.T, s Store, b Batch) {
	t.Helper()
	if err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func event(seq uint64) Event {
	return Event{Session: uri, Seq: seq, Time: int64(seq), Channel: uri, Action: json.RawMessage(fmt.Sprintf(`{"n":%d}`, seq))}
}

func batch(seqs ...uint64) (b Batch) {
	for _, seq := range seqs {
		b.Events = append(b.Events, event(seq))
	}
	return b
}

func seqs(t *testing.T, s Store) (out []uint64) {
	t.Helper()
	for e, err := range s.Events(t.Context(), uri, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Seq)
	}
	return out
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: %s, not %s", what, g, w)
	}
}

func upTo(n uint64) (out []uint64) {
	for seq := uint64(1); seq <= n; seq++ {
		out = append(out, seq)
	}
	return out
}

// pragma reads one number from the writing connection.
func pragma(t *testing.T, s *sqlite, name string) (value string) {
	t.Helper()
	if err := s.write.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// database makes a file as another program would.
func database(t *testing.T, folder string, statements ...string) (file string) {
	t.Helper()
	file = filepath.Join(folder, FileName)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFormat1 opens a file of the first nod.
func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	database(t, dir, "PRAGMA auto_vacuum = 2", "PRAGMA journal_mode = WAL", schema1, "PRAGMA user_version = 1",
		`INSERT INTO sessions(uri, initial) VALUES('s:/b', CAST('{"b":1}' AS BLOB)), ('s:/a', CAST('{"a":1}' AS BLOB))`,
		`INSERT INTO events(session, seq, time, channel, action) VALUES('s:/b', 1, 5, 's:/b', CAST('{}' AS BLOB)), ('s:/b', 2, 6, 't:/1', CAST('{"x":2}' AS BLOB))`,
		`INSERT INTO approvals(id, session, state, digest, record) VALUES('p', 's:/b', 'pending', 'd', CAST('{}' AS BLOB))`,
		`INSERT INTO devices VALUES('d', 'h', 'Firefox', 1, 2)`)
	for range 2 { // the second time there is nothing to do
		s := open(t, dir)
		expect(t, "format", pragma(t, s, "user_version"), len(formats))
		sessions, err := s.Sessions(t.Context())
		expect(t, "error", err, nil)
		want := []Session{{URI: "s:/b", Head: json.RawMessage(`{}`), Open: true}, {URI: "s:/a", Head: json.RawMessage(`{}`), Open: true}}
		expect(t, "sessions", sessions, want)
		for _, get := range []func() (Snapshot, error){
			func() (Snapshot, error) { return s.First(t.Context(), "s:/a") },
			func() (Snapshot, error) { return s.Newest(t.Context(), "s:/a") },
		} {
			snap, err := get()
			expect(t, "error", err, nil)
			expect(t, "snapshot", snap, Snapshot{Session: "s:/a", Data: json.RawMessage(`{"a":1}`)})
		}
		var events []Event
		for e, err := range s.Events(t.Context(), "s:/b", 0) {
			expect(t, "error", err, nil)
			events = append(events, e)
		}
		expect(t, "events", events, []Event{
			{Session: "s:/b", Seq: 1, Time: 5, Channel: "s:/b", Action: json.RawMessage(`{}`)},
			{Session: "s:/b", Seq: 2, Time: 6, Channel: "t:/1", Action: json.RawMessage(`{"x":2}`)},
		})
		approvals, err := s.Approvals(t.Context(), "s:/b")
		expect(t, "error", err, nil)
		expect(t, "approvals", len(approvals), 1)
		device, err := s.Device(t.Context(), "h")
		expect(t, "error", err, nil)
		expect(t, "device", device, Device{ID: "d", TokenHash: "h", Name: "Firefox", Scope: "operate", CreatedAt: 1, SeenAt: 2})
		put(t, s, Batch{Snapshots: []Snapshot{{Session: "s:/b", Seq: 2}}, Sessions: want[:1]})
		closed(t, s)
	}
	// How its last process ended is not known.
	s := open(t, dir)
	defer closed(t, s)
	clean, err := s.Begin(t.Context())
	expect(t, "error", err, nil)
	expect(t, "clean", clean, false)
}

// TestRefusedFiles leaves alone what is not ours to change.
func TestRefusedFiles(t *testing.T) {
	ours := func(t *testing.T, dir string) string {
		s := open(t, dir)
		begin(t, s)
		closed(t, s)
		return filepath.Join(dir, FileName)
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string) (file string)
		says string
	}{
		"newer": {func(t *testing.T, dir string) string {
			ours(t, dir)
			return database(t, dir, "PRAGMA user_version = 99", "CREATE TABLE more(x)")
		}, "newer nod"},
		"no database": {func(t *testing.T, dir string) string {
			file := filepath.Join(dir, FileName)
			if err := os.WriteFile(file, bytes.Repeat([]byte("this is no database "), 500), 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}, "damaged"},
		"a few bytes": {func(t *testing.T, dir string) string {
			file := filepath.Join(dir, FileName)
			if err := os.WriteFile(file, []byte("SQLite"), 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}, "damaged"},
		"a damaged first page": {func(t *testing.T, dir string) string {
			file := ours(t, dir)
			overwrite(t, file, 16, 4000)
			return file
		}, "damaged"},
		"another program's": {func(t *testing.T, dir string) string {
			return database(t, dir, "CREATE TABLE bookmarks(url)", "INSERT INTO bookmarks VALUES('x')")
		}, "another program"},
		"another program's, with a version": {func(t *testing.T, dir string) string {
			return database(t, dir, "PRAGMA user_version = 2", "CREATE TABLE sessions(x)", "CREATE TABLE events(x)")
		}, "another program"},
		"another program's, with a high version": {func(t *testing.T, dir string) string {
			return database(t, dir, "PRAGMA user_version = 70", "CREATE TABLE bookmarks(url)")
		}, "another program"},
		"another program's, with a WAL": {func(t *testing.T, dir string) string {
			return database(t, dir, "PRAGMA journal_mode = WAL", "CREATE TABLE bookmarks(url)")
		}, "another program"},
		"of format 1, damaged": {func(t *testing.T, dir string) string {
			file := database(t, dir, schema1, "PRAGMA user_version = 1", `INSERT INTO sessions(uri, initial) VALUES('s:/a', zeroblob(9999))`,
				`INSERT INTO events SELECT 's:/a', value, 1, 's:/a', zeroblob(500) FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value+1 FROM n WHERE value < 500) SELECT value FROM n)`)
			overwrite(t, file, len(content(t, file))/4096/2*4096, 4096)
			return file
		}, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := c.make(t, dir)
			before := content(t, file)
			s, err := Open(t.Context(), dir, slog.New(slog.DiscardHandler))
			if err == nil {
				closed(t, s)
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "data folder") || !strings.Contains(err.Error(), file) {
				t.Errorf("it says %q", err)
			}
			if !bytes.Equal(before, content(t, file)) {
				t.Error("it was changed")
			}
		})
	}
}

// overwrite puts garbage into a file.
func overwrite(t *testing.T, file string, at, n int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, n), int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// crashed copies the files of an open store, as a crash would leave them.
func crashed(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		if err := os.WriteFile(filepath.Join(to, FileName+suffix), content(t, filepath.Join(from, FileName+suffix)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestDamageAfterACrash is found by Begin, and kept as it is by everything after.
func TestDamageAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer closed(t, s)
	begin(t, s)
	if _, err := s.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 500; seq++ {
		s.Buffer(batch(seq))
	}
	put(t, s, batch(501))
	if empty, err := s.emptyWAL(); err != nil || !empty {
		t.Fatalf("the WAL is still in use (%v)", err)
	}
	put(t, s, batch(502)) // what a careless Close would move into the file

	sound := open(t, crashed(t, dir))
	clean, err := sound.Begin(t.Context())
	expect(t, "clean", clean, false)
	expect(t, "error", err, nil)
	expect(t, "events", seqs(t, sound), upTo(502))
	closed(t, sound)

	folder := crashed(t, dir)
	file := filepath.Join(folder, FileName)
	overwrite(t, file, leaf(t, s, "events")*4096, 4096)
	before, wal := content(t, file), content(t, file+"-wal")
	expect(t, "there is a WAL", len(wal) > 0, true)
	hurt := open(t, folder)
	_, err = hurt.Begin(t.Context())
	if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), file) {
		t.Errorf("Begin says %v", err)
	}
	if err := hurt.Append(t.Context(), batch(503)); !errors.Is(err, errDamaged) {
		t.Errorf("Append says %v", err)
	}
	if err := hurt.PutLogin(t.Context(), "h", 1); !errors.Is(err, errDamaged) {
		t.Errorf("PutLogin says %v", err)
	}
	if err := hurt.Prune(t.Context(), 1, 1); !errors.Is(err, errDamaged) {
		t.Errorf("Prune says %v", err)
	}
	hurt.Buffer(batch(503))
	closed(t, hurt)
	if !bytes.Equal(before, content(t, file)) {
		t.Error("the file was changed")
	}
	if !bytes.Equal(wal, content(t, file+"-wal")) {
		t.Error("the WAL was changed")
	}
}

// leaf returns the index of a page of a table that is not its root.
func leaf(t *testing.T, s *sqlite, table string) int {
	t.Helper()
	var root, pages int
	if err := s.read.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_schema WHERE name = ?", table).Scan(&root); err != nil {
		t.Fatal(err)
	}
	if err := s.read.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if pages <= root+1 {
		t.Fatalf("%d pages", pages)
	}
	return pages - 2 // the last pages are those of the table that grew last
}

// TestHalfSwitchedFile: a crash while the file was switched to its WAL leaves a
// journal to roll back.
func TestHalfSwitchedFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	begin(t, s)
	copied := t.TempDir()
	file := filepath.Join(copied, FileName)
	if err := s.Backup(t.Context(), file); err != nil { // has no WAL
		t.Fatal(err)
	}
	closed(t, s)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	// A transaction that has spilled into the file has a hot journal.
	for _, q := range []string{"PRAGMA cache_size = 1", "PRAGMA cache_spill = 1", "BEGIN IMMEDIATE",
		"INSERT INTO opaque(session, time, raw) SELECT '', value, zeroblob(900) FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value+1 FROM n WHERE value < 200) SELECT value FROM n)"} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	hot := t.TempDir()
	for _, suffix := range []string{"", "-journal"} {
		if err := os.WriteFile(filepath.Join(hot, FileName+suffix), content(t, file+suffix), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := inspectAs(t.Context(), dsn(filepath.Join(hot, FileName), "ro")); code(err) != sqliteReadOnlyRollback {
		t.Fatalf("the journal is not hot: %v", err)
	}
	s = open(t, hot)
	defer closed(t, s)
	sessions, err := s.Sessions(t.Context())
	expect(t, "error", err, nil)
	expect(t, "sessions", len(sessions), 1)
	expect(t, "spilled pages", pragma(t, s, "integrity_check"), "ok")
}

func TestPragmas(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer closed(t, s)
	for name, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "busy_timeout": "5000", "foreign_keys": "1", "wal_autocheckpoint": "1000",
		"journal_size_limit": "67108864", "mmap_size": "0", "trusted_schema": "0", "auto_vacuum": "2", "fullfsync": "1", "checkpoint_fullfsync": "1",
	} {
		expect(t, name, pragma(t, s, name), want)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(filepath.Join(dir, FileName+suffix))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "who may read "+info.Name(), info.Mode().Perm(), os.FileMode(0o600))
	}
	if _, err := s.read.ExecContext(t.Context(), "DELETE FROM sessions"); err == nil {
		t.Error("a reader wrote")
	}
}

// TestPruneGivesSpaceBack looks at what is left, and at the file.
func TestPruneGivesSpaceBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer closed(t, s)
	begin(t, s)
	for at := range int64(40) {
		if err := s.Opaque(t.Context(), uri, at, bytes.Repeat([]byte("x"), 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	for at := range int64(3) {
		put(t, s, Batch{Audit: []AuditEntry{{Time: at, Actor: "me", What: "x"}}})
	}
	if err := s.Prune(t.Context(), 38, 2); err != nil {
		t.Fatal(err)
	}
	var opaque, audit int
	if err := s.read.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM opaque), (SELECT count(*) FROM audit)").Scan(&opaque, &audit); err != nil {
		t.Fatal(err)
	}
	expect(t, "unknown messages", opaque, 2)
	expect(t, "audit entries", audit, 1)
	expect(t, "free pages", pragma(t, s, "freelist_count"), 0)
	info, err := os.Stat(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 1_000_000 {
		t.Errorf("the file has %d bytes", info.Size())
	}
}

// TestAuditIsAddedOnce: a batch that is tried again is recorded once, two that
// differ are two.
func TestAuditIsAddedOnce(t *testing.T) {
	s := open(t, t.TempDir())
	defer closed(t, s)
	a := AuditEntry{Time: 1, Actor: "me", What: "x"}
	b, c := a, a
	b.Time, c.Detail = 2, json.RawMessage(`{}`)
	for range 2 {
		put(t, s, Batch{Audit: []AuditEntry{a, b, c}})
	}
	var n int
	if err := s.read.QueryRowContext(t.Context(), "SELECT count(*) FROM audit").Scan(&n); err != nil {
		t.Fatal(err)
	}
	expect(t, "entries", n, 3)
}

// TestOneFileNamesTheDriver keeps it possible to take another.
func TestOneFileNamesTheDriver(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(`"modernc.org/`+`sqlite`)) {
			named = append(named, file)
		}
	}
	expect(t, "files", named, []string{"sqlite.go"})
}
