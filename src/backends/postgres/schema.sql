-- The tables, revision 4.
--
-- In:      nothing
-- Out:     nothing
-- Touches: everything
--
-- Times are microseconds since 1970 by the server's clock, and so are tickets, or more. Names compare byte by
-- byte. A row of resources is rewritten by every claim: the space between them keeps that on the same page.

-- What is remembered of a name while it has no claims: its last ticket, so that tokens only grow. A transaction that
-- changes anything about a name locks its row first.
CREATE TABLE IF NOT EXISTS @resources (
  name text COLLATE "C" PRIMARY KEY,
  last_ticket bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- The queue of each name. Which claims are granted is not stored: it follows from ticket, weight and capacity.
CREATE TABLE IF NOT EXISTS @claims (
  name text COLLATE "C" NOT NULL,
  ticket bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  weight integer NOT NULL,
  capacity integer NOT NULL,
  fixed integer NOT NULL,
  min_hold_us bigint NOT NULL,
  came_us bigint NOT NULL,
  -- The last request that refreshed it.
  seen_us bigint NOT NULL,
  -- When it was granted, for people to see.
  granted_us bigint,
  deadline_us bigint NOT NULL,
  -- Released, but kept until its minHold is over.
  has_left integer NOT NULL,
  owner text NOT NULL,
  note text NOT NULL,
  -- The channel on which its process listens; empty if it cannot.
  bell text NOT NULL,
  PRIMARY KEY (name, ticket)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Claims that an operator took away, for as long as the victim may still ask why.
CREATE TABLE IF NOT EXISTS @forced (
  id text COLLATE "C" PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  ticket bigint NOT NULL,
  reason text NOT NULL,
  by_whom text,
  until_us bigint NOT NULL
);

-- Small values with a version.
CREATE TABLE IF NOT EXISTS @cells (
  name text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  body text NOT NULL,
  until_us bigint NOT NULL
);

-- The releases that have made their routines here. One whose revision is below the highest `breaking` must not
-- share the tables any more.
CREATE TABLE IF NOT EXISTS @revisions (
  revision integer PRIMARY KEY,
  breaking integer NOT NULL
);
