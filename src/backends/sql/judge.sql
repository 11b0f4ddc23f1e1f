-- The rule: a claim is granted if and only if the weights of the claims ahead of it, plus its own, fit the
-- capacity. Everybody is ahead of a claim that is new, and who has run out counts no more. Says what becomes of
-- the claim; nothing is changed yet.
--
-- In:      :name, :id, :asked (the ticket of the last answer, or 0), :weight, :capacity, :ttl_us, :min_hold_us,
--          :queue (0 for a mere try), :max_waiters if :capped, :waiters, :now_us, :wall_us
-- Out:     one row: `verdict` (granted, waiting, refused, queue-full, capacity-mismatch, gone); `ticket`,
--          `granted_us` and `deadline_us` of the claim from now on, with `remaining_us` and `change_us`, when
--          the soonest claim of the name runs out; `live_capacity`; `enters` and `stays`, which of them has to
--          be written; `is_gone`; `expired`, how many have run out; `catches_up`, if the ticket that was drawn is older than the wall clock,
--          because the row had to be waited for
-- Touches: nothing
SELECT
  verdict,
  ticket,
  granted_us,
  deadline_us,
  deadline_us - :now_us AS remaining_us,
  least(soonest_us, deadline_us) - :now_us AS change_us,
  live_capacity,
  CASE WHEN is_new = 1 AND verdict IN ('granted', 'waiting') THEN 1 ELSE 0 END AS enters,
  CASE WHEN is_new = 0 AND verdict IN ('granted', 'waiting') THEN 1 ELSE 0 END AS stays,
  CASE WHEN verdict = 'gone' THEN 1 ELSE 0 END AS is_gone,
  CASE WHEN is_new = 1 AND ticket <> drawn AND verdict IN ('granted', 'waiting') THEN 1 ELSE 0 END AS catches_up,
  expired
FROM (
  SELECT
    verdict,
    is_new,
    drawn,
    live_capacity,
    soonest_us,
    expired,
    CASE
      WHEN is_new = 0 THEN mine
      WHEN drawn < :wall_us - 1000000 THEN :wall_us
      ELSE drawn
    END AS ticket,
    CASE WHEN verdict = 'granted' THEN coalesce(granted_us, :now_us) ELSE granted_us END AS granted_us,
    -- A fixed time counts once, from the grant; so does the time for which nobody else may come in.
    greatest(
      deadline_us,
      CASE
        WHEN verdict <> 'granted' THEN :now_us + :ttl_us
        WHEN granted_us IS NULL THEN :now_us + greatest(:ttl_us, min_hold_us)
        WHEN fixed = 1 THEN 0
        ELSE :now_us + :ttl_us
      END
    ) AS deadline_us
  FROM (
    SELECT
      CASE
        WHEN mine IS NULL AND :asked > 0 THEN 'gone'
        WHEN mine IS NULL AND live_capacity <> :capacity THEN 'capacity-mismatch'
        WHEN mine IS NULL AND ahead + :weight <= :capacity THEN 'granted'
        WHEN mine IS NULL AND :queue = 0 THEN 'refused'
        WHEN mine IS NULL AND :capped = 1 AND :waiters >= :max_waiters THEN 'queue-full'
        WHEN mine IS NULL THEN 'waiting'
        WHEN has_left = 1 OR (:asked > 0 AND :asked <> mine) THEN 'gone'
        WHEN ahead + weight <= capacity THEN 'granted'
        ELSE 'waiting'
      END AS verdict,
      CASE WHEN mine IS NULL THEN 1 ELSE 0 END AS is_new,
      mine,
      drawn,
      live_capacity,
      soonest_us,
      expired,
      fixed,
      granted_us,
      deadline_us,
      min_hold_us
    FROM (
      SELECT
        max(resource.last_ticket) AS drawn,
        max(own.ticket) AS mine,
        max(own.weight) AS weight,
        max(own.capacity) AS capacity,
        max(own.fixed) AS fixed,
        coalesce(max(own.min_hold_us), :min_hold_us) AS min_hold_us,
        max(own.granted_us) AS granted_us,
        coalesce(max(own.deadline_us), 0) AS deadline_us,
        max(own.has_left) AS has_left,
        max(CASE WHEN other.deadline_us > :now_us THEN other.capacity END) AS live_capacity,
        coalesce(
          sum(
            CASE
              WHEN other.deadline_us > :now_us AND other.ticket < coalesce(own.ticket, 9223372036854775807)
              THEN other.weight
            END
          ),
          0
        ) AS ahead,
        coalesce(
          min(CASE WHEN other.deadline_us > :now_us AND other.id <> :id THEN other.deadline_us END),
          9223372036854775807
        ) AS soonest_us,
        sum(CASE WHEN other.deadline_us <= :now_us THEN 1 ELSE 0 END) AS expired
      FROM @resources AS resource
      LEFT JOIN @claims AS own ON own.name = :name AND own.id = :id AND own.deadline_us > :now_us
      LEFT JOIN @claims AS other ON other.name = :name
      WHERE resource.name = :name
    ) AS standing
  ) AS judged
) AS timed
