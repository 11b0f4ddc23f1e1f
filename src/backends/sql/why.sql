-- Why a claim is gone, if somebody took it away.
--
-- In:      :id, :now_us
-- Out:     one row or none: `reason`, `by_whom`
-- Touches: nothing
SELECT reason, by_whom FROM @forced WHERE id = :id AND until_us > :now_us
