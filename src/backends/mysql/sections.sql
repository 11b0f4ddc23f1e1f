-- The sections that MySQL and MariaDB write in their own way. They cannot send a message. But a process that waits has
-- one connection that sleeps, and the statement that sleeps there can be interrupted: then the process looks.
--
-- In:      the variables of the operation, as `v_name`
-- Out:     what src/backends/sql/shared.sql says of the section of the same name; v_bells, the channels of the
--          processes that are to look after the commit, with commas between them
-- Touches: nothing

-- section: clock
SET v_now_us = @wall;
SET v_wall_us = v_now_us;

-- section: refuse-if-read-only
-- Procedures have the rights of the user that made them. If that user may write on a read-only server, they would go
-- on granting locks on a primary that has just been made a replica. Newer versions of MariaDB have a word instead of
-- a number.
IF CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF') THEN
SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'no lock can be changed here';
END IF;

-- section: notify

-- section: notify-if-removed

-- section: notify-released
-- Who is to look when this is committed: the processes of the claims that are granted by now, and that of a claim that
-- was taken away. The loop ends at the first claim that has to wait. A question costs less than a cursor, and mostly no
-- process waits. GROUP_CONCAT would fail, and the release with it, where its result is longer than the server allows.
SET v_bells = '';
IF v_was_there <> 0 AND EXISTS (SELECT 1 FROM @claims WHERE name = v_name) THEN
BEGIN
DECLARE v_weight, v_capacity, v_waits INT;
DECLARE v_total BIGINT DEFAULT 0;
DECLARE v_bell VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
DECLARE front CURSOR FOR
  SELECT weight, capacity, granted_us IS NULL, bell
  FROM @claims
  WHERE name = v_name AND deadline_us > v_now_us
  ORDER BY ticket
  LIMIT 50;
DECLARE EXIT HANDLER FOR NOT FOUND BEGIN END;
OPEN front;
every: LOOP
  FETCH front INTO v_weight, v_capacity, v_waits, v_bell;
  SET v_total = v_total + v_weight;
  IF v_total > v_capacity THEN LEAVE every; END IF;
  IF v_waits <> 0 AND v_bell <> '' AND FIND_IN_SET(v_bell, v_bells) = 0 THEN
    SET v_bells = CONCAT(v_bells, v_bell, ',');
  END IF;
END LOOP;
END;
END IF;
IF v_forced <> 0 THEN SET v_bells = CONCAT(v_bells, v_victim_bell); END IF;

-- section: wake
-- The body of the procedure that interrupts the sleep of the processes with these channels. The connection that sleeps
-- is found by the lock that it holds, whose name no other program has: so no other connection can be hit, whatever the
-- numbers of connections are or become, and none is found where it is on another server. What cannot be interrupted
-- polls.
--
-- In: v_bells
BEGIN
DECLARE v_thread BIGINT;
DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
WHILE v_bells <> '' DO
  SET v_thread = NULL;
  SET v_thread = IS_USED_LOCK(CONCAT('locktender wake-up ', SUBSTRING_INDEX(v_bells, ',', 1)));
  IF v_thread IS NOT NULL THEN KILL QUERY v_thread; END IF;
  SET v_bells = SUBSTRING(v_bells, LENGTH(SUBSTRING_INDEX(v_bells, ',', 1)) + 2);
END WHILE;
END;

-- section: sleep
-- The body of the procedure that sleeps. Here, because the server lets `wake` interrupt what has the rights of the same
-- user as itself, and both have those of the user that made them. Behind a proxy the next call may come by another
-- connection of the server: then the numbers differ, or the lock is not there, and it does not sleep.
--
-- In: v_channel; v_connection, the number of the connection as the client knows it; v_seconds
-- Out: state: 0 if the time is over, 1 if the sleep was interrupted (MariaDB: error 1317), null if it cannot be
IF IS_USED_LOCK(CONCAT('locktender wake-up ', v_channel)) = CONNECTION_ID() AND CONNECTION_ID() = v_connection THEN
SELECT SLEEP(v_seconds) AS state;
ELSE
SELECT NULL AS state;
END IF;

-- section: tell-sticky-holder
