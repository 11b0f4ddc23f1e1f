-- The uncontended claim: nobody is there, so one small value says it all and nothing else is touched.
-- Put in front of common.lua and claim.lua, whose inputs and outputs it shares; whatever is not that
-- simple falls through to them.

local id, lastTicket, ttl, firstTtl, room, retentionMs, rest =
  string.match(ARGV[1], '^(%S+) (%d+) (%d+) (%d+) (%S+) (%d+) (.*)$')

local idle = redis.call('GET', KEYS[1])
local last = idle and tonumber(idle) or not idle and 0
if last and lastTicket == '0' then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local ticket = math.max(last + 1, now)
  local deadline = now + firstTtl
  local head = string.format('o %s %d %d %d 0 %d %s', id, ticket, now, now, deadline, rest)
  redis.call('SET', KEYS[1], head, 'PXAT', math.ceil(math.max(deadline / 1000 + 1, ticket / 1000 + retentionMs)))
  return { 'granted', ticket, deadline - now }
end
