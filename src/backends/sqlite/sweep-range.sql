-- The next few names to look at. A walk over all names in turn needs no index of idle ones, which every claim
-- would have to keep up to date.
--
-- In:      :after, :most
-- Out:     one row: `last`, the last of the next names (null if there is none), and their `number`
-- Touches: nothing
SELECT max(name) AS last, count(*) AS number
FROM (SELECT name FROM resources WHERE name > :after ORDER BY name LIMIT :most)
