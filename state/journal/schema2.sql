-- From format 1, where a session was what it began as, to heads and snapshots.
ALTER TABLE sessions ADD COLUMN head BLOB NOT NULL DEFAULT x'7b7d'; -- {}: the hub loads the session to know more
ALTER TABLE sessions ADD COLUMN open INTEGER NOT NULL DEFAULT 1;

-- Two of a session at most: the first and the newest.
CREATE TABLE snapshots (
  session TEXT    NOT NULL REFERENCES sessions(uri),
  seq     INTEGER NOT NULL,
  data    BLOB    NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT;
INSERT INTO snapshots(session, seq, data) SELECT uri, 0, initial FROM sessions;
ALTER TABLE sessions DROP COLUMN initial;

-- The upstream events that are recorded already.
CREATE TABLE sources (
  session TEXT NOT NULL REFERENCES sessions(uri),
  epoch   TEXT NOT NULL,
  id      TEXT NOT NULL,
  seq     INTEGER NOT NULL, -- of the last event that came from it
  PRIMARY KEY (session, epoch, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX audit_time ON audit(time);

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- How a process of format 1 ended is not known: take it for a crash.
INSERT INTO meta(key, value) SELECT 'clean', NOT EXISTS (SELECT 1 FROM sessions);
