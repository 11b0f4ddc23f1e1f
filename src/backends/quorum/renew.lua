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
  if not claim or claim.left or claim.ticket ~= ticket then
    answers[index] = gone(l, id)
  else
    if not claim.fixed and now + ttl > claim.deadline then
      claim.deadline = now + ttl
      save(l, retentionMs)
    end
    answers[index] = { 'held', claim.deadline - now }
  end
end
return answers
