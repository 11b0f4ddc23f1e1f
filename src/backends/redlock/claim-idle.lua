-- The uncontended claim at a node that may vote: the lock has no other claim, so one small value holds all of it.
-- Put in front of common.lua and claim.lua, whose inputs and outputs it shares; whatever is not that simple
-- falls through to them. This is the hot path: every call, and every number formatted as text, costs time.

if not ARGV[4] then
  local head, born = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[3])
  local last = head and tonumber(head) or not head and 0
  if last and born then
    local attempt, ticket, ttl, floor, maxTtl, kept =
      string.match(ARGV[3], '^(%d+) (%d+) %d+ (%d+) (%d+) (%d+) %d+ (%d+)')
    local since, agreed = string.match(born, '^(%d+) (%d+) ')
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local drawn = tonumber(floor)
    if drawn < now or drawn <= last then
      drawn = math.max(last + 1, now)
      floor = string.format('%d', drawn)
    end
    -- A clock that was set back needs the counter for longer than it is kept here.
    if ticket == '0' and agreed == maxTtl and now >= since + maxTtl * 1000 and drawn < now + 1000000 then
      local granted = time[1] .. string.sub('00000' .. time[2], -6)
      redis.call('SET', KEYS[1], floor .. '\n' .. ARGV[1] .. ' ' .. attempt .. ' ' .. floor .. ' ' .. granted ..
        ' 0 ' .. string.format('%d', now + ttl) .. ' ' .. ARGV[2], 'PX', kept)
      return { drawn, now }
    end
  end
end
