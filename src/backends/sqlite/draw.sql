-- Draws the next ticket of a name: greater than every one before it, and never behind the wall clock, so
-- that tickets keep growing when a name has been forgotten.
--
-- In:      :name, :wallUs
-- Out:     one row: `last_ticket`, the ticket drawn
-- Touches: resources
INSERT INTO resources (name, last_ticket)
VALUES (:name, :wallUs)
ON CONFLICT (name) DO UPDATE SET last_ticket = max(last_ticket + 1, excluded.last_ticket)
RETURNING last_ticket
