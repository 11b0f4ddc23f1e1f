-- Where the line between holders and waiters runs at each of some names: the rule, on the server. The window
-- ends at the first claim that does not fit, so a long queue behind it costs nothing.
--
-- In:      :names (a JSON array), :nowUs
-- Out:     one row per name: `name`; `first_waiting`, the lowest ticket that is not granted (null if all are);
--          `left_until`, when the first claim goes that was released before its minHold was over
-- Touches: nothing
SELECT
  names.value AS name,
  (
    SELECT ticket
    FROM (
      SELECT ticket, capacity, sum(weight) OVER (ORDER BY ticket ROWS UNBOUNDED PRECEDING) AS load
      FROM claims
      WHERE name = names.value AND deadline_us > :nowUs
    )
    WHERE load > capacity
    LIMIT 1
  ) AS first_waiting,
  (
    SELECT min(deadline_us) FROM claims WHERE name = names.value AND has_left AND deadline_us > :nowUs
  ) AS left_until
FROM json_each(:names) AS names
