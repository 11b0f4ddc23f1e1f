-- The rule: a claim is granted if and only if the weights of the claims ahead of it, plus its own, fit the
-- capacity. Everybody is ahead of a claim that is new.
--
-- In:      what `look` has found; :asked (the ticket of the last answer, or 0), :weight, :capacity, :queue (0 for
--          a mere try), :max_waiters if :capped, :waiters
-- Out:     one row: `verdict` (granted, waiting, refused, queue-full, capacity-mismatch, gone)
-- Touches: nothing
SELECT
  CASE
    WHEN :mine = 0 AND :asked > 0 THEN 'gone'
    WHEN :mine = 0 AND :live_capacity <> :capacity THEN 'capacity-mismatch'
    WHEN :mine = 0 AND :ahead + :weight <= :capacity THEN 'granted'
    WHEN :mine = 0 AND :queue = 0 THEN 'refused'
    WHEN :mine = 0 AND :capped = 1 AND :waiters >= :max_waiters THEN 'queue-full'
    WHEN :mine = 0 THEN 'waiting'
    WHEN :has_left = 1 OR (:asked > 0 AND :asked <> :mine) THEN 'gone'
    WHEN :ahead + :own_weight <= :own_capacity THEN 'granted'
    ELSE 'waiting'
  END AS verdict
