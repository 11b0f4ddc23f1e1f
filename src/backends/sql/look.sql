-- What a claim needs to know about a name where somebody is: the claim itself if it is there already, and who
-- else is. Who has run out counts no more; but nothing may follow from that before it was dropped, since it may
-- be renewed at this very moment.
--
-- In:      :name, :id, :min_hold_us, :now_us
-- Out:     one row: `mine`, `own_weight`, `own_capacity`, `own_fixed`, `own_min_hold_us`,
--          `own_granted_us`, `own_deadline_us` and `has_left` of the claim (`mine` is 0 if there is none);
--          `ahead`, the weight of those ahead of it, or of all; `live_capacity`, the capacity of those who are
--          there; `soonest_us`, when the first of the others runs out; `expired`, how many have
-- Touches: nothing
--
-- The claim itself is looked for once, and not beside each of the others: a queue may be long.
SELECT
  coalesce(max(own.ticket), 0) AS mine,
  coalesce(max(own.weight), 0) AS own_weight,
  coalesce(max(own.capacity), 0) AS own_capacity,
  coalesce(max(own.fixed), 0) AS own_fixed,
  coalesce(max(own.min_hold_us), :min_hold_us) AS own_min_hold_us,
  max(own.granted_us) AS own_granted_us,
  coalesce(max(own.deadline_us), 0) AS own_deadline_us,
  coalesce(max(own.has_left), 0) AS has_left,
  coalesce(
    sum(
      CASE
        WHEN other.deadline_us > :now_us AND other.ticket < coalesce(own.ticket, 9007199254740991)
        THEN other.weight
      END
    ),
    0
  ) AS ahead,
  max(CASE WHEN other.deadline_us > :now_us THEN other.capacity END) AS live_capacity,
  coalesce(
    min(CASE WHEN other.deadline_us > :now_us AND other.id <> :id THEN other.deadline_us END),
    9007199254740991
  ) AS soonest_us,
  sum(CASE WHEN other.deadline_us <= :now_us THEN 1 ELSE 0 END) AS expired
FROM (SELECT 1 AS one) AS here
LEFT JOIN @claims AS own ON own.name = :name AND own.id = :id AND own.deadline_us > :now_us
LEFT JOIN @claims AS other ON other.name = :name
