-- Enters the queue, or refreshes a claim that is in it, and says whether it is granted. Idempotent by id.
--
-- KEYS  head, claims, queue, and forced unless it is a first claim
-- ARGV  few texts, because each argument costs the client and the server more than parsing it here; but one that
--       is often the same costs less than a part of one that is not:
--       '<id> <what a grant gives: the longer of ttl and min hold, µs> <capacity> <weight> <fixed 0/1>
--       <min hold µs> <who: channel for notifications, JSON>'
--       '<ticket of the last answer, or 0> <ttl µs> <"try" not to enter the queue, else how many may wait before
--       a further waiter is refused, -1 for any number> <retention ms>'
--       floor: the lowest ticket to draw, or 0
--       ms for which to keep the head of an uncontended claim; only if this is a first, simple one
-- Out   ticket (of a new claim that is granted at once, with all that was asked for)
--       | {'granted', ticket, remaining µs} | {'waiting', ticket, remaining µs, change in µs} | {'refused'}
--       | {'queue-full', waiters} | {'capacity-mismatch', capacity} | {'gone', forced JSON or ''}
-- A sticky holder is notified when a first claim comes behind it, or is refused because of it.

local id, rest = string.match(ARGV[1], '^(%S+) %d+ (.*)$')
local lastTicket, ttl, room, retentionMs = string.match(ARGV[2], '^(%d+) (%d+) (%S+) (%d+)$')
local ticket = tonumber(lastTicket)
ttl, retentionMs = tonumber(ttl), tonumber(retentionMs)

-- A waiter that was granted must be able to take its grant, or its claim would block all others for a ttl.
if ticket ~= 0 then insistOnWriting(KEYS[2]) end
local l = openLock(1)
local now = NOW
local changed = dropDead(l, now)
local claim = findLive(l, id, now)
local isNew = false

if claim and not claim.left and (ticket == 0 or ticket == claim.ticket) then
  claim.who = string.match(rest, '^%d+ %d+ %d %d+ (.*)$')
else
  local known = claim
  isNew = true
  claim = readClaim(string.format('%d %d 0 0 0 %s', draw(l.last, now, tonumber(ARGV[3])), now, rest))
  local admitted = l.waiting == 0 and (l.live == 0 or l.sum + claim.weight <= l.capacity)
  local refusal
  if known or ticket ~= 0 then
    refusal = gone(l, id)
  elseif l.live > 0 and claim.capacity ~= l.capacity then
    refusal = { 'capacity-mismatch', l.capacity }
  elseif not admitted then
    if room == 'try' then
      refusal = { 'refused' }
    elseif room ~= '-1' and l.waiting >= tonumber(room) then
      refusal = { 'queue-full', l.waiting }
    end
    -- Behind a first waiter the holder knows already.
    if l.waiting == 0 then tellSticky(l, refusal) end
  end
  if refusal then
    if changed then save(l, retentionMs) else sendNotifications() end
    return refusal
  end
  makeRoom(l, id)
  l.last, l.capacity = claim.ticket, claim.capacity
  if admitted then
    l.sum, l.edge = l.sum + claim.weight, claim.ticket
  else
    l.waiting = l.waiting + 1
  end
end

local granted = isGranted(l, claim)
if granted and claim.granted == 0 then
  claim.granted = now
  claim.deadline = math.max(claim.deadline, now + math.max(ttl, claim.minHold))
elseif not granted or not claim.fixed then
  claim.deadline = math.max(claim.deadline, now + ttl)
end
store(l, id, claim)
save(l, retentionMs)
if granted and isNew then return claim.ticket end
if granted then return { 'granted', claim.ticket, claim.deadline - now } end
return { 'waiting', claim.ticket, claim.deadline - now, changeIn(l, now) }
