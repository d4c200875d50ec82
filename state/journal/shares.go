package journal

import (
	"context"
	"database/sql"
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
	found, err := collect(ctx, s.read, func(r *sql.Rows) (x Share, err error) {
		err = r.Scan(&x.ID, &x.TokenHash, &x.Session, (*[]byte)(&x.Record), (*[]byte)(&x.Frozen), &x.CreatedAt, &x.ExpiresAt, &x.EndedAt, &x.Views, &x.ViewedAt)
		return x, err
	}, "SELECT id, token_hash, session, record, frozen, created_at, expires_at, ended_at, views, viewed_at FROM shares WHERE id = ?", id)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Share{}, err
	}
	return found[0], nil
}

func (s *sqlite) ChangeShare(ctx context.Context, x Share) error {
	return s.one(ctx, "UPDATE shares SET record = ?, expires_at = ?, ended_at = ? WHERE id = ?", blob(x.Record), x.ExpiresAt, x.EndedAt, x.ID)
}

func (s *sqlite) ViewShare(ctx context.Context, id string, at int64) error {
	return s.one(ctx, "UPDATE shares SET views = views + 1, viewed_at = max(viewed_at, ?) WHERE id = ?", at, id)
}
