-- The uncontended claim: nobody is there, so one small value says it all and nothing else is touched.
-- Put in front of common.lua and claim.lua, whose inputs and outputs it shares; whatever is not that
-- simple falls through to them.

local idle = redis.call('GET', KEYS[1])
local last = idle and tonumber(idle) or not idle and 0
if last and ARGV[2] == '0' then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local ticket = math.max(last + 1, now)
  local deadline = now + ARGV[4]
  local head = string.format('o %s %d %d %d 0 %d %s %s', ARGV[1], ticket, now, now, deadline, ARGV[5], ARGV[7])
  redis.call('SET', KEYS[1], head, 'PXAT', math.ceil(math.max(deadline / 1000 + 1, ticket / 1000 + ARGV[8])))
  return { 'granted', ticket, deadline - now }
end
