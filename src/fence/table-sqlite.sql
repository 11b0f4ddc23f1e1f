-- The table of the fence, for SQLite. Names are bytes, whatever the encoding of the file.
--
-- In:      nothing
-- Out:     nothing
-- Touches: locktender_fence
CREATE TABLE IF NOT EXISTS locktender_fence (
  name BLOB NOT NULL PRIMARY KEY,
  token INTEGER NOT NULL,
  seen_at TEXT NOT NULL
) WITHOUT ROWID;
