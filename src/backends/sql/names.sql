-- The next few names that have claims.
--
-- In:      first name: from this name on
--          most integer
-- Out:     name text
-- Touches: nothing

-- answer: one row per name, in the order of their bytes
SELECT @utf8(encoded) AS name
FROM (SELECT DISTINCT name AS encoded FROM @claims WHERE name >= :first ORDER BY name LIMIT :most) AS page
ORDER BY encoded
