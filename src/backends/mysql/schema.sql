-- The tables, revision 4.
--
-- In:      nothing
-- Out:     nothing
-- Touches: everything
--
-- Times are microseconds since 1970 in UTC by the server's clock, and so are tickets, or more. Names are bytes:
-- a collation would make "order", "Order" and "order " one name.

-- What is remembered of a name while it has no claims: its last ticket, so that tokens only grow. A transaction that
-- changes anything about a name locks its row first.
CREATE TABLE IF NOT EXISTS @resources (
  name VARBINARY(255) NOT NULL PRIMARY KEY,
  last_ticket BIGINT NOT NULL
) ENGINE = InnoDB;

-- The queue of each name. Which claims are granted is not stored: it follows from ticket, weight and capacity.
CREATE TABLE IF NOT EXISTS @claims (
  name VARBINARY(255) NOT NULL,
  ticket BIGINT NOT NULL,
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  weight INT NOT NULL,
  capacity INT NOT NULL,
  fixed INT NOT NULL,
  min_hold_us BIGINT NOT NULL,
  came_us BIGINT NOT NULL,
  -- The last request that refreshed it.
  seen_us BIGINT NOT NULL,
  -- When it was granted, for people to see.
  granted_us BIGINT,
  deadline_us BIGINT NOT NULL,
  -- Released, but kept until its minHold is over.
  has_left INT NOT NULL,
  owner TEXT CHARACTER SET utf8mb4 NOT NULL,
  note TEXT CHARACTER SET utf8mb4 NOT NULL,
  -- For databases that can notify; always empty here.
  bell VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (name, ticket)
) ENGINE = InnoDB;

-- Claims that an operator took away, for as long as the victim may still ask why.
CREATE TABLE IF NOT EXISTS @forced (
  id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name VARBINARY(255) NOT NULL,
  ticket BIGINT NOT NULL,
  reason TEXT CHARACTER SET utf8mb4 NOT NULL,
  by_whom TEXT CHARACTER SET utf8mb4,
  until_us BIGINT NOT NULL,
  PRIMARY KEY (id)
) ENGINE = InnoDB;

-- Small values with a version.
CREATE TABLE IF NOT EXISTS @cells (
  name VARBINARY(255) NOT NULL,
  version BIGINT NOT NULL,
  body MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
  until_us BIGINT NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- The releases that have made their routines here. One whose revision is below the highest `breaking` must not
-- share the tables any more.
CREATE TABLE IF NOT EXISTS @revisions (
  revision INT NOT NULL PRIMARY KEY,
  breaking INT NOT NULL
) ENGINE = InnoDB;
