-- Extends claims that are still there; never creates one. Any number of claims, each of its own lock.
--
-- KEYS  head, forced; for each claim
-- ARGV  retention ms, then id, ticket, ttl µs for each claim
-- Out   for each claim {'held', remaining µs} | {'gone', forced JSON or ''}

local retentionMs = tonumber(ARGV[1])
local now = serverTime()
local answers = {}
insistOnWriting(KEYS[2])

for index = 1, (#ARGV - 1) / 3 do
  local arg, key = (index - 1) * 3 + 1, (index - 1) * 2 + 1
  local id, ticket, ttl = ARGV[arg + 1], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
  local l = openLock(KEYS[key], KEYS[key + 1], now)
  local claim = find(l, id)
  if not claim or claim.left then
    answers[index] = gone(l, id)
  else
    if not claim.fixed then claim.deadline = math.max(claim.deadline, now + ttl) end
    -- This node may not have heard of it yet.
    settle(l, claim, ticket)
    save(l, retentionMs)
    answers[index] = { 'held', claim.deadline - now }
  end
end
return answers
