-- A claim that asks again: its place is kept longer, and others see its present note and owner.
--
-- In:      :name, :ticket, :now_us, :granted_us, :deadline_us, :owner, :note, :bell
-- Out:     nothing
-- Touches: claims
UPDATE @claims
SET
  seen_us = :now_us,
  granted_us = :granted_us,
  deadline_us = :deadline_us,
  owner = :owner,
  note = :note,
  bell = :bell
WHERE name = :name AND ticket = :ticket
