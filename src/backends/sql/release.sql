-- Ends a claim: a waiter leaves the queue, a holder gives the lock back, or an operator takes the claim away.
--
-- Name:    leave
-- Once:    if its answer is lost, it must not simply be asked again: it would answer that nothing was there to end
-- In:      name name: of the lock
--          id id: of the claim
--          ordinary integer: 1 if `ending` is 0
--          ending integer: 0 by its holder or waiter, 1 by a holder that has not worked under it, 2 by force
--          reason, by_whom text: why, and which operator, if by force; null if not told
--          floor bigint: no new ticket is below it
-- Out:     was_there integer: 1 if the claim was still there to be ended
-- Touches: resources, claims, forced

-- `draw` waits for a claim whose transaction has made the row and is not committed yet: it may be the claim to end.
-- include: lock
-- include: draw  unless locked
-- include: clock

-- section: release  when ordinary  counts was_there
-- Deletes the claim, unless it has expired or its minHold is not over yet. The usual release needs no other
-- statement. Holders stand in front, so a search for the claim in ticket order soon ends.
DELETE FROM @claims
WHERE
  name = :name
  AND ticket = (
    SELECT ticket
    FROM (SELECT ticket FROM @claims WHERE name = :name AND id = :id ORDER BY ticket LIMIT 1) AS mine
  )
  AND has_left = 0
  AND deadline_us > :now_us
  AND coalesce(granted_us + min_hold_us, 0) <= :now_us

-- section: seize  unless was_there  locks
-- Locks the claim, expired or not: so a renewal that began before the claim expired is waited for.
-- sets seized bigint: its ticket, or 0 if it is not there
SELECT coalesce((SELECT ticket FROM @claims WHERE name = :name AND id = :id ORDER BY ticket LIMIT 1 FOR UPDATE), 0) AS seized
FROM (SELECT 1 AS one) AS here

-- section: find  unless was_there
-- What is to be done about the claim.
-- sets ticket bigint: 0 if there is no such claim
-- sets victim_bell text: the channel of its process
-- sets was_there integer
-- sets removes integer: 1 if the claim is deleted now
-- sets stays integer: 1 if its minHold is not over
-- sets forced integer: 1 if it is taken away
SELECT
  ticket,
  victim_bell,
  was_there,
  CASE WHEN was_there = 1 AND is_early = 0 THEN 1 ELSE 0 END AS removes,
  CASE WHEN was_there = 1 AND is_early = 1 THEN 1 ELSE 0 END AS stays,
  CASE WHEN was_there = 1 AND :ending = 2 THEN 1 ELSE 0 END AS forced
FROM (
  SELECT
    coalesce(max(ticket), 0) AS ticket,
    coalesce(max(bell), '') AS victim_bell,
    CASE WHEN count(*) = 0 OR (max(has_left) = 1 AND :ending = 0) THEN 0 ELSE 1 END AS was_there,
    CASE WHEN :ending = 0 AND max(granted_us + min_hold_us) > :now_us THEN 1 ELSE 0 END AS is_early
  FROM @claims
  WHERE name = :name AND id = :id AND deadline_us > :now_us
) AS claim

-- section: remove  when removes
DELETE FROM @claims WHERE name = :name AND ticket = :ticket

-- section: stay-behind  when stays
-- A claim that was given back before its minHold is over counts as a holder until then.
UPDATE @claims SET has_left = 1, deadline_us = granted_us + min_hold_us WHERE name = :name AND ticket = :ticket

-- section: forget-forced  when forced
-- Deletes the reasons that are too old to be asked for. The id is named because a server may refuse to delete by
-- anything but a key.
DELETE FROM @forced WHERE id > '' AND until_us <= :now_us

-- section: remember-forced  when forced
-- Keeps why the claim was taken away, for a minute in which its process may ask.
INSERT INTO @forced (id, name, ticket, reason, by_whom, until_us)
VALUES (:id, :name, :ticket, :reason, :by_whom, :now_us + 60000000)
ON CONFLICT (id) DO UPDATE SET
  ticket = excluded.ticket,
  reason = excluded.reason,
  by_whom = excluded.by_whom,
  until_us = excluded.until_us

-- include: notify-released
