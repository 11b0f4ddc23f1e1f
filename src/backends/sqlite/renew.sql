-- Keeps a live claim for longer. A fixed one is not extended once it was granted.
--
-- In:      :name, :id, :ticket, :nowUs, :untilUs
-- Out:     one row with `deadline_us`, or none if the claim is gone
-- Touches: claims
UPDATE claims
SET
  seen_us = :nowUs,
  deadline_us = iif(fixed AND granted_us IS NOT NULL, deadline_us, max(deadline_us, :untilUs))
WHERE name = :name AND ticket = :ticket AND id = :id AND NOT has_left AND deadline_us > :nowUs
RETURNING deadline_us
