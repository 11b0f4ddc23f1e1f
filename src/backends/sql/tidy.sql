-- Deletes the expired claims of names that no process asks for, and notifies the waiters behind them.
--
-- In:      list text: a JSON array of {name}
-- Out:     removed integer: how many claims were deleted; one row per name
-- Touches: claims

-- include: clock

-- each: element of `list`
-- has name name

-- include: lock
-- include: drop-expired
-- include: notify
