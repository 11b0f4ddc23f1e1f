-- Raises the counter of a name to the ticket that is used.
--
-- In:      :name, :ticket
-- Out:     nothing
-- Touches: resources
UPDATE @resources SET last_ticket = :ticket WHERE name = :name
