-- Locks the row of a name, if it is there.
--
-- In:      :name
-- Out:     one row: `locked`, 0 if it is missing
-- Touches: nothing
SELECT coalesce((SELECT 1 FROM @resources WHERE name = :name FOR UPDATE), 0) AS locked
FROM (SELECT 1 AS one) AS here
