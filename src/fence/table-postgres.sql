-- The table of the fence, for PostgreSQL.
--
-- In:      nothing
-- Out:     nothing
-- Touches: locktender_fence
CREATE TABLE IF NOT EXISTS locktender_fence (
  name text COLLATE "C" PRIMARY KEY,
  token bigint NOT NULL,
  seen_at timestamptz NOT NULL
);
