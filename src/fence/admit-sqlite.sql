-- Raises the newest token of a resource, unless it is newer already, and says which it is now.
--
-- In:      @name (the bytes of the resource's name, in hex), @token (decimal)
-- Out:     token, as text: 64 bits do not fit a number of JavaScript
-- Touches: the row of the resource; the file is locked for other writers until the transaction ends
INSERT INTO locktender_fence (name, token, seen_at)
VALUES (x'@name', @token, datetime('now'))
ON CONFLICT (name) DO UPDATE SET token = max(token, excluded.token), seen_at = excluded.seen_at
RETURNING CAST(token AS TEXT) AS token;
