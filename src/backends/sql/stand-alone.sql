-- How a claim stands that has just been renewed, looked at by itself. Of many at one name, `line` and `stand`
-- look together.
--
-- In:      :name, :id, :ticket, :now_us
-- Out:     one row: `verdict` (held, waiting, gone), `remaining_us`, `change_us`, `is_gone`
-- Touches: nothing
SELECT
  CASE
    WHEN max(own.deadline_us) IS NULL THEN 'gone'
    WHEN sum(CASE WHEN other.ticket <= own.ticket THEN other.weight ELSE 0 END) <= max(own.capacity) THEN 'held'
    ELSE 'waiting'
  END AS verdict,
  coalesce(max(own.deadline_us), 0) - :now_us AS remaining_us,
  coalesce(min(other.deadline_us), 0) - :now_us AS change_us,
  CASE WHEN max(own.deadline_us) IS NULL THEN 1 ELSE 0 END AS is_gone
FROM @claims AS own
INNER JOIN @claims AS other ON other.name = :name AND other.deadline_us > :now_us
WHERE
  own.name = :name
  AND own.ticket = :ticket
  AND own.id = :id
  AND own.has_left = 0
  AND own.deadline_us > :now_us
