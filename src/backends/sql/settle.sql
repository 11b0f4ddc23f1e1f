-- What follows from the verdict for the claim itself. A fixed time counts once, from the grant; so does the time
-- for which nobody else may come in. A ticket that was drawn long ago, because the row had to be waited for, is
-- raised to the wall clock: the name may have been forgotten meanwhile.
--
-- In:      what `look` has found; :verdict, :ttl_us, :now_us, :wall_us
-- Out:     one row: `ticket`, `granted_us` and `deadline_us` of the claim from now on; `enters` or `stays`, if it
--          has to be written; `is_gone`; `catches_up`, if the counter of the name has to follow the ticket
-- Touches: nothing
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
