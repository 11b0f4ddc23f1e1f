-- Locks the row of a name that is known, and draws the next ticket as `draw` does. For the usual case it is
-- cheaper.
--
-- In:      :name, :floor
-- Out:     nothing; one change if the name is known
-- Touches: resources
UPDATE @resources
SET last_ticket = greatest(last_ticket + 1, @wall, CASE WHEN :floor <= @wall + 3600000000 THEN :floor ELSE 0 END)
WHERE name = :name
