-- The uncontended claim: nobody is there, so one small value says it all and nothing else is touched.
-- Put in front of common.lua and claim.lua, whose inputs and outputs it shares; whatever is not that
-- simple falls through to them. Every call and every number written as text is felt here.

if ARGV[3] then
  local idle = redis.call('GET', KEYS[1])
  local last = idle and tonumber(idle) or not idle and 0
  if last then
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    if now > last then
      local ticket = time[1] .. string.sub('00000' .. time[2], -6)
      redis.call('SET', KEYS[1], 'f ' .. ticket .. ' ' .. ARGV[1], 'PX', ARGV[3])
      return now
    end
  end
end
