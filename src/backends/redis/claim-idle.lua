-- The uncontended claim: the lock has no other claim, so one small value holds all of it, and nothing else is touched.
-- Put in front of common.lua and claim.lua, whose inputs and outputs it shares; whatever is not that
-- simple falls through to them. This is the hot path: every call, and every number formatted as text, costs time.

if ARGV[4] then
  local idle = redis.call('GET', KEYS[1])
  local last = idle and tonumber(idle) or not idle and 0
  if last then
    local now = NOW
    if now > last and now - ARGV[3] >= 0 then
      local ticket = TIME[1] .. string.sub('00000' .. TIME[2], -6)
      redis.call('SET', KEYS[1], 'f ' .. ticket .. ' ' .. ARGV[1], 'PX', ARGV[4])
      return now
    end
    -- The ticket may be ahead of the clock, so the time of the grant stands beside it.
    local ticket = draw(last, now, tonumber(ARGV[3]))
    local id, ttl, shape = string.match(ARGV[1], '^(%S+) (%d+) (.*)$')
    local head = string.format('o %s %d %d %d 0 %d %s', id, ticket, now, now, now + ttl, shape)
    redis.call('SET', KEYS[1], head, 'PX', ARGV[4] + math.ceil((ticket - now) / 1000))
    return ticket
  end
end
