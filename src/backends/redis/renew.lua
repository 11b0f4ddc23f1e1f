-- Extends claims that are still there; never creates one. Any number of claims, each of its own lock.
--
-- KEYS  head, claims, queue, forced; for each claim
-- ARGV  retention ms, then id, ticket, ttl µs for each claim
-- Out   for each claim {'held', remaining µs, and 'wanted' if it is sticky and others wait} | {'waiting', remaining µs, change in µs} | {'gone', forced JSON or ''}

local retentionMs = tonumber(ARGV[1])
local now = NOW
local answers = {}
insistOnWriting(KEYS[2])

for index = 1, (#ARGV - 1) / 3 do
  local arg = (index - 1) * 3 + 1
  local id, ticket, ttl = ARGV[arg + 1], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
  local l = openLock((index - 1) * 4 + 1)
  local changed = dropDead(l, now)
  local claim = findLive(l, id, now)
  if not claim or claim.left or claim.ticket ~= ticket then
    answers[index] = gone(l, id)
    if changed then save(l, retentionMs) end
  else
    if not claim.fixed or claim.granted == 0 then claim.deadline = math.max(claim.deadline, now + ttl) end
    store(l, id, claim)
    save(l, retentionMs)
    if isGranted(l, claim) then
      answers[index] = { 'held', claim.deadline - now, l.waiting > 0 and isSticky(claim) and 'wanted' or nil }
    else
      answers[index] = { 'waiting', claim.deadline - now, changeIn(l, now) }
    end
  end
end
return answers
