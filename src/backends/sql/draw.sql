-- Locks the row of a name, and makes it if it is missing. What follows in the same transaction is alone with
-- the name. Draws the next ticket on the way: greater than every one before it, and never behind the wall
-- clock, so that tickets keep growing when a name was forgotten. One that is not used is no loss. Nor is it below
-- the floor that the process sends, unless that is more than an hour ahead of the clock: after a failover to a
-- server whose clock is behind, tickets go on growing all the same.
--
-- In:      :name, :floor
-- Out:     nothing
-- Touches: resources
INSERT INTO @resources (name, last_ticket)
VALUES (:name, greatest(@wall, CASE WHEN :floor <= @wall + 3600000000 THEN :floor ELSE 0 END))
ON CONFLICT (name) DO UPDATE SET last_ticket = greatest(@resources.last_ticket + 1, excluded.last_ticket)
