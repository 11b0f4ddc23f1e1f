-- Changes a cell if it is as expected. Its version is drawn as a ticket is, under the same lock.
--
-- Once:    if its answer is lost, it must not simply be asked again: the cell would not be as expected any more
-- In:      name name: of the cell
--          expected bigint: a version, 0 for no cell, -1 for any
--          deletes integer: 1 if the cell is to be deleted
--          body text
--          keep_us bigint: how long the cell is kept; 0 for ever
--          floor bigint: no new version is below it
-- Out:     written integer: 1 if the cell was as expected
--          drawn bigint: its version from now on
-- Touches: resources, cells

-- include: advance
-- include: draw  unless advanced
-- include: clock

-- section: find
-- The version of the cell, and the one that was drawn to follow it.
-- sets drawn bigint
-- sets found bigint: 0 if there is no such cell
SELECT resource.last_ticket AS drawn, coalesce(cell.version, 0) AS found
FROM @resources AS resource
LEFT JOIN @cells AS cell ON cell.name = resource.name AND cell.until_us > :wall_us
WHERE resource.name = :name

-- section: judge
-- Whether the cell is as the caller expects it to be, and what is to be done.
-- sets written, stores, drops integer
SELECT
  CASE WHEN :expected = -1 OR :expected = :found THEN 1 ELSE 0 END AS written,
  CASE WHEN (:expected = -1 OR :expected = :found) AND :deletes = 0 THEN 1 ELSE 0 END AS stores,
  CASE WHEN (:expected = -1 OR :expected = :found) AND :deletes = 1 THEN 1 ELSE 0 END AS drops

-- section: store  when stores
INSERT INTO @cells (name, version, body, until_us)
VALUES (:name, :drawn, :body, CASE WHEN :keep_us = 0 THEN 9007199254740991 ELSE :wall_us + :keep_us END)
ON CONFLICT (name) DO UPDATE SET
  version = excluded.version,
  body = excluded.body,
  until_us = excluded.until_us

-- section: drop  when drops
DELETE FROM @cells WHERE name = :name
