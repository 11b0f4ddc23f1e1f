-- Puts a new claim at the end of the queue.
--
-- In:      :name, :ticket, :id, :weight, :capacity, :fixed, :min_hold_us, :now_us, :granted_us (null if it has
--          to wait), :deadline_us, :owner, :note, :bell (where its process can be rung; empty if nowhere)
-- Out:     nothing
-- Touches: claims
INSERT INTO @claims (
  name, ticket, id, weight, capacity, fixed, min_hold_us, came_us, seen_us, granted_us, deadline_us, has_left,
  owner, note, bell
)
VALUES (
  :name, :ticket, :id, :weight, :capacity, :fixed, :min_hold_us, :now_us, :now_us, :granted_us, :deadline_us, 0,
  :owner, :note, :bell
)
