-- Gives a cell its new text and version.
--
-- In:      :name, :drawn, :body, :keep_us (0 for ever), :wall_us
-- Out:     nothing
-- Touches: cells
INSERT INTO @cells (name, version, body, until_us)
VALUES (:name, :drawn, :body, CASE WHEN :keep_us = 0 THEN 9007199254740991 ELSE :wall_us + :keep_us END)
ON CONFLICT (name) DO UPDATE SET
  version = excluded.version,
  body = excluded.body,
  until_us = excluded.until_us
