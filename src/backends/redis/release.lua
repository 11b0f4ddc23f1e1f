-- Removes a claim: a waiter leaves, a holder releases, or an operator takes the claim away. Notifies the waiters that
-- are granted by that.
--
-- KEYS  head, claims, queue, and forced if it is taken away
-- ARGV  id, retention ms, and JSON { reason, by } if it is taken away or 'unused' if no work was done under it
-- Out   1 if the claim was there, else 0

local id, retentionMs, ending = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local force = ending ~= 'unused' and ending
insistOnWriting(KEYS[2])
local l = openLock(1)
if force then need(l.forced) end
local now = NOW
local changed = dropDead(l, now)
local claim = findLive(l, id, now)

if not claim or (claim.left and not ending) then
  if changed then save(l, retentionMs) end
  return 0
end

-- Counted from now at the latest: the clock may have been set back since the grant.
local heldUntil = math.min(claim.granted, now) + claim.minHold
if not ending and claim.granted > 0 and heldUntil > now then
  -- The holder has released, but no other claim may be granted before the minimal time is over.
  claim.left, claim.deadline = true, heldUntil
  store(l, id, claim)
  -- The next waiter is told to ask: its wait will be shorter than the last answer said.
  local nextId = nextWaiting(l)
  local waiting = nextId and find(l, nextId)
  if waiting then notify(waiting, nextId, 'ask') end
else
  remove(l, id, claim)
  advance(l, now)
end
if force then
  redis.call('HSET', l.forced, id, force)
  redis.call('PEXPIRE', l.forced, FORCED_KEPT_MS)
  notify(claim, id, force)
end
save(l, retentionMs)
return 1
