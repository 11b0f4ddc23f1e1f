-- The uncontended release: the only claim, untouched since it was granted, leaves, and the lock is idle.
-- Put in front of common.lua and release.lua, whose inputs and outputs it shares; whatever is not that
-- simple falls through to them.

local head = redis.call('GET', KEYS[1])
if not head then return 0 end
local ticket, onlyId, ttl = string.match(head, '^f (%d+) (%S+) (%d+)')
if onlyId == ARGV[1] and not ARGV[3] then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  -- A clock that was set back needs the counter for longer than the retention.
  if now >= tonumber(ticket) then
    local kept = redis.pcall('SET', KEYS[1], ticket, 'PX', ARGV[2])
    -- The server's memory is full: then without the counter, whose floor is the clock.
    if kept.err then redis.call('DEL', KEYS[1]) end
    return ticket + ttl > now and 1 or 0
  end
end
