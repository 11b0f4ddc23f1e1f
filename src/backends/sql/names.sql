-- The next few names that somebody holds or waits for.
--
-- In:      :first, :most
-- Out:     one row per name: `name`, in the order of their bytes
-- Touches: nothing
SELECT @utf8(encoded) AS name
FROM (SELECT DISTINCT name AS encoded FROM @claims WHERE name >= :first ORDER BY name LIMIT :most) AS page
ORDER BY encoded
