package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
)

// auditVersion is bound into every hash; change it with the fields.
const auditVersion = "nod-audit-1"

// chained is the hash of an entry: SHA-256 over all else that it holds, each field
// behind its length, so that nothing can move from one field to the next.
func chained(e AuditEntry, prev []byte) []byte {
	h := sha256.New()
	field := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	number := func(n int64) { field(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	field([]byte(auditVersion))
	field(prev)
	number(e.ID)
	number(e.Time)
	for _, text := range []string{e.Actor, e.Name, e.Address, e.What, e.About} {
		field([]byte(text))
	}
	field(e.Detail)
	return h.Sum(nil)
}

// writeAudit adds an entry to the chain. It takes two entries that say the same of
// the same millisecond for one that was tried twice. A device that is not named
// is named as it is called now.
func writeAudit(ctx context.Context, tx *sql.Tx, x AuditEntry) error {
	again, err := exists(ctx, tx, "SELECT 1 FROM audit WHERE time = ? AND actor = ? AND address = ? AND what = ? AND about = ? AND detail = ?",
		x.Time, x.Actor, x.Address, x.What, x.About, blob(x.Detail))
	if err != nil || again {
		return err
	}
	if x.Name == "" && x.Actor != "" {
		err := tx.QueryRowContext(ctx, "SELECT name FROM devices WHERE id = ?", x.Actor).Scan(&x.Name)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	head, prev, err := auditEnd(ctx, tx, "head")
	if err != nil {
		return err
	}
	x.ID = head + 1
	_, err = tx.ExecContext(ctx, "INSERT INTO audit(id, time, actor, name, address, what, about, detail, prev, hash) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		x.ID, x.Time, x.Actor, x.Name, x.Address, x.What, x.About, blob(x.Detail), prev, chained(x, prev))
	return err
}

// chainAudit takes the entries of a format before the chain over into it.
func chainAudit(ctx context.Context, tx *sql.Tx) error {
	old, err := collect(ctx, tx, func(r *sql.Rows) (x AuditEntry, err error) {
		err = r.Scan(&x.Time, &x.Actor, &x.What, (*[]byte)(&x.Detail))
		return x, err
	}, "SELECT time, actor, what, coalesce(detail, x'') FROM audit_unchained ORDER BY id")
	if err != nil {
		return err
	}
	for _, x := range old {
		if err := writeAudit(ctx, tx, x); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "DROP TABLE audit_unchained")
	return err
}

// pruneAudit forgets what comes before the first entry that is young enough, so
// that what is left stays in one piece.
func pruneAudit(tx *sql.Tx, before int64) error {
	ctx := context.Background()
	var last sql.Null[int64]
	if err := tx.QueryRowContext(ctx, `SELECT max(id) FROM audit
		WHERE id < coalesce((SELECT min(id) FROM audit WHERE time >= ?), 1 + (SELECT max(id) FROM audit))`, before).Scan(&last); err != nil || !last.Valid {
		return err
	}
	for _, query := range []string{
		"UPDATE audit_ends SET id = ?1, hash = (SELECT hash FROM audit WHERE id = ?1) WHERE which = 'pruned'",
		"DELETE FROM audit WHERE id <= ?1",
	} {
		if _, err := tx.ExecContext(ctx, query, last.V); err != nil {
			return err
		}
	}
	return nil
}

func auditEnd(ctx context.Context, db querier, which string) (id int64, hash []byte, err error) {
	err = db.QueryRowContext(ctx, "SELECT id, hash FROM audit_ends WHERE which = ?", which).Scan(&id, &hash)
	return id, hash, err
}

const selectAudit = "SELECT id, time, actor, name, address, what, about, detail, prev, hash FROM audit "

func scanAudit(r *sql.Rows) (x AuditEntry, err error) {
	var prev, hash []byte
	err = r.Scan(&x.ID, &x.Time, &x.Actor, &x.Name, &x.Address, &x.What, &x.About, (*[]byte)(&x.Detail), &prev, &hash)
	x.Prev, x.Hash = hex.EncodeToString(prev), hex.EncodeToString(hash)
	return x, err
}

func (s *sqlite) Audit(ctx context.Context, after int64) iter.Seq2[AuditEntry, error] {
	return paged(func(last *AuditEntry) ([]AuditEntry, bool, error) {
		from := after
		if last != nil {
			from = last.ID
		}
		rows, size := 0, 0
		return collectUntil(ctx, s.read, scanAudit, func(x AuditEntry) bool {
			rows++
			size += len(x.Detail)
			return rows == pageRows || size >= pageBytes
		}, selectAudit+"WHERE id > ? ORDER BY id LIMIT ?", from, pageRows)
	})
}

func (s *sqlite) AuditBefore(ctx context.Context, id int64, n int) ([]AuditEntry, error) {
	if id <= 0 {
		id = math.MaxInt64
	}
	size := 0
	xs, _, err := collectUntil(ctx, s.read, scanAudit, func(x AuditEntry) bool {
		size += len(x.Detail)
		return size >= pageBytes
	}, selectAudit+"WHERE id < ? ORDER BY id DESC LIMIT ?", id, n)
	return xs, err
}

func (s *sqlite) AuditAbout(ctx context.Context, about string) ([]AuditEntry, error) {
	return collect(ctx, s.read, scanAudit, selectAudit+"WHERE about = ? ORDER BY id", about)
}

func (s *sqlite) AuditFate(ctx context.Context, about string) (string, error) {
	whats, err := collect(ctx, s.read, func(r *sql.Rows) (what string, err error) { return what, r.Scan(&what) },
		"SELECT what FROM audit WHERE about = ? ORDER BY id DESC LIMIT 1", about)
	if len(whats) == 0 {
		return "", err
	}
	return whats[0], err
}

// WriteAudit writes entries as JSON, one a line.
func WriteAudit(w io.Writer, entries iter.Seq2[AuditEntry, error]) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false) // the detail as it was hashed
	for x, err := range entries {
		if err == nil {
			err = lines.Encode(x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// VerifyAudit looks where the chain ends before it walks, so that what is written
// meanwhile is no fault. What is forgotten meanwhile has it begin once more.
func (s *sqlite) VerifyAudit(ctx context.Context) (entries int, err error) {
	for {
		begin, prev, err := auditEnd(ctx, s.read, "pruned")
		if err != nil {
			return 0, err
		}
		entries, err = s.walkAudit(ctx, begin, prev)
		if !errors.Is(err, ErrChain) {
			return entries, err
		}
		if now, _, err2 := auditEnd(ctx, s.read, "pruned"); err2 != nil || now == begin {
			return entries, errors.Join(err, err2)
		}
	}
}

func (s *sqlite) walkAudit(ctx context.Context, last int64, prev []byte) (entries int, err error) {
	head, hash, err := auditEnd(ctx, s.read, "head")
	if err != nil {
		return 0, err
	}
	for x, err := range s.Audit(ctx, last) {
		if err != nil {
			return entries, err
		}
		want := chained(x, prev)
		switch {
		case x.ID != last+1:
			return entries, fmt.Errorf("%w: entry %d is missing", ErrChain, last+1)
		case x.Prev != hex.EncodeToString(prev), x.Hash != hex.EncodeToString(want):
			return entries, fmt.Errorf("%w: entry %d is not as it was written", ErrChain, x.ID)
		case x.ID == head && !bytes.Equal(want, hash):
			return entries, fmt.Errorf("%w: the end is not as it was written, at entry %d", ErrChain, x.ID)
		}
		prev, last, entries = want, x.ID, entries+1
	}
	if last < head {
		return entries, fmt.Errorf("%w: entry %d is missing", ErrChain, last+1)
	}
	return entries, nil
}
