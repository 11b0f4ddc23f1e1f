-- Whether anybody is at a name: mostly nobody is, and then nothing else need be looked at.
--
-- In:      :name
-- Out:     one row: `drawn`, the ticket that was just drawn; `occupied`, 1 if there are claims, else 0
-- Touches: nothing
SELECT
  last_ticket AS drawn,
  (SELECT count(*) FROM (SELECT 1 AS one FROM @claims WHERE name = :name LIMIT 1) AS any_claim) AS occupied
FROM @resources
WHERE name = :name
