-- Puts a new claim at the end of the queue.
--
-- In:      :name, :ticket, :id, :weight, :capacity, :fixed, :minHoldUs, :nowUs, :grantedUs (null if it has to
--          wait), :deadlineUs, :owner, :note
-- Out:     nothing
-- Touches: claims
INSERT INTO claims (
  name, ticket, id, weight, capacity, fixed, min_hold_us, came_us, seen_us, granted_us, deadline_us, has_left,
  owner, note
)
VALUES (
  :name, :ticket, :id, :weight, :capacity, :fixed, :minHoldUs, :nowUs, :nowUs, :grantedUs, :deadlineUs, 0,
  :owner, :note
)
