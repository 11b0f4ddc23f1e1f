-- What a claim needs to know about its resource, before anything is changed.
--
-- In:      :name, :id
-- Out:     one row: the claim of that id (all null if there is none); `ahead` and `load`, the number and the
--          weight of the claims ahead of it, or of all claims if there is none; the `capacity` of those;
--          `soonest_us`, the earliest deadline at that name (past: drop what has expired, and ask again);
--          `boot`, the boot that the file's times belong to
-- Touches: nothing
SELECT
  mine.ticket,
  mine.weight,
  mine.capacity,
  mine.fixed,
  mine.min_hold_us,
  mine.granted_us,
  mine.deadline_us,
  mine.has_left,
  count(other.ticket) AS ahead,
  total(other.weight) AS load,
  max(other.capacity) AS live_capacity,
  (SELECT min(deadline_us) FROM claims WHERE name = :name) AS soonest_us,
  (SELECT boot FROM machine) AS boot
FROM (SELECT 1)
LEFT JOIN claims AS mine ON mine.id = :id AND mine.name = :name
LEFT JOIN claims AS other ON other.name = :name AND other.ticket < ifnull(mine.ticket, 9223372036854775807)
