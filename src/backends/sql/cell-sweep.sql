-- Forgets the cells of some names whose time is over.
--
-- In:      :after and :last (the range of names), :wall_us
-- Out:     nothing
-- Touches: cells
DELETE FROM @cells WHERE name > :after AND name <= :last AND until_us <= :wall_us
