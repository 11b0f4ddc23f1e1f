-- What `look` would find at a name where nobody is.
--
-- In:      :min_hold_us
-- Out:     one row, as that of `look`
-- Touches: nothing
SELECT
  0 AS mine,
  0 AS own_weight,
  0 AS own_capacity,
  0 AS own_fixed,
  :min_hold_us AS own_min_hold_us,
  NULL AS own_granted_us,
  0 AS own_deadline_us,
  0 AS has_left,
  0 AS ahead,
  NULL AS live_capacity,
  9223372036854775807 AS soonest_us,
  0 AS expired
