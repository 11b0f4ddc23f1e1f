-- A cell as it is.
--
-- In:      :name, :wall_us
-- Out:     one row or none: `version`, `body`
-- Touches: nothing
SELECT @text(version) AS version, body
FROM @cells AS cell
WHERE name = :name AND until_us > :wall_us
