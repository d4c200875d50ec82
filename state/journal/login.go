package journal

import (
	"context"
	"database/sql"
	"encoding/json"
)

func (s *sqlite) Opaque(ctx context.Context, session string, at int64, raw json.RawMessage) error {
	return s.exec(ctx, "INSERT INTO opaque(session, time, raw) VALUES(?, ?, ?)", session, at, blob(raw))
}

func (s *sqlite) PutLogin(ctx context.Context, hash string, expires int64) error {
	return s.exec(ctx, "INSERT INTO logins(hash, expires) VALUES(?, ?)", hash, expires)
}

func (s *sqlite) TakeLogin(ctx context.Context, hash string, now int64) error {
	if err := s.one(ctx, "DELETE FROM logins WHERE hash = ? AND expires > ?", hash, now); err != nil {
		return err
	}
	return s.exec(ctx, "DELETE FROM logins WHERE expires <= ?", now)
}

func (s *sqlite) PutDevice(ctx context.Context, d Device) error {
	return s.exec(ctx, "INSERT INTO devices(id, token_hash, name, created_at, seen_at) VALUES(?, ?, ?, ?, ?)",
		d.ID, d.TokenHash, d.Name, d.CreatedAt, d.SeenAt)
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
