-- Locks the row of a name, and makes it if it is missing. What follows in the same transaction is alone with
-- the name. Draws the next ticket on the way: greater than every one before it, and never behind the wall
-- clock, so that tickets keep growing when a name was forgotten. One that is not used is no loss.
--
-- In:      :name
-- Out:     nothing
-- Touches: resources
INSERT INTO @resources (name, last_ticket)
VALUES (:name, @wall)
ON CONFLICT (name) DO UPDATE SET last_ticket = greatest(@resources.last_ticket + 1, excluded.last_ticket)
