-- The uncontended claim at a node that may vote: nobody is there, so one small value says it all.
-- Put in front of common.lua and claim.lua, whose inputs and outputs it shares; whatever is not that simple
-- falls through to them.

if not ARGV[4] then
  local head, born = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[3])
  local last = head and tonumber(head) or not head and 0
  if last and born then
    local attempt, ticket, ttl, floor, maxTtl, kept =
      string.match(ARGV[3], '^(%d+) (%d+) %d+ (%d+) (%d+) (%d+) %d+ (%d+)')
    local since, agreed = string.match(born, '^(%d+) (%d+) ')
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local drawn = math.max(last + 1, now, tonumber(floor))
    -- A clock that was set back needs the counter for longer than it is kept here.
    if ticket == '0' and agreed == maxTtl and now >= since + maxTtl * 1000 and drawn < now + 1000000 then
      redis.call('SET', KEYS[1], string.format('%d\n%s %s %d %d 0 %d %s', drawn, ARGV[1], attempt, drawn, now,
        now + ttl, ARGV[2]), 'PX', kept)
      return { 'granted', drawn, now, tonumber(ttl) }
    end
  end
end
