-- Keeps why a claim was taken away, for a minute in which its owner may ask.
--
-- In:      :id, :name, :ticket, :reason, :by_whom (null if nobody said so), :now_us
-- Out:     nothing
-- Touches: forced
INSERT INTO @forced (id, name, ticket, reason, by_whom, until_us)
VALUES (:id, :name, :ticket, :reason, :by_whom, :now_us + 60000000)
ON CONFLICT (id) DO UPDATE SET
  ticket = excluded.ticket,
  reason = excluded.reason,
  by_whom = excluded.by_whom,
  until_us = excluded.until_us
