-- Names with claims that have run out, which nobody has asked for since.
--
-- In:      :after and :last (the range of names), :now_us
-- Out:     one row: `abandoned`, a JSON array of a few such names
-- Touches: nothing
SELECT coalesce(@jsonlist(name), '[]') AS abandoned
FROM (
  SELECT DISTINCT name FROM @claims
  WHERE name > :after AND name <= :last AND deadline_us <= :now_us
  ORDER BY name
  LIMIT 200
) AS expired
