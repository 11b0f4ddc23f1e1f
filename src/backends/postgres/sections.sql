-- The sections that PostgreSQL writes in its own way, in PL/pgSQL.
--
-- In:      the variables of the operation, as `v_name`
-- Out:     what src/backends/sql/shared.sql says of the section of the same name
-- Touches: claims

-- section: clock
v_now_us := @wall;
v_wall_us := v_now_us;

-- section: refuse-if-read-only
-- What the server itself says to each routine that writes.
IF current_setting('transaction_read_only') = 'on' THEN
RAISE EXCEPTION 'what this server knows of the locks may be out of date' USING ERRCODE = '25006';
END IF;

-- section: notify
PERFORM @routine(ring)(v_name, v_now_us, 0);

-- section: notify-if-removed
IF v_removed > 0 THEN
PERFORM @routine(ring)(v_name, v_now_us, 0);
END IF;

-- section: notify-released
-- A question costs less than a call, and mostly no process waits. The text of a notification is limited: a long
-- reason is not sent, and the process asks for it.
IF v_was_there <> 0 AND EXISTS (SELECT 1 FROM @claims WHERE name = v_name) THEN
PERFORM @routine(ring)(v_name, v_now_us, v_stays);
END IF;
IF v_forced <> 0 AND v_victim_bell <> '' THEN
PERFORM pg_notify(v_victim_bell, v_ticket || ' ' || v_id || ' ' || CASE
  WHEN octet_length(v_reason) + octet_length(coalesce(v_by_whom, '')) > 3000 THEN 'ask'
  ELSE json_build_object('reason', v_reason, 'by', v_by_whom)::text
END);
END IF;

-- section: tell-sticky-holder
-- Sends "<ticket> <id> wanted" on the channel of the holder. It is sticky if the object in `owner` has the field
-- `sticky`; the underscore stands for the colon. Behind a first waiter, the holder knows already.
IF v_mine = 0 AND v_verdict IN ('waiting', 'refused', 'queue-full') THEN
PERFORM pg_notify(holder.bell, holder.ticket || ' ' || holder.id || ' wanted')
FROM (SELECT ticket, id, bell, owner FROM @claims WHERE name = v_name ORDER BY ticket LIMIT 1) AS holder
WHERE holder.bell <> '' AND holder.owner LIKE '%"sticky"_true%'
  AND NOT EXISTS (
    SELECT 1 FROM @claims AS other
    WHERE other.name = v_name AND other.ticket > holder.ticket AND other.ticket < v_ticket
  );
END IF;

-- section: ring
-- The body of the function that notifies the waiters of a name whose claims are granted by now: each of them once,
-- in its own process only. Sends "<ticket> <id> granted" or "<ticket> <id> ask" on the channel of the claim.
--
-- In: v_name, v_now_us; v_hint, 1 if the first waiter should ask again, because a claim ahead of it was given back
-- and ends sooner than the waiter was told.
--
-- Where the grant starts a time of its own, the claim has to ask for the grant, so it is only told to ask. The loop
-- ends at the first claim that has to wait, so a long queue behind it costs nothing. Before it, expired claims are
-- dropped: what does not count any more must not come back, and a claim whose renewal is under way is waited for,
-- and stays. A claim that asks has locked its own row before those ahead of it: so a claim that is locked by its
-- renewal is told, but not marked, or two transactions could wait for each other. The mark is for people to see, and
-- so that no waiter is notified twice.
--
-- With synchronous standbys a message is sent as soon as the wait for them is over, also if a request that took too
-- long was cancelled in that wait: then its work is on this server alone, and a standby that was promoted meanwhile
-- does not know of it. So the claim is only told to ask, and its own write has to reach the standby.
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
