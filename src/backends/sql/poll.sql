-- For a process that cannot be rung: whose turn it is by now, and who was taken away. One question for all its
-- claims. Of those that wait at a name it asks about its first only, or about a few if they may come in together.
--
-- In:      :list (a JSON array of {name, ticket}), :now_us
-- Out:     one row per claim that was asked about: `kind` ("line"), `name`, `ticket`, `ahead` (0 if its turn has
--          come, else how many are ahead, plus 1); and one row per claim that was taken away in the last
--          minute: `kind` ("forced"), `name`, `ticket`, `id`, `reason`, `by_whom`
-- Touches: nothing
SELECT
  'line' AS kind,
  @utf8(asked.name) AS name,
  @text(asked.ticket) AS ticket,
  CASE
    WHEN coalesce(sum(CASE WHEN other.ticket < own.ticket THEN other.weight END), 0) + max(own.weight)
      <= max(own.capacity) THEN 0
    WHEN max(own.ticket) IS NULL THEN 0
    ELSE 1 + sum(CASE WHEN other.ticket < own.ticket THEN 1 ELSE 0 END)
  END AS ahead,
  '' AS id,
  '' AS reason,
  '' AS by_whom
FROM @asked(name, ticket)
LEFT JOIN @claims AS own ON own.name = asked.name AND own.ticket = asked.ticket AND own.deadline_us > :now_us
LEFT JOIN @claims AS other ON other.name = asked.name AND other.ticket < asked.ticket AND other.deadline_us > :now_us
GROUP BY asked.name, asked.ticket
UNION ALL
SELECT 'forced', @utf8(name), @text(ticket), 0, id, reason, by_whom
FROM @forced
WHERE until_us > :now_us
