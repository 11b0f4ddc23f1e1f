-- Keeps a live claim for longer. A fixed one is not extended once it was granted.
--
-- In:      :name, :id, :ticket, :ttl_us, :now_us
-- Out:     nothing
-- Touches: claims
UPDATE @claims
SET
  seen_us = :now_us,
  deadline_us = CASE
    WHEN fixed = 1 AND granted_us IS NOT NULL THEN deadline_us
    ELSE greatest(deadline_us, :now_us + :ttl_us)
  END
WHERE name = :name AND ticket = :ticket AND id = :id AND has_left = 0 AND deadline_us > :now_us
