-- Forgets idle names among the next few, and answers which of these names have expired claims.
--
-- In:      after name: the names behind this one, in the order of their bytes
--          most integer: how many names
--          retention_us bigint: for how long an idle name is kept
-- Out:     last name: the last of these names; empty if there is none
--          number integer: how many there are
--          forgotten integer: how many of them were idle for long enough
--          abandoned text: a JSON array of some that have expired claims
-- Touches: resources, cells

-- include: clock

-- section: range
-- The next few names. A walk over all names in turn needs no index of idle ones, which every claim would have to
-- keep up to date.
-- sets last name
-- sets number integer
SELECT coalesce(max(name), '') AS last, count(*) AS number
FROM (SELECT name FROM @resources WHERE name > :after ORDER BY name LIMIT :most) AS next

-- section: drop-cells
-- Deletes the cells of these names whose time is over.
DELETE FROM @cells WHERE name > :after AND name <= :last AND until_us <= :wall_us

-- section: forget  counts forgotten
-- Forgets names without claims and without a cell, if the wall clock has passed their last ticket for so long that
-- the next ticket is greater in any case. A claim that comes meanwhile has drawn a ticket, so its name is no longer
-- idle when its row is looked at.
DELETE FROM @resources
WHERE
  name > :after
  AND name <= :last
  AND last_ticket <= :wall_us - :retention_us
  AND NOT EXISTS (SELECT 1 FROM @claims AS claim WHERE claim.name = @resources.name)
  AND NOT EXISTS (SELECT 1 FROM @cells AS cell WHERE cell.name = @resources.name)

-- section: abandoned
-- Names with expired claims that no process has asked for since.
-- sets abandoned text
SELECT coalesce(@jsonlist(name), '[]') AS abandoned
FROM (
  SELECT DISTINCT name FROM @claims
  WHERE name > :after AND name <= :last AND deadline_us <= :now_us
  ORDER BY name
  LIMIT 200
) AS expired
