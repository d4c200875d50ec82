package journal

import (
	"os"
	"path/filepath"
	"testing"
)

// killed leaves a folder as a kill does, with a log that is not in the file yet.
func killed(t *testing.T, n uint64) (dir, backup string) {
	t.Helper()
	live := t.TempDir()
	s := open(t, live)
	defer closed(t, s)
	begin(t, s)
	put(t, s, batch(upTo(n)...))
	backup = filepath.Join(t.TempDir(), "copy")
	if err := s.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	for seq := n + 1; seq <= 2*n; seq++ {
		put(t, s, batch(seq))
	}
	dir = t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(filepath.Join(live, FileName+suffix))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, FileName+suffix), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, backup
}

// TestRestoreBesideAnOldLog: the log of what was there before is not played into
// the copy, and what was there can still be had.
func TestRestoreBesideAnOldLog(t *testing.T) {
	dir, backup := killed(t, 50)
	aside, err := Restore(t.Context(), dir, backup)
	if err != nil || aside == "" {
		t.Fatal(aside, err)
	}
	s := open(t, dir)
	if _, err := s.Begin(t.Context()); err != nil {
		t.Error(err)
	}
	expect(t, "events", seqs(t, s), upTo(50))
	closed(t, s)
	old := open(t, aside)
	defer closed(t, old)
	expect(t, "events of before", seqs(t, old), upTo(100))
}

// TestRestoreRefuses what is no journal, and changes nothing.
func TestRestoreRefuses(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "text": "this is no backup", "half": "SQLite format 3\x00 and then nothing"} {
		dir, _ := killed(t, 3)
		file := filepath.Join(t.TempDir(), "copy")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(t.Context(), dir, file); err == nil {
			t.Errorf("%s was restored", name)
		}
		s := open(t, dir)
		expect(t, name, seqs(t, s), upTo(6))
		closed(t, s)
	}
}
