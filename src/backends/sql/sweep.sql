-- Forgets names that nobody holds or waits for, if the wall clock has passed their last ticket for so long
-- that the next ticket is greater in any case. Those that somebody is at work with are left alone.
--
-- In:      :after and :last (the range of names), :most, :wall_us, :retention_us
-- Out:     nothing; as many changes as names were forgotten
-- Touches: resources
DELETE FROM @resources
WHERE name IN (
  SELECT name FROM (
    SELECT name
    FROM @resources AS idle
    WHERE
      name > :after
      AND name <= :last
      AND last_ticket <= :wall_us - :retention_us
      AND NOT EXISTS (SELECT 1 FROM @claims AS claim WHERE claim.name = idle.name)
    LIMIT :most
    FOR UPDATE SKIP LOCKED
  ) AS locked
)
