-- The ticket of a new claim, or the version of a changed cell. Put in front of the scripts that draw one.
--
-- It is greater than the last one of that name, and not behind the server's clock (µs). Nor is it behind the
-- floor, which is the server's clock as the process that asks knows it: this server may have taken the place of
-- one whose clock was ahead, and may never have got its last tickets. A floor more than an hour ahead is no
-- clock, and is ignored.

local FLOOR_BOUND_US = 3600000000

local function draw(last, now, floor)
  if floor > now + FLOOR_BOUND_US then floor = 0 end
  return math.max(last + 1, now, floor)
end
