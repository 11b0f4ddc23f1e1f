-- What a claim gets at a name where nobody is: the lock, and nothing need be looked at or judged. One that was
-- there before is gone, and does not come back.
--
-- In:      :asked (the ticket of the last answer, or 0), :drawn, :ttl_us, :min_hold_us, :now_us, :wall_us
-- Out:     one row: `verdict` (granted, gone), `remaining_us`, and what `settle` tells
-- Touches: nothing
SELECT
  CASE WHEN :asked > 0 THEN 'gone' ELSE 'granted' END AS verdict,
  CASE WHEN :drawn < :wall_us - 1000000 THEN :wall_us ELSE :drawn END AS ticket,
  :now_us AS granted_us,
  :now_us + greatest(:ttl_us, :min_hold_us) AS deadline_us,
  CASE WHEN :asked > 0 THEN 0 ELSE 1 END AS enters,
  CASE WHEN :asked > 0 THEN 1 ELSE 0 END AS is_gone,
  CASE WHEN :drawn < :wall_us - 1000000 THEN 1 ELSE 0 END AS catches_up,
  greatest(:ttl_us, :min_hold_us) AS remaining_us
