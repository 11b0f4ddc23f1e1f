-- Whether a cell is as whoever writes expects it to be.
--
-- In:      :expected (a version, 0 for none, -1 for whatever it is), :found, :deletes
-- Out:     one row: `written`, and what is to be done: `stores` or `drops`
-- Touches: nothing
SELECT
  CASE WHEN :expected = -1 OR :expected = :found THEN 1 ELSE 0 END AS written,
  CASE WHEN (:expected = -1 OR :expected = :found) AND :deletes = 0 THEN 1 ELSE 0 END AS stores,
  CASE WHEN (:expected = -1 OR :expected = :found) AND :deletes = 1 THEN 1 ELSE 0 END AS drops
