-- Forgets why claims were taken away that nobody will ask about any more.
--
-- In:      :now_us
-- Out:     nothing
-- Touches: forced
-- The id is named because a server may refuse to delete by anything but a key.
DELETE FROM @forced WHERE id > '' AND until_us <= :now_us
