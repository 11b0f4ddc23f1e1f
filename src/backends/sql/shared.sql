-- The sections that several operations include by name. The rules of these files stand in scripts/sql-routines.mjs.
--
-- In:      the variables that the statement of a section names, as `:name`
-- Out:     the variables that the section sets or counts
-- Touches: the tables that its statement changes

-- section: advance  counts advanced
-- Locks the row of a name that is known, and draws the next ticket as `draw` does. `advanced` is 0 if the name is
-- not known. For a known name, which is the usual case, it costs less than `draw`.
UPDATE @resources
SET last_ticket = greatest(last_ticket + 1, @wall, CASE WHEN :floor <= @wall + 3600000000 THEN :floor ELSE 0 END)
WHERE name = :name

-- section: draw
-- Locks the row of a name, and makes it if it is missing: the rest of the transaction is alone with the name. Draws
-- the next ticket at the same time: greater than every ticket before it, and never behind the wall clock, so that
-- tickets keep growing after the name was forgotten. A ticket that is not used is no loss. Nor is it below the floor
-- that the process sends, unless the floor is more than an hour ahead of the clock: after a failover to a server
-- whose clock is behind, tickets go on growing all the same.
INSERT INTO @resources (name, last_ticket)
VALUES (:name, greatest(@wall, CASE WHEN :floor <= @wall + 3600000000 THEN :floor ELSE 0 END))
ON CONFLICT (name) DO UPDATE SET last_ticket = greatest(@resources.last_ticket + 1, excluded.last_ticket)

-- section: lock  locks
-- Locks the row of a name, if it is there.
-- sets locked integer: 0 if the row is missing
SELECT coalesce((SELECT 1 FROM @resources WHERE name = :name FOR UPDATE), 0) AS locked
FROM (SELECT 1 AS one) AS here

-- section: clock
-- Reads the clock of the server, after the locks that the transaction had to wait for. Each engine writes it.
-- sets now_us bigint: the time that decides expiry
-- sets wall_us bigint: the wall clock, which only keeps tickets growing; the same, except on SQLite

-- section: drop-expired  counts removed
-- Deletes the expired claims of a name: an expired claim never comes back, because from here on it is not there. A
-- claim whose renewal is under way is locked: the statement waits for that renewal, and then leaves the claim.
DELETE FROM @claims WHERE name = :name AND deadline_us <= :now_us

-- section: why
-- Why a claim is gone, if an operator took it away.
-- sets reason text: null if the claim was not taken away
-- sets by_whom text
SELECT reason, by_whom FROM @forced WHERE id = :id AND until_us > :now_us

-- section: notify
-- Notifies the waiters whose claims are granted by now. Each engine writes it; it is empty where the server cannot
-- notify, and the waiters poll.

-- section: notify-if-removed
-- The same, if `drop-expired` has removed a claim: only then a claim behind it can be granted.

-- section: notify-released
-- The same, after a release; and the process whose claim was taken away is notified, too.

-- section: tell-sticky-holder
-- A new claim that is not granted tells the holder, if it is sticky and no other claim waits. Each engine writes it; it
-- is empty where the server cannot notify, and no claim is sticky.
