-- Raises the newest token of a resource, unless it is newer already, and says which it is now.
--
-- In:      @name (the bytes of the resource's name, in hex), @token (decimal)
-- Out:     token, as text: 64 bits do not fit a number of JavaScript
-- Touches: the row of the resource, which stays locked until the transaction ends
--
-- The first statement judges the row as it is when it has the lock on it. How many rows it affected would depend
-- on a flag of the connection (CLIENT_FOUND_ROWS), so the second one reads the row, as it is and not as a
-- snapshot has it: that is what FOR UPDATE means here, since the lock is there already.
INSERT INTO locktender_fence (name, token, seen_at)
VALUES (x'@name', @token, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE token = GREATEST(token, @token), seen_at = UTC_TIMESTAMP(6);

SELECT CAST(token AS CHAR) AS token FROM locktender_fence WHERE name = x'@name' FOR UPDATE;
