-- How much time is left, to be told.
--
-- In:      :deadline_us, :soonest_us, :now_us
-- Out:     one row: `remaining_us`; `change_us`, until the first claim of the name runs out
-- Touches: nothing
SELECT :deadline_us - :now_us AS remaining_us, least(:soonest_us, :deadline_us) - :now_us AS change_us
