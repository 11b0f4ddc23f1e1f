-- Gives the vote back or, by an operator, takes it away. Notifies the waiters that were refused meanwhile.
--
-- KEYS  head, forced
-- ARGV  id, attempt, retention ms, '<channel> <the lock, as the message names it>', and JSON { reason, by } if it is
--       taken away or 'unused' if no work was done under it
-- Out   1 if the claim was there, 2 if another process had asked for the lock meanwhile, else 0

local id, attempt, retentionMs, ending = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[5]
local force = ending and ending ~= 'unused' and ending
insistOnWriting(KEYS[2])
local now = serverTime()
local l = openLock(KEYS[1], KEYS[2], now)
local claim, index = find(l, id)

if not claim or attempt < claim.attempt or (claim.left and not ending) then return 0 end

-- Counted from now at the latest: the clock may have been set back since the grant.
local heldUntil = math.min(claim.granted, now) + claim.minHold
if not ending and heldUntil > now then
  -- The holder has released, but no other claim may be granted before the minimal time is over.
  claim.left, claim.deadline = true, heldUntil
else
  table.remove(l.claims, index)
end
if force then
  redis.call('HSET', l.forced, id, force)
  redis.call('PEXPIRE', l.forced, FORCED_KEPT_MS)
end
local wanted = l.wanted
l.wanted = false
save(l, retentionMs)
-- Everything is written. Where this user may not publish, waiters are not notified, and ask again by themselves.
local channel, lock = string.match(ARGV[4], '^(%S+) (%S+)$')
if wanted then redis.pcall('PUBLISH', channel, '0 ' .. lock .. ' ask') end
if force then redis.pcall('PUBLISH', channel, string.format('%d %s %s', claim.ticket, id, force)) end
return wanted and 2 or 1
