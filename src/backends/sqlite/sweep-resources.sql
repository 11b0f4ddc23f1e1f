-- Forgets names that nobody holds or waits for, if the wall clock has passed their last ticket for so long
-- that the next ticket is greater in any case.
--
-- In:      :after and :last (the range of names), :idleSinceUs (wall clock)
-- Out:     nothing
-- Touches: resources
DELETE FROM resources
WHERE
  name > :after
  AND name <= :last
  AND last_ticket <= :idleSinceUs
  AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.name = resources.name)
