-- The live claims of one lock. Reads only.
--
-- KEYS  head, forced
-- ARGV  none
-- Out   {id, ticket, weight, who, age µs, remaining µs}...

local now = serverTime()
local l = openLock(KEYS[1], KEYS[2], now)
local out = {}
for index, claim in ipairs(l.claims) do
  out[index] = { claim.id, claim.ticket, claim.weight, claim.who, now - claim.granted, claim.deadline - now }
end
return out
