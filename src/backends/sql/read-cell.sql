-- A cell as it is.
--
-- In:      name name: of the cell
-- Out:     version, body text
-- Touches: nothing

-- include: clock

-- answer: one row, or none
SELECT @text(version) AS version, body
FROM @cells AS cell
WHERE name = :name AND until_us > :wall_us
