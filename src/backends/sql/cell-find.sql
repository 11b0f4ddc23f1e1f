-- The version of a cell, and the one that was drawn to follow it.
--
-- In:      :name, :wall_us
-- Out:     one row: `drawn`; `found`, 0 if there is no such cell
-- Touches: nothing
SELECT resource.last_ticket AS drawn, coalesce(cell.version, 0) AS found
FROM @resources AS resource
LEFT JOIN @cells AS cell ON cell.name = resource.name AND cell.until_us > :wall_us
WHERE resource.name = :name
