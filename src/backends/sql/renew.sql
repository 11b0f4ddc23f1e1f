-- Extends many claims. Locks rows of claims only, in the order of the list, which is that of names and tickets, as
-- all other operations do at one name: so there is no deadlock.
--
-- In:      list text: a JSON array of claims, as told below
-- Out:     verdict text: held, waiting or gone; one row per claim
--          remaining_us bigint: until the claim expires
--          change_us bigint: until the first claim of the name expires
--          wanted integer: 1 if the claim is sticky, and there are others of its name
--          reason, by_whom text: if the claim was taken away
-- Touches: claims

-- include: clock

-- each: element of `list`
-- has name name: of the lock
-- has id id: of the claim
-- has ticket, ttl_us bigint
-- has is_alone integer: 1 if the list has no other claim of this name
-- has is_first integer: 1 if it is the first of several claims of this name

-- section: extend
-- Keeps a live claim for longer. A fixed one is not extended after its grant.
UPDATE @claims
SET
  seen_us = :now_us,
  deadline_us = CASE
    WHEN fixed = 1 AND granted_us IS NOT NULL THEN deadline_us
    ELSE greatest(deadline_us, :now_us + :ttl_us)
  END
WHERE name = :name AND ticket = :ticket AND id = :id AND has_left = 0 AND deadline_us > :now_us

-- section: stand-alone  when is_alone
-- Whether the claim is granted, looked at by itself. For several claims of one name, `boundary` and `stand` look at
-- the queue once.
-- sets verdict text
-- sets remaining_us, change_us bigint
-- sets is_gone integer
-- sets wanted integer: sticky is a field of the object in `owner`; the underscore stands for the colon
SELECT
  CASE
    WHEN max(own.deadline_us) IS NULL THEN 'gone'
    WHEN sum(CASE WHEN other.ticket <= own.ticket THEN other.weight ELSE 0 END) <= max(own.capacity) THEN 'held'
    ELSE 'waiting'
  END AS verdict,
  coalesce(max(own.deadline_us), 0) - :now_us AS remaining_us,
  coalesce(min(other.deadline_us), 0) - :now_us AS change_us,
  CASE WHEN max(own.deadline_us) IS NULL THEN 1 ELSE 0 END AS is_gone,
  CASE
    WHEN count(*) > 1
      THEN max(CASE WHEN other.ticket = own.ticket AND own.owner LIKE '%"sticky"_true%' THEN 1 ELSE 0 END)
    ELSE 0
  END AS wanted
FROM @claims AS own
INNER JOIN @claims AS other ON other.name = :name AND other.deadline_us > :now_us
WHERE
  own.name = :name
  AND own.ticket = :ticket
  AND own.id = :id
  AND own.has_left = 0
  AND own.deadline_us > :now_us

-- section: boundary  when is_first
-- Where the waiters of the name begin.
-- sets first_waiting bigint: the lowest ticket that is not granted, or a number beyond all tickets
-- sets soonest_us bigint: when the first of the claims expires
-- sets number integer: how many there are
SELECT
  coalesce(min(CASE WHEN total > capacity THEN ticket END), 9007199254740991) AS first_waiting,
  coalesce(min(deadline_us), 0) AS soonest_us,
  count(*) AS number
FROM (
  SELECT ticket, capacity, deadline_us, sum(weight) OVER (ORDER BY ticket ROWS UNBOUNDED PRECEDING) AS total
  FROM @claims
  WHERE name = :name AND deadline_us > :now_us
) AS line

-- section: stand  unless is_alone
-- Whether the claim is granted, by the boundary that was found for the first claim of its name.
-- sets verdict text
-- sets remaining_us, change_us bigint
-- sets is_gone, wanted integer
SELECT
  CASE
    WHEN max(deadline_us) IS NULL THEN 'gone'
    WHEN max(ticket) < :first_waiting THEN 'held'
    ELSE 'waiting'
  END AS verdict,
  coalesce(max(deadline_us), 0) - :now_us AS remaining_us,
  :soonest_us - :now_us AS change_us,
  CASE WHEN max(deadline_us) IS NULL THEN 1 ELSE 0 END AS is_gone,
  CASE WHEN :number > 1 THEN coalesce(max(CASE WHEN owner LIKE '%"sticky"_true%' THEN 1 ELSE 0 END), 0) ELSE 0 END AS wanted
FROM @claims
WHERE name = :name AND ticket = :ticket AND id = :id AND has_left = 0 AND deadline_us > :now_us

-- include: why  when is_gone
