-- Locks the row of a name. If it is missing, then so are all claims of that name.
--
-- In:      :name
-- Out:     one row or none: `locked`
-- Touches: nothing
SELECT 1 AS locked FROM @resources WHERE name = :name FOR UPDATE
