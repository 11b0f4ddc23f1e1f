-- How many wait at a name: all behind the first that does not fit.
--
-- In:      :name, :now_us
-- Out:     one row: `waiters`
-- Touches: nothing
SELECT count(*) AS waiters
FROM (
  SELECT capacity, sum(weight) OVER (ORDER BY ticket ROWS UNBOUNDED PRECEDING) AS total
  FROM @claims
  WHERE name = :name AND deadline_us > :now_us
) AS line
WHERE total > capacity
