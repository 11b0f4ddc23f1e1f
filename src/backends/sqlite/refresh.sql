-- A claim that asks again: its place is kept longer, and others see its present note and owner.
--
-- In:      :name, :ticket, :nowUs, :grantedUs, :deadlineUs, :owner, :note
-- Out:     nothing
-- Touches: claims
UPDATE claims
SET seen_us = :nowUs, granted_us = :grantedUs, deadline_us = :deadlineUs, owner = :owner, note = :note
WHERE name = :name AND ticket = :ticket
