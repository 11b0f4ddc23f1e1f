-- Drops expired claims of names that nobody asks for any more, a bounded number at a time.
--
-- In:      :after and :last (the range of names), :nowUs, :most
-- Out:     nothing; as many changes as claims were dropped
-- Touches: claims
DELETE FROM claims
WHERE (name, ticket) IN (
  SELECT name, ticket
  FROM claims
  WHERE name > :after AND name <= :last AND deadline_us <= :nowUs
  LIMIT :most
)
