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
	// Most of what is wrong is not written to find out.
	there, err := collect(ctx, s.read, func(r *sql.Rows) (n int, err error) { return n, r.Scan(&n) }, "SELECT 1 FROM logins WHERE hash = ?", hash)
	if err == nil && len(there) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return err
	}
	if err := s.one(ctx, "DELETE FROM logins WHERE hash = ? AND expires > ?", hash, now); err != nil {
		return err
	}
	return s.exec(ctx, "DELETE FROM logins WHERE expires <= ?", now)
}

func (s *sqlite) PutDevice(ctx context.Context, d Device) error {
	return s.exec(ctx, "INSERT INTO devices(id, token_hash, name, scope, granted, created_at, seen_at, verified_at) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
		d.ID, d.TokenHash, d.Name, d.Scope, d.Granted, d.CreatedAt, d.SeenAt, d.VerifiedAt)
}

const selectDevices = "SELECT id, token_hash, name, scope, granted, created_at, seen_at, verified_at FROM devices "

func scanDevice(r *sql.Rows) (d Device, err error) {
	err = r.Scan(&d.ID, &d.TokenHash, &d.Name, &d.Scope, &d.Granted, &d.CreatedAt, &d.SeenAt, &d.VerifiedAt)
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

func (s *sqlite) VerifyDevice(ctx context.Context, id string, at int64) error {
	return s.one(ctx, "UPDATE devices SET verified_at = ? WHERE id = ?", at, id)
}

func (s *sqlite) RenameDevice(ctx context.Context, id, name string) error {
	return s.one(ctx, "UPDATE devices SET name = ? WHERE id = ?", name, id)
}

func (s *sqlite) GrantDevice(ctx context.Context, id, scope string, now bool) error {
	return s.one(ctx, "UPDATE devices SET granted = ?1, scope = iif(?2, ?1, scope) WHERE id = ?3", scope, now, id)
}

func (s *sqlite) RenewDevice(ctx context.Context, id, tokenHash, newHash string) error {
	return s.one(ctx, "UPDATE devices SET token_hash = ?, scope = granted, granted = '' WHERE id = ? AND token_hash = ? AND granted <> ''", newHash, id, tokenHash)
}

func (s *sqlite) DeleteDevice(ctx context.Context, id string) error {
	return s.one(ctx, "DELETE FROM devices WHERE id = ?", id)
}

func (s *sqlite) PutPasskey(ctx context.Context, k Passkey) error {
	return s.exec(ctx, "INSERT INTO passkeys(id, host, name, record, created_at, used_at) VALUES(?, ?, ?, ?, ?, ?) "+
		"ON CONFLICT(id) DO UPDATE SET name = excluded.name, record = excluded.record, used_at = excluded.used_at",
		k.ID, k.Host, k.Name, blob(k.Record), k.CreatedAt, k.UsedAt)
}

func (s *sqlite) Passkeys(ctx context.Context) ([]Passkey, error) {
	return collect(ctx, s.read, func(r *sql.Rows) (k Passkey, err error) {
		err = r.Scan(&k.ID, &k.Host, &k.Name, (*[]byte)(&k.Record), &k.CreatedAt, &k.UsedAt)
		return k, err
	}, "SELECT id, host, name, record, created_at, used_at FROM passkeys ORDER BY created_at, id")
}

func (s *sqlite) DeletePasskey(ctx context.Context, id string) error {
	return s.one(ctx, "DELETE FROM passkeys WHERE id = ?", id)
}

func (s *sqlite) PutDoor(ctx context.Context, key, value string) error {
	if value == "" {
		return s.exec(ctx, "DELETE FROM door WHERE key = ?", key)
	}
	return s.exec(ctx, "INSERT INTO door(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value", key, value)
}

func (s *sqlite) Door(ctx context.Context, key string) (string, error) {
	values, err := collect(ctx, s.read, func(r *sql.Rows) (v string, err error) { return v, r.Scan(&v) }, "SELECT value FROM door WHERE key = ?", key)
	if len(values) == 0 {
		return "", err
	}
	return values[0], err
}
