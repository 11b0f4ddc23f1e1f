-- The uncontended release: the only claim leaves, and the lock is idle. Put in front of common.lua and
-- release.lua, whose inputs and outputs it shares; whatever is not that simple falls through to them.

local id, retentionMs, force = string.match(ARGV[1], '^(%S+) (%d+) (.*)$')

local head = redis.call('GET', KEYS[1])
if not head then return 0 end
local onlyId, last, deadline = string.match(head, '^o (%S+) (%d+) %d+ %d+ 0 (%d+) %d+ %d+ %d 0 ')
if onlyId == id and force == '' then
  local time = redis.call('TIME')
  redis.call('SET', KEYS[1], last, 'PXAT', math.ceil(last / 1000 + retentionMs))
  return tonumber(deadline) > time[1] * 1000000 + time[2] and 1 or 0
end
