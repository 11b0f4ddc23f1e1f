-- The tables of a lock file, version 2. Run inside the transaction that found the file empty.
--
-- In:      nothing
-- Out:     nothing
-- Touches: everything
--
-- Times are microseconds of the machine's monotonic clock, which all processes of one boot share; tickets
-- are microseconds of the wall clock, or more. The text columns compare byte by byte.

-- Which boot of the machine the times below belong to: one row.
CREATE TABLE machine (boot TEXT NOT NULL) STRICT;

-- What is remembered of a name while it has no claims: its last ticket, so that tokens only grow.
CREATE TABLE resources (
  name TEXT PRIMARY KEY,
  last_ticket INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The queue of each name. Which claims are granted is not stored: it follows from ticket, weight and capacity.
CREATE TABLE claims (
  name TEXT NOT NULL,
  ticket INTEGER NOT NULL,
  id TEXT NOT NULL,
  weight INTEGER NOT NULL,
  capacity INTEGER NOT NULL,
  fixed INTEGER NOT NULL,
  min_hold_us INTEGER NOT NULL,
  came_us INTEGER NOT NULL,
  -- The last request that refreshed it: later than now means that the machine has booted since.
  seen_us INTEGER NOT NULL,
  -- The first granted answer.
  granted_us INTEGER,
  deadline_us INTEGER NOT NULL,
  -- Released, but kept until its minHold is over.
  has_left INTEGER NOT NULL,
  owner TEXT NOT NULL,
  note TEXT NOT NULL,
  -- Always empty: no process can be notified.
  bell TEXT NOT NULL,
  PRIMARY KEY (name, ticket)
) STRICT, WITHOUT ROWID;

-- Claims that an operator took away, for as long as the victim may still ask why.
CREATE TABLE forced (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  ticket INTEGER NOT NULL,
  reason TEXT NOT NULL,
  by_whom TEXT,
  until_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Small values with a version. Their times are those of the wall clock: they outlive the boot.
CREATE TABLE cells (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  body TEXT NOT NULL,
  until_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- "LKTD": tells a lock file from the database of another program.
PRAGMA application_id = 1280005188;
PRAGMA user_version = 2;
