-- What a session began as; its events lead from there to now.
CREATE TABLE sessions (
  id      INTEGER PRIMARY KEY,
  uri     TEXT NOT NULL UNIQUE,
  initial BLOB NOT NULL
) STRICT;

CREATE TABLE events (
  session TEXT    NOT NULL REFERENCES sessions(uri),
  seq     INTEGER NOT NULL,
  time    INTEGER NOT NULL,
  channel TEXT    NOT NULL,
  action  BLOB    NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- Pending requests and what became of them. A row in state "decided" is also the
-- outbox: recorded, not yet sent.
CREATE TABLE approvals (
  id      TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL REFERENCES sessions(uri),
  state   TEXT NOT NULL,
  digest  TEXT NOT NULL,
  record  BLOB NOT NULL
) STRICT;
CREATE INDEX approvals_session ON approvals(session);

CREATE TABLE audit (
  id     INTEGER PRIMARY KEY,
  time   INTEGER NOT NULL,
  actor  TEXT NOT NULL,
  what   TEXT NOT NULL,
  detail BLOB
) STRICT;

-- Upstream messages that nobody understood, as they came.
CREATE TABLE opaque (
  id      INTEGER PRIMARY KEY,
  session TEXT NOT NULL,
  time    INTEGER NOT NULL,
  raw     BLOB NOT NULL
) STRICT;

-- Only hashes of tokens are here: a copy of this file lets nobody in.
CREATE TABLE logins (
  hash    TEXT PRIMARY KEY,
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE devices (
  id         TEXT PRIMARY KEY,
  token_hash TEXT NOT NULL UNIQUE,
  name       TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
