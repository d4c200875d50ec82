-- What a device may do, and when its person last proved to be there. A device of
-- format 3 could do everything.
ALTER TABLE devices ADD COLUMN scope TEXT NOT NULL DEFAULT 'operate';
ALTER TABLE devices ADD COLUMN granted TEXT NOT NULL DEFAULT '';
ALTER TABLE devices ADD COLUMN verified_at INTEGER NOT NULL DEFAULT 0;

CREATE TABLE passkeys (
  id         TEXT PRIMARY KEY,
  host       TEXT NOT NULL,
  name       TEXT NOT NULL,
  record     BLOB NOT NULL, -- of public keys
  created_at INTEGER NOT NULL,
  used_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The password's hash, and the name that passkeys know nod's owner by.
CREATE TABLE door (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
