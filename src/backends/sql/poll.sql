-- For a process that the server cannot notify: which of its claims are granted by now, and which were taken away.
-- One question for all its claims. Of its claims that wait at a name it asks about the first only, or about a few if
-- they may be granted together.
--
-- Primary: it only reads, but what a server says that is read-only by now may be out of date: it must refuse
-- In:      list text: a JSON array of {name, ticket}
-- Out:     kind text: "line" for each claim that was asked about, "forced" for each that was taken away lately
--          name, ticket text
--          ahead bigint: 0 if the claim is granted, else how many claims are ahead of it, plus 1
--          id, reason, by_whom text: of a claim that was taken away
-- Touches: nothing

-- include: clock

-- answer: one row per claim
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
