-- Forgets why claims were taken away that nobody will ask about any more.
--
-- In:      :now_us
-- Out:     nothing
-- Touches: forced
DELETE FROM @forced WHERE until_us <= :now_us
