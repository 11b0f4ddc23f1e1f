-- What is to be done about a claim that ends: by its holder, because nobody has worked under it, or by force.
--
-- In:      :name, :id, :ending (0 by its holder, 1 unused, 2 by force), :now_us
-- Out:     one row: `ticket` (0 if there is no such claim) and `victim_bell`; `was_there`, whether it was still
--          there to be ended; `removes`, if it leaves now; `stays`, if its minHold is not over; `forced`
-- Touches: nothing
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
