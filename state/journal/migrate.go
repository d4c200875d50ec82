package journal

import (
	"bytes"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

var (
	//go:embed schema.sql
	schema1 string
	//go:embed schema2.sql
	schema2 string
	//go:embed schema3.sql
	schema3 string
	//go:embed schema4.sql
	schema4 string
	//go:embed schema5.sql
	schema5 string
)

// A format is one step of the file's history. SQLite's user_version counts the
// steps that were done.
type format struct {
	step   string   // SQL that leads here from the format before
	tables []string // all there are then, sorted; by them a file is known as ours

	then func(context.Context, *sql.Tx) error // what SQL cannot do of the step; nil: nothing
}

// formats are never edited once they were released, only added to.
var formats = []format{
	{schema1, []string{"approvals", "audit", "devices", "events", "logins", "opaque", "sessions"}, nil},
	{schema2, []string{"approvals", "audit", "devices", "events", "logins", "meta", "opaque", "sessions", "snapshots", "sources"}, nil},
	{schema3, []string{"approvals", "audit", "deleted", "devices", "events", "logins", "meta", "opaque", "sessions", "snapshots", "sources"}, nil},
	{schema4, []string{"approvals", "audit", "deleted", "devices", "door", "events", "logins", "meta", "opaque", "passkeys", "sessions", "snapshots", "sources"}, nil},
	{schema5, []string{"approvals", "audit", "audit_ends", "deleted", "devices", "door", "events", "logins", "meta", "opaque", "passkeys", "sessions", "snapshots", "sources"}, chainAudit},
}

// Sentences about a file that is left as it is.
var (
	errForeign = errors.New("it is the database of another program; use another data folder")
	errNewer   = errors.New("it was written by a newer nod; use that nod, or another data folder")
	errDamaged = errors.New("it is damaged or no database; go back to a backup with “nod restore”, or use another data folder")
)

// inspect returns the format of a file, 0 if there is nothing in it yet. It only
// reads: a file that is not ours must not even be switched to a WAL.
func inspect(ctx context.Context, file string) (int, error) {
	empty, err := checkHeader(file)
	if empty || err != nil {
		return 0, err
	}
	version, err := inspectAs(ctx, dsn(file, "ro"))
	if code(err) == sqliteReadOnlyRollback {
		// A crash while the file was switched to its WAL left a journal that
		// has to be rolled back first, as any program would.
		version, err = inspectAs(ctx, dsn(file, "rw"))
	}
	if isDamage(err) {
		err = fmt.Errorf("%w (%w)", errDamaged, err)
	}
	return version, err
}

// checkHeader also keeps SQLite from a file that is none.
func checkHeader(file string) (empty bool, err error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	magic := []byte("SQLite format 3\x00")
	head := make([]byte, len(magic))
	switch n, err := io.ReadFull(f, head); {
	case n == 0 && errors.Is(err, io.EOF):
		return true, nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return false, err
	case !bytes.Equal(head, magic):
		return false, errDamaged
	}
	return false, nil
}

func inspectAs(ctx context.Context, dsn string) (version int, err error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, err
	}
	tables, err := collect(ctx, db, func(r *sql.Rows) (name string, err error) {
		err = r.Scan(&name)
		return name, err
	}, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`)
	switch {
	case err != nil:
		return 0, err
	case version > len(formats) && slices.Contains(tables, "events") && slices.Contains(tables, "sessions"):
		return 0, fmt.Errorf("%w (its format is %d, this one knows %d)", errNewer, version, len(formats))
	case version < 0 || version > len(formats):
		return 0, errForeign
	case version == 0 && len(tables) == 0:
		return 0, nil
	case version == 0 || !slices.Equal(tables, formats[version-1].tables):
		return 0, errForeign
	case version < len(formats):
		return version, quickCheck(ctx, db) // before it is rewritten
	}
	return version, nil
}

// quickCheck reads the whole file.
func quickCheck(ctx context.Context, db *sql.DB) error {
	var found string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%w (%s)", errDamaged, found)
	}
	return nil
}

// migrate does the steps that a file of a format lacks, each whole or not at all.
func migrate(ctx context.Context, db *sql.DB, version int) error {
	for i, f := range formats[version:] {
		done := version + i + 1
		if err := f.reach(ctx, db, done); err != nil {
			return fmt.Errorf("it could not be brought to format %d: %w", done, err)
		}
	}
	return nil
}

func (f format) reach(ctx context.Context, db *sql.DB, version int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, f.step); err != nil {
		return err
	}
	if f.then != nil {
		if err := f.then(ctx, tx); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return err
	}
	return tx.Commit()
}
