-- A claim that was given back before its minHold is over: it counts as a holder until then.
--
-- In:      :name, :ticket
-- Out:     nothing
-- Touches: claims
UPDATE @claims SET has_left = 1, deadline_us = granted_us + min_hold_us WHERE name = :name AND ticket = :ticket
