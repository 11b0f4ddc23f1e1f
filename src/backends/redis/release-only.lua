-- The uncontended release: the only claim leaves, and the lock is idle. Put in front of common.lua and
-- release.lua, whose inputs and outputs it shares; whatever is not that simple falls through to them.

local head = redis.call('GET', KEYS[1])
if not head then return 0 end
local id, last, deadline = string.match(head, '^o (%S+) (%d+) %d+ %d+ 0 (%d+) %d+ %d+ %d 0 ')
if id == ARGV[1] and ARGV[3] == '' then
  local time = redis.call('TIME')
  redis.call('SET', KEYS[1], last, 'PXAT', math.ceil(last / 1000 + ARGV[2]))
  return tonumber(deadline) > time[1] * 1000000 + time[2] and 1 or 0
end
