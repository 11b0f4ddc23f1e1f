-- Keeps why a claim was taken away, until its owner has had time to ask.
--
-- In:      :id, :name, :ticket, :reason, :by (null if nobody said so), :untilUs
-- Out:     nothing
-- Touches: forced
INSERT OR REPLACE INTO forced (id, name, ticket, reason, by_whom, until_us)
VALUES (:id, :name, :ticket, :reason, :by, :untilUs)
