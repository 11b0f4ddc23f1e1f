-- The live claims of one lock, in ticket order. Reads only.
--
-- KEYS  head, claims, queue, deadlines, forced
-- ARGV  the most claims to tell of
-- Out   {capacity, {id, ticket, weight, who, age µs, remaining µs}...}

local l = openLock(1)
local now = serverTime()
local ids = l.onlyId and { l.onlyId } or redis.call('ZRANGE', l.queue, 0, tonumber(ARGV[1]) - 1)
local out = { l.capacity }
for _, id in ipairs(ids) do
  local claim = find(l, id)
  if claim and claim.deadline > now then
    local since = claim.granted == 0 and claim.came or claim.granted
    out[#out + 1] = { id, claim.ticket, claim.weight, claim.who, now - since, claim.deadline - now }
  end
end
return out
