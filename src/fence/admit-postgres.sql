-- Raises the newest token of a resource, unless it is newer already, and says which it is now.
--
-- In:      @name (the bytes of the resource's name, in hex), @token (decimal)
-- Out:     token, as text: 64 bits do not fit a number of JavaScript
-- Touches: the row of the resource, which stays locked until the transaction ends
--
-- An upsert judges the row as it is when it has the lock on it, not as the transaction saw it earlier. Where
-- the isolation forbids that (REPEATABLE READ and above), PostgreSQL refuses the statement with 40001.
INSERT INTO locktender_fence AS fence (name, token, seen_at)
VALUES (convert_from(decode('@name', 'hex'), 'UTF8'), @token, now())
ON CONFLICT (name) DO UPDATE SET token = greatest(fence.token, excluded.token), seen_at = excluded.seen_at
RETURNING CAST(fence.token AS text) AS token;
