-- Enters the queue of a name, or refreshes the claim that is in it already, and answers whether it is granted.
--
-- In:      name name: of the lock
--          id id: of the claim
--          asked bigint: the ticket of the last answer, or 0
--          weight, capacity integer
--          ttl_us bigint
--          fixed integer: 1 if the ttl counts once, from the grant
--          min_hold_us bigint
--          queue integer: 0 if the claim must not wait
--          capped integer: 1 if `max_waiters` counts
--          max_waiters integer
--          owner text: what is shown about the claim, a JSON object
--          note text: the JSON text ""; the note of a claim of an earlier release
--          bell text: the channel on which its process is notified; empty if there is none
--          floor bigint: no new ticket is below it
-- Out:     verdict text: granted, waiting, refused, queue-full, capacity-mismatch or gone
--          ticket bigint
--          remaining_us bigint: until the claim expires
--          change_us bigint: until the first claim of the name expires
--          live_capacity integer: of the claims that are there
--          waiters integer: how many claims wait, if `capped`
--          reason, by_whom text: if the claim was taken away
--          enters integer: 1 if the claim is new in the queue
-- Touches: resources, claims

-- include: advance
-- include: draw  unless advanced
-- include: clock

-- section: occupied
-- Whether the name has claims: mostly it has none, and then nothing else need be looked at.
-- sets drawn bigint: the ticket that was just drawn
-- sets occupied integer: 1 if there are claims, else 0
SELECT
  last_ticket AS drawn,
  (SELECT count(*) FROM (SELECT 1 AS one FROM @claims WHERE name = :name LIMIT 1) AS any_claim) AS occupied
FROM @resources
WHERE name = :name

-- section: alone  unless occupied
-- At a name without claims a new claim is granted, and nothing need be looked at or judged. A claim that was there
-- before is gone, and does not come back. The variables are those of `judge`, `settle` and `tell`.
-- sets verdict text: granted or gone
-- sets ticket, granted_us, deadline_us bigint
-- sets enters, is_gone, catches_up integer
-- sets remaining_us bigint
SELECT
  CASE WHEN :asked > 0 THEN 'gone' ELSE 'granted' END AS verdict,
  CASE WHEN :drawn < :wall_us - 1000000 THEN :wall_us ELSE :drawn END AS ticket,
  :now_us AS granted_us,
  :now_us + greatest(:ttl_us, :min_hold_us) AS deadline_us,
  CASE WHEN :asked > 0 THEN 0 ELSE 1 END AS enters,
  CASE WHEN :asked > 0 THEN 1 ELSE 0 END AS is_gone,
  CASE WHEN :drawn < :wall_us - 1000000 THEN 1 ELSE 0 END AS catches_up,
  greatest(:ttl_us, :min_hold_us) AS remaining_us

-- section: look  when occupied
-- What the claim needs to know about a name that has claims: itself, if it is there already, and the others. An
-- expired claim does not count; but nothing may follow from that before it was dropped, since it may be renewed at
-- this very moment. The claim itself is looked for once, and not beside each of the others: a queue may be long.
-- sets mine bigint: the ticket of the claim; 0 if it is not there
-- sets own_weight, own_capacity, own_fixed integer
-- sets own_min_hold_us bigint
-- sets own_granted_us bigint: null if it has not been granted yet
-- sets own_deadline_us bigint
-- sets has_left integer: 1 if it was released, and stays until its minHold is over
-- sets ahead bigint: the weight of the claims ahead of it, or of all claims if it is new
-- sets live_capacity integer: the capacity of the claims that are there
-- sets soonest_us bigint: when the first of the other claims expires
-- sets expired integer: how many claims have expired
SELECT
  coalesce(max(own.ticket), 0) AS mine,
  coalesce(max(own.weight), 0) AS own_weight,
  coalesce(max(own.capacity), 0) AS own_capacity,
  coalesce(max(own.fixed), 0) AS own_fixed,
  coalesce(max(own.min_hold_us), :min_hold_us) AS own_min_hold_us,
  max(own.granted_us) AS own_granted_us,
  coalesce(max(own.deadline_us), 0) AS own_deadline_us,
  coalesce(max(own.has_left), 0) AS has_left,
  coalesce(
    sum(
      CASE
        WHEN other.deadline_us > :now_us AND other.ticket < coalesce(own.ticket, 9007199254740991)
        THEN other.weight
      END
    ),
    0
  ) AS ahead,
  max(CASE WHEN other.deadline_us > :now_us THEN other.capacity END) AS live_capacity,
  coalesce(
    min(CASE WHEN other.deadline_us > :now_us AND other.id <> :id THEN other.deadline_us END),
    9007199254740991
  ) AS soonest_us,
  sum(CASE WHEN other.deadline_us <= :now_us THEN 1 ELSE 0 END) AS expired
FROM (SELECT 1 AS one) AS here
LEFT JOIN @claims AS own ON own.name = :name AND own.id = :id AND own.deadline_us > :now_us
LEFT JOIN @claims AS other ON other.name = :name

-- `drop-expired` waits for a renewal that is under way, and leaves the renewed claim: so only what is gone after it
-- does not count any more, and the claim looks again.
-- include: drop-expired  when expired
-- include: look  when expired

-- section: count-waiters  when capped
-- How many claims wait at the name: all behind the first that does not fit.
-- sets waiters integer
SELECT count(*) AS waiters
FROM (
  SELECT capacity, sum(weight) OVER (ORDER BY ticket ROWS UNBOUNDED PRECEDING) AS total
  FROM @claims
  WHERE name = :name AND deadline_us > :now_us
) AS line
WHERE total > capacity

-- section: judge  when occupied
-- The rule: a claim is granted if and only if the weights of the claims ahead of it, plus its own, fit the capacity.
-- All claims are ahead of a new one.
-- sets verdict text
SELECT
  CASE
    WHEN :mine = 0 AND :asked > 0 THEN 'gone'
    WHEN :mine = 0 AND :live_capacity <> :capacity THEN 'capacity-mismatch'
    WHEN :mine = 0 AND :ahead + :weight <= :capacity THEN 'granted'
    WHEN :mine = 0 AND :queue = 0 THEN 'refused'
    WHEN :mine = 0 AND :capped = 1 AND :waiters >= :max_waiters THEN 'queue-full'
    WHEN :mine = 0 THEN 'waiting'
    WHEN :has_left = 1 OR (:asked > 0 AND :asked <> :mine) THEN 'gone'
    WHEN :ahead + :own_weight <= :own_capacity THEN 'granted'
    ELSE 'waiting'
  END AS verdict

-- section: settle  when occupied
-- What follows from the verdict for the claim itself. A fixed time counts once, from the grant; so does minHold. A
-- ticket that was drawn long ago, because the transaction had to wait for the row, is raised to the wall clock: the
-- name may have been forgotten meanwhile.
-- sets ticket, granted_us, deadline_us bigint: of the claim from now on
-- sets enters integer: 1 if it is new and has to be written
-- sets stays integer: 1 if it is there and has to be written
-- sets is_gone integer
-- sets catches_up integer: 1 if the last ticket of the name has to follow the ticket of the claim
SELECT
  CASE
    WHEN :mine > 0 THEN :mine
    WHEN :drawn < :wall_us - 1000000 THEN :wall_us
    ELSE :drawn
  END AS ticket,
  CASE WHEN :verdict = 'granted' THEN coalesce(:own_granted_us, :now_us) ELSE :own_granted_us END AS granted_us,
  greatest(
    :own_deadline_us,
    CASE
      WHEN :verdict <> 'granted' THEN :now_us + :ttl_us
      WHEN :own_granted_us IS NULL THEN :now_us + greatest(:ttl_us, :own_min_hold_us)
      WHEN :own_fixed = 1 THEN 0
      ELSE :now_us + :ttl_us
    END
  ) AS deadline_us,
  CASE WHEN :mine = 0 AND :verdict IN ('granted', 'waiting') THEN 1 ELSE 0 END AS enters,
  CASE WHEN :mine > 0 AND :verdict IN ('granted', 'waiting') THEN 1 ELSE 0 END AS stays,
  CASE WHEN :verdict = 'gone' THEN 1 ELSE 0 END AS is_gone,
  CASE WHEN :mine = 0 AND :drawn < :wall_us - 1000000 THEN 1 ELSE 0 END AS catches_up

-- section: tell  when occupied
-- How much time is left, for the answer.
-- sets remaining_us, change_us bigint
SELECT
  :deadline_us - :now_us AS remaining_us,
  least(:soonest_us, :deadline_us) - :now_us AS change_us

-- section: catch-up  when catches_up
-- Raises the last ticket of the name to the ticket that is used.
UPDATE @resources SET last_ticket = :ticket WHERE name = :name

-- section: enter  when enters
-- Puts a new claim at the end of the queue. `granted_us` is null if it has to wait.
INSERT INTO @claims (
  name, ticket, id, weight, capacity, fixed, min_hold_us, came_us, seen_us, granted_us, deadline_us, has_left,
  owner, note, bell
)
VALUES (
  :name, :ticket, :id, :weight, :capacity, :fixed, :min_hold_us, :now_us, :now_us, :granted_us, :deadline_us, 0,
  :owner, :note, :bell
)

-- section: refresh  when stays
-- A claim that asks again is kept longer, and shows its present note and owner. A renewal may have been committed
-- since `look`: what it has promised is never cut short.
UPDATE @claims
SET
  seen_us = :now_us,
  granted_us = :granted_us,
  deadline_us = greatest(deadline_us, :deadline_us),
  owner = :owner,
  note = :note,
  bell = :bell
WHERE name = :name AND ticket = :ticket

-- include: why  when is_gone
-- include: notify-if-removed
-- include: tell-sticky-holder  when occupied
