-- The live claims of one name, for people to look at.
--
-- In:      :name, :now_us, :most
-- Out:     one row per claim, in ticket order
-- Touches: nothing
SELECT
  id,
  @text(ticket) AS ticket,
  weight,
  capacity,
  @text(:now_us - coalesce(granted_us, came_us)) AS age_us,
  @text(deadline_us - :now_us) AS remaining_us,
  owner,
  note
FROM @claims AS claim
WHERE name = :name AND deadline_us > :now_us
ORDER BY claim.ticket
LIMIT :most
