package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// audited is a journal with five entries.
func audited(t *testing.T) (s *sqlite, dir string) {
	dir = t.TempDir()
	s = open(t, dir)
	t.Cleanup(func() { closed(t, s) })
	for at := range int64(5) {
		put(t, s, Batch{Audit: []AuditEntry{{Time: at, Actor: "me", Address: "::1", What: "request decided", About: "a", Detail: json.RawMessage(`{"n":1}`)}}})
	}
	return s, dir
}

// TestR42AuditCannotBeEdited: what a statement would do to an entry is refused by
// the file itself.
func TestR42AuditCannotBeEdited(t *testing.T) {
	s, dir := audited(t)
	other, err := sql.Open("sqlite", filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for _, statement := range []string{
		"UPDATE audit SET what = 'nothing' WHERE id = 2",
		"DELETE FROM audit WHERE id = 2",
		"DELETE FROM audit",
		"INSERT INTO audit SELECT 9, time, actor, name, address, what, about, detail, prev, hash FROM audit WHERE id = 2",
		"INSERT OR REPLACE INTO audit SELECT id, time, actor, name, address, 'nothing', about, detail, prev, hash FROM audit WHERE id = 2",
	} {
		if _, err := other.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "audit entry") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	n, err := s.VerifyAudit(t.Context())
	expect(t, "error", err, nil)
	expect(t, "entries", n, 5)
}

// TestR42VerifyNamesTheFirstBrokenEntry changes the file as somebody would who
// first takes the triggers away.
func TestR42VerifyNamesTheFirstBrokenEntry(t *testing.T) {
	for statement, want := range map[string]string{
		"UPDATE audit SET detail = CAST('{\"n\":2}' AS BLOB) WHERE id = 3":                                  "entry 3 is not",
		"UPDATE audit SET actor = 'm', name = 'e' || name WHERE id = 4":                                     "entry 4 is not",
		"UPDATE audit SET time = 9 WHERE id IN (2, 4)":                                                      "entry 2 is not",
		"DELETE FROM audit WHERE id = 1":                                                                    "entry 1 is missing",
		"DELETE FROM audit WHERE id = 3":                                                                    "entry 3 is missing",
		"DELETE FROM audit WHERE id = 5":                                                                    "entry 5 is missing",
		"DELETE FROM audit":                                                                                 "entry 1 is missing",
		"UPDATE audit SET hash = zeroblob(32) WHERE id = 5":                                                 "entry 5 is not",
		"UPDATE audit_ends SET id = 3, hash = (SELECT hash FROM audit WHERE id = 2) WHERE which = 'pruned'": "entry 4 is not",
	} {
		s, _ := audited(t)
		for _, q := range []string{"DROP TRIGGER audit_update", "DROP TRIGGER audit_delete", statement} {
			if _, err := s.write.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.VerifyAudit(t.Context()); !errors.Is(err, ErrChain) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, not “%s”", statement, err, want)
		}
	}
}

// TestR42EveryFieldIsBound: the same bytes in other fields are another entry.
func TestR42EveryFieldIsBound(t *testing.T) {
	prev := make([]byte, 32)
	seen := map[string]AuditEntry{}
	for _, x := range []AuditEntry{
		{}, {ID: 1}, {Time: 1}, {Actor: "x"}, {Name: "x"}, {Address: "x"}, {What: "x"}, {About: "x"}, {Detail: json.RawMessage("x")},
		{Actor: "xx"}, {Actor: "x", Name: "x"},
	} {
		hash := string(chained(x, prev))
		if other, there := seen[hash]; there {
			t.Errorf("%v has the hash of %v", x, other)
		}
		seen[hash] = x
	}
	if string(chained(AuditEntry{}, []byte("another"))) == string(chained(AuditEntry{}, prev)) {
		t.Error("the entry before is not bound")
	}
}

// TestR42FormerEntriesJoinTheChain opens a file from before the chain.
func TestR42FormerEntriesJoinTheChain(t *testing.T) {
	dir := t.TempDir()
	database(t, dir, "PRAGMA auto_vacuum = 2", "PRAGMA journal_mode = WAL", schema1, schema2, schema3, "PRAGMA user_version = 3",
		`INSERT INTO devices VALUES('d', 'h', 'Firefox', 1, 2)`,
		`INSERT INTO audit(id, time, actor, what, detail) VALUES(7, 10, 'd', 'request decided', CAST('{"x":1}' AS BLOB)), (9, 20, '', 'request expired', NULL)`)
	for range 2 { // the second time there is nothing to do
		s := open(t, dir)
		n, err := s.VerifyAudit(t.Context())
		expect(t, "error", err, nil)
		expect(t, "entries", n, 2)
		all, err := s.AuditBefore(t.Context(), 0, 9)
		expect(t, "error", err, nil)
		for i := range all {
			all[i].Prev, all[i].Hash = "", ""
		}
		expect(t, "entries", all, []AuditEntry{
			{ID: 2, Time: 20, What: "request expired", Detail: json.RawMessage{}},
			{ID: 1, Time: 10, Actor: "d", Name: "Firefox", What: "request decided", Detail: json.RawMessage(`{"x":1}`)},
		})
		closed(t, s)
	}
}
