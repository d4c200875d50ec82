package journal

import (
	"context"
	"database/sql"
	"encoding/json"
)

func (s *sqlite) PutShare(ctx context.Context, x Share) error {
	return s.exec(ctx, "INSERT INTO shares(id, token_hash, session, record, frozen, created_at, expires_at, ended_at, views, viewed_at) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		x.ID, x.TokenHash, x.Session, blob(x.Record), blob(x.Frozen), x.CreatedAt, x.ExpiresAt, x.EndedAt, x.Views, x.ViewedAt)
}

const selectShares = "SELECT id, token_hash, session, record, created_at, expires_at, ended_at, views, viewed_at FROM shares "

func scanShare(r *sql.Rows) (x Share, err error) {
	err = r.Scan(&x.ID, &x.TokenHash, &x.Session, (*[]byte)(&x.Record), &x.CreatedAt, &x.ExpiresAt, &x.EndedAt, &x.Views, &x.ViewedAt)
	return x, err
}

func (s *sqlite) Shares(ctx context.Context) ([]Share, error) {
	return collect(ctx, s.read, scanShare, selectShares+"ORDER BY created_at DESC, id")
}

func (s *sqlite) Share(ctx context.Context, id string) (Share, error) {
	return first(collect(ctx, s.read, scanShare, selectShares+"WHERE id = ?", id))
}

func (s *sqlite) Frozen(ctx context.Context, id string) (json.RawMessage, error) {
	return first(collect(ctx, s.read, func(r *sql.Rows) (raw json.RawMessage, err error) {
		err = r.Scan((*[]byte)(&raw))
		return raw, err
	}, "SELECT frozen FROM shares WHERE id = ?", id))
}

// first returns the one that was looked for.
func first[T any](found []T, err error) (x T, _ error) {
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return x, err
	}
	return found[0], nil
}

func (s *sqlite) ChangeShare(ctx context.Context, x Share) error {
	return s.one(ctx, "UPDATE shares SET record = ?, expires_at = ?, ended_at = ? WHERE id = ?", blob(x.Record), x.ExpiresAt, x.EndedAt, x.ID)
}

func (s *sqlite) EndShares(ctx context.Context, at int64) error {
	return s.exec(ctx, "UPDATE shares SET ended_at = ? WHERE ended_at = 0", at)
}

func (s *sqlite) ViewShare(ctx context.Context, id string, at int64) error {
	return s.one(ctx, "UPDATE shares SET views = views + 1, viewed_at = max(viewed_at, ?) WHERE id = ?", at, id)
}
