-- Where the line between holders and waiters runs at a name.
--
-- In:      :name, :now_us
-- Out:     one row: `first_waiting`, the lowest ticket that is not granted, or a number beyond all tickets;
--          `soonest_us`, when the first of the claims runs out
-- Touches: nothing
SELECT
  coalesce(min(CASE WHEN total > capacity THEN ticket END), 9007199254740991) AS first_waiting,
  coalesce(min(deadline_us), 0) AS soonest_us
FROM (
  SELECT ticket, capacity, deadline_us, sum(weight) OVER (ORDER BY ticket ROWS UNBOUNDED PRECEDING) AS total
  FROM @claims
  WHERE name = :name AND deadline_us > :now_us
) AS line
