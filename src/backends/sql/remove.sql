-- Takes a claim out of the queue.
--
-- In:      :name, :ticket
-- Out:     nothing
-- Touches: claims
DELETE FROM @claims WHERE name = :name AND ticket = :ticket
