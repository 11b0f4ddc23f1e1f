-- The uncontended release: the only claim, untouched since it was granted, leaves, and the lock is idle.
-- Put in front of common.lua and release.lua, whose inputs and outputs it shares; whatever is not that
-- simple falls through to them.

local head = redis.call('GET', KEYS[1])
if not head then return 0 end
local ticket, onlyId, ttl = string.match(head, '^f (%d+) (%S+) (%d+)')
if onlyId == ARGV[1] and ARGV[3] == '' then
  local time = redis.call('TIME')
  redis.call('SET', KEYS[1], ticket, 'PX', ARGV[2])
  return ticket + ttl > time[1] * 1000000 + time[2] and 1 or 0
end
