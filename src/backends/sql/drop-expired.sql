-- Forgets the claims of a name that have run out. An expired claim never comes back, because from here on it
-- is not there.
--
-- In:      :name, :now_us
-- Out:     nothing; as many changes as claims were dropped
-- Touches: claims
DELETE FROM @claims WHERE name = :name AND deadline_us <= :now_us
