-- The table of the fence, for MySQL and MariaDB. Names are bytes: a collation would make "lamp" and "Lamp" one.
--
-- In:      nothing
-- Out:     nothing
-- Touches: locktender_fence
CREATE TABLE IF NOT EXISTS locktender_fence (
  name VARBINARY(255) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL,
  seen_at DATETIME(6) NOT NULL
) ENGINE = InnoDB;
