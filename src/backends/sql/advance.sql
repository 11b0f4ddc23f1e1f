-- Locks the row of a name that is known, and draws the next ticket as `draw` does. For the usual case it is
-- cheaper.
--
-- In:      :name
-- Out:     nothing; one change if the name is known
-- Touches: resources
UPDATE @resources SET last_ticket = greatest(last_ticket + 1, @wall) WHERE name = :name
