-- Deletes a cell.
--
-- In:      :name
-- Out:     nothing
-- Touches: cells
DELETE FROM @cells WHERE name = :name
