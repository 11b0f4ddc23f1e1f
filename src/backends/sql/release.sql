-- Takes a claim out of the queue, unless it has expired or its minHold is not over yet. The usual release needs
-- no other statement. Holders stand in front, so looking for the claim in ticket order soon ends.
--
-- In:      :name, :id, :now_us
-- Out:     nothing; one change if the claim was there and could go
-- Touches: claims
DELETE FROM @claims
WHERE
  name = :name
  AND ticket = (
    SELECT ticket
    FROM (SELECT ticket FROM @claims WHERE name = :name AND id = :id ORDER BY ticket LIMIT 1) AS mine
  )
  AND has_left = 0
  AND deadline_us > :now_us
  AND coalesce(granted_us + min_hold_us, 0) <= :now_us
