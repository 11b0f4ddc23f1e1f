-- Takes a claim out of the queue, unless it has expired or its minHold is not over yet. The usual release needs
-- no other statement.
--
-- In:      :name, :id, :nowUs
-- Out:     nothing; one change if the claim was there and could go
-- Touches: claims
DELETE FROM claims
WHERE
  id = :id
  AND name = :name
  AND NOT has_left
  AND deadline_us > :nowUs
  AND ifnull(granted_us + min_hold_us <= :nowUs, TRUE)
