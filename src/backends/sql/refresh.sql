-- A claim that asks again: its place is kept longer, and others see its present note and owner. A renewal may have
-- been committed since it was looked at: what that has promised is never cut short.
--
-- In:      :name, :ticket, :now_us, :granted_us, :deadline_us, :owner, :note, :bell
-- Out:     nothing
-- Touches: claims
UPDATE @claims
SET
  seen_us = :now_us,
  granted_us = :granted_us,
  deadline_us = greatest(deadline_us, :deadline_us),
  owner = :owner,
  note = :note,
  bell = :bell
WHERE name = :name AND ticket = :ticket
