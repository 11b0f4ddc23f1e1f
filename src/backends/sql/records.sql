-- The live claims of one name, for people to look at.
--
-- In:      name name: of the lock
--          most integer
-- Out:     id, ticket text
--          weight, capacity integer
--          age_us text: since the grant, or since the claim came
--          remaining_us text: until the claim expires
--          owner, note text
-- Touches: nothing

-- include: clock

-- answer: one row per claim, in ticket order
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
