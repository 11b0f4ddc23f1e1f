-- How a claim stands that has just been renewed.
--
-- In:      :name, :id, :ticket, :first_waiting, :soonest_us, :now_us
-- Out:     one row: `verdict` (held, waiting, gone), `remaining_us`, `change_us`, `is_gone`
-- Touches: nothing
SELECT
  CASE
    WHEN max(deadline_us) IS NULL THEN 'gone'
    WHEN max(ticket) < :first_waiting THEN 'held'
    ELSE 'waiting'
  END AS verdict,
  coalesce(max(deadline_us), 0) - :now_us AS remaining_us,
  :soonest_us - :now_us AS change_us,
  CASE WHEN max(deadline_us) IS NULL THEN 1 ELSE 0 END AS is_gone
FROM @claims
WHERE name = :name AND ticket = :ticket AND id = :id AND has_left = 0 AND deadline_us > :now_us
