-- Sessions that a person has deleted, whose agents may have them still.
CREATE TABLE deleted (
  uri  TEXT PRIMARY KEY,
  time INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
