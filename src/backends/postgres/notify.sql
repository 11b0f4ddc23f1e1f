-- The body of the function that tells those who were let in: each of them once, in its own process only. Where
-- the grant starts a clock of its own, the claim has to ask for it, so it is only told to ask. The loop ends at
-- the first claim that has to wait, so a long queue behind it costs nothing. Who has run out is dropped first:
-- what counts no more must not come back, and one that is just being renewed is waited for, and stays. Whoever
-- asks has locked its own claim before those ahead of it: so one that is just being renewed is told, but not
-- marked, or two could wait in a circle. The mark is for people to see, and to tell nobody twice.
--
-- With synchronous standbys a message is sent as soon as the wait for them is over, also if a request that took too
-- long was cancelled in that wait: then its work is on this server alone, and a standby that was promoted meanwhile
-- does not know of it. So the claim is only told to ask, and its own write has to reach the standby.
--
-- In:      v_name, v_now_us; v_hint, 1 if the first that waits should ask again, because a claim ahead of it
--          was given back and ends sooner than it was told
-- Out:     nothing; notifications "<ticket> <id> granted" or "<ticket> <id> ask"
-- Touches: claims
DECLARE
  v_total bigint := 0;
  v_synchronous boolean := current_setting('synchronous_standby_names') <> '';
  v_claim record;
BEGIN
  DELETE FROM @claims WHERE name = v_name AND deadline_us <= v_now_us;
  FOR v_claim IN
    SELECT ticket, id, weight, capacity, fixed, min_hold_us, granted_us, bell
    FROM @claims
    WHERE name = v_name
    ORDER BY ticket
  LOOP
    v_total := v_total + v_claim.weight;
    IF v_total > v_claim.capacity THEN
      IF v_hint = 1 AND v_claim.bell <> '' THEN
        PERFORM pg_notify(v_claim.bell, v_claim.ticket || ' ' || v_claim.id || ' ask');
      END IF;
      EXIT;
    END IF;
    IF v_claim.granted_us IS NULL THEN
      IF v_claim.fixed = 1 OR v_claim.min_hold_us > 0 OR v_synchronous THEN
        IF v_claim.bell <> '' THEN
          PERFORM pg_notify(v_claim.bell, v_claim.ticket || ' ' || v_claim.id || ' ask');
        END IF;
      ELSE
        UPDATE @claims
        SET granted_us = v_now_us
        WHERE
          name = v_name
          AND ticket = (
            SELECT ticket FROM @claims WHERE name = v_name AND ticket = v_claim.ticket FOR UPDATE SKIP LOCKED
          );
        IF v_claim.bell <> '' THEN
          PERFORM pg_notify(v_claim.bell, v_claim.ticket || ' ' || v_claim.id || ' granted');
        END IF;
      END IF;
    END IF;
  END LOOP;
END
