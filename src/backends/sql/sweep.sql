-- Forgets names that nobody holds or waits for and that have no cell, if the wall clock has passed their last ticket for so long
-- that the next ticket is greater in any case. A claim that comes meanwhile has drawn a ticket, so its name is
-- no longer idle when its row is looked at.
--
-- In:      :after and :last (the range of names), :wall_us, :retention_us
-- Out:     nothing; as many changes as names were forgotten
-- Touches: resources
DELETE FROM @resources
WHERE
  name > :after
  AND name <= :last
  AND last_ticket <= :wall_us - :retention_us
  AND NOT EXISTS (SELECT 1 FROM @claims AS claim WHERE claim.name = @resources.name)
  AND NOT EXISTS (SELECT 1 FROM @cells AS cell WHERE cell.name = @resources.name)
