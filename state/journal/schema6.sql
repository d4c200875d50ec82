-- What guests may see, and by which token they are let in.
CREATE TABLE shares (
  id         TEXT PRIMARY KEY, -- public, in addresses
  token_hash TEXT NOT NULL UNIQUE,
  session    TEXT NOT NULL REFERENCES sessions(uri),
  record     BLOB NOT NULL,
  frozen     BLOB NOT NULL, -- the picture of one that stands still; empty of a live one
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL, -- 0 while it may be looked at
  views      INTEGER NOT NULL,
  viewed_at  INTEGER NOT NULL  -- 0 for never
) STRICT, WITHOUT ROWID;
CREATE INDEX shares_session ON shares(session);
