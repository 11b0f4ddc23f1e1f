-- The live claims of one lock, in ticket order, a page at a time. Reads only.
--
-- KEYS  head, claims, queue
-- ARGV  the ticket after which the page begins, the most claims to look at
-- Out   {capacity, the ticket after which the next page begins or 0 if there is none,
--       {id, ticket, weight, who, age µs, remaining µs}...}

local after, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local l = openLock(1)
local now = NOW
local ids = {}
if l.onlyId then
  if l.only.ticket > after then ids = { l.onlyId } end
elseif l.live > 0 then
  ids = redis.call('ZRANGEBYSCORE', l.queue, string.format('(%d', after), '+inf', 'LIMIT', 0, most)
end
local out, last = { l.capacity, 0 }, 0
for _, id in ipairs(ids) do
  local claim = find(l, id)
  if claim then last = claim.ticket end
  if claim and claim.deadline > now then
    local since = claim.granted == 0 and claim.came or claim.granted
    out[#out + 1] = { id, claim.ticket, claim.weight, claim.who, now - since, claim.deadline - now }
  end
end
if #ids == most and not l.onlyId then out[2] = last end
return out
