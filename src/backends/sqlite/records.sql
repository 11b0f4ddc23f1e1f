-- The live claims of one name, for people to look at.
--
-- In:      :name, :nowUs, :limit (-1 for all)
-- Out:     one row per claim, in ticket order
-- Touches: nothing
SELECT id, ticket, weight, capacity, came_us, granted_us, deadline_us, owner, note
FROM claims
WHERE name = :name AND deadline_us > :nowUs
ORDER BY ticket
LIMIT :limit
