-- The uncontended release: the only claim leaves, and the lock is idle.
-- Put in front of common.lua and release.lua, whose inputs and outputs it shares; whatever is not that
-- simple falls through to them.

local head = redis.call('GET', KEYS[1])
if not head then return 0 end
local ticket, onlyId, ttl = string.match(head, '^f (%d+) (%S+) (%d+)')
local deadline = ticket and ticket + ttl
if not ticket then
  -- Written in full; but with a minimal time, release.lua decides.
  onlyId, ticket, deadline = string.match(head, '^o (%S+) (%d+) %d+ %d+ 0 (%d+) %d+ %d+ %d 0 ')
end
if onlyId == ARGV[1] and not ARGV[3] then
  local now = NOW
  local keptMs, ahead = ARGV[2], ticket - now
  -- The counter of a ticket that is ahead of the clock is needed for longer than the retention.
  if ahead > 0 then keptMs = keptMs + math.ceil(ahead / 1000) end
  local kept = redis.pcall('SET', KEYS[1], ticket, 'PX', keptMs)
  if ahead <= 0 or not kept.err then
    -- The server's memory is full: then without the counter, whose floor is the clock.
    if kept.err then redis.call('DEL', KEYS[1]) end
    return deadline - now > 0 and 1 or 0
  end
end
