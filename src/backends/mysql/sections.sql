-- The sections that MySQL and MariaDB write in their own way. They cannot notify: the waiters poll.
--
-- In:      the variables of the operation, as `v_name`
-- Out:     what src/backends/sql/shared.sql says of the section of the same name
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

-- section: tell-sticky-holder
