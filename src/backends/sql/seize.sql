-- Locks a claim, whether it has run out or not.
--
-- In:      :name, :id
-- Out:     one row: `seized`, its ticket, or 0 if it is not there
-- Touches: nothing
SELECT coalesce((SELECT ticket FROM @claims WHERE name = :name AND id = :id ORDER BY ticket LIMIT 1 FOR UPDATE), 0) AS seized
FROM (SELECT 1 AS one) AS here
