-- The audit becomes a chain: each entry holds the hash of the one before, and
-- nothing changes one afterwards. Its entries so far are taken over by audit.go.
DROP INDEX audit_time;
ALTER TABLE audit RENAME TO audit_unchained;

CREATE TABLE audit (
  id      INTEGER PRIMARY KEY,
  time    INTEGER NOT NULL,
  actor   TEXT NOT NULL, -- id of a device, '' for nod itself
  name    TEXT NOT NULL, -- of the device, as it was then
  address TEXT NOT NULL,
  what    TEXT NOT NULL,
  about   TEXT NOT NULL, -- id of what it happened to
  detail  BLOB NOT NULL,
  prev    BLOB NOT NULL,
  hash    BLOB NOT NULL
) STRICT;
CREATE INDEX audit_time ON audit(time);
CREATE INDEX audit_about ON audit(about);

-- Where the chain begins and ends: the last entry that was forgotten, the last one
-- that was written.
CREATE TABLE audit_ends (
  which TEXT PRIMARY KEY CHECK (which IN ('pruned', 'head')),
  id    INTEGER NOT NULL,
  hash  BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO audit_ends(which, id, hash) VALUES('pruned', 0, zeroblob(32)), ('head', 0, zeroblob(32));

CREATE TRIGGER audit_insert BEFORE INSERT ON audit
  WHEN NEW.id <> (SELECT id + 1 FROM audit_ends WHERE which = 'head')
  BEGIN SELECT RAISE(ABORT, 'an audit entry comes after the last one'); END;
CREATE TRIGGER audit_inserted AFTER INSERT ON audit
  BEGIN UPDATE audit_ends SET id = NEW.id, hash = NEW.hash WHERE which = 'head'; END;
CREATE TRIGGER audit_update BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'an audit entry is never changed'); END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit
  WHEN OLD.id > (SELECT id FROM audit_ends WHERE which = 'pruned')
  BEGIN SELECT RAISE(ABORT, 'an audit entry is only forgotten by its age'); END;
