-- Asks for this node's vote, or refreshes a claim that has it. Idempotent by id; there is no queue.
--
-- KEYS  head, forced, born
-- ARGV  id
--       '<weight> <fixed 0/1> <min hold µs> <who: JSON>'
--       '<attempt> <ticket of the last answer, or 0> <ttl µs> <what a grant gives: the longer of ttl and min
--       hold, µs> <the lowest ticket to draw> <max ttl ms> <retention ms> <ms for which to keep the head of an
--       uncontended claim> <waits: 1, tries: 0>'
--       'verify' if the server may have been started anew since it was last asked
-- Out   {ticket, server time µs} of a grant with all that was asked for | {'granted', ticket, server time µs,
--       remaining µs} | {'refused', beginning of the id in the way or '+' for several, its
--       age µs, µs until something may change} | {'young', µs until this node votes} | {'max-ttl', ms that the others
--       agreed on} | {'gone', forced JSON or ''}

local id = ARGV[1]
local attempt, lastTicket, ttl, grant, floor, maxTtl, retentionMs, _, waits =
  string.match(ARGV[3], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d)$')
attempt, lastTicket, ttl, grant = tonumber(attempt), tonumber(lastTicket), tonumber(ttl), tonumber(grant)
maxTtl, retentionMs = tonumber(maxTtl), tonumber(retentionMs)

-- Born is '<since µs> <max ttl ms> <run id>'. A node that has lost its memory, in part (a restart) or as a
-- whole (a flush), may have forgotten claims that others still rely on: it votes when all of them have ended.
local function whyNoVote(now)
  local since, agreed, runId = string.match(redis.call('GET', KEYS[3]) or '', '^(%d+) (%d+) (%S+)$')
  local current = runId
  if not since or ARGV[4] then current = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') end
  since, agreed = tonumber(since or 0), tonumber(agreed or 0)
  local lasts = math.max(agreed, maxTtl)
  -- A clock that is set back to before the birth starts the time anew, which is longer than needed.
  if current ~= runId or now < since then since = now end
  if current ~= runId or now == since or lasts > agreed then
    redis.call('SET', KEYS[3], string.format('%d %d %s', since, lasts, current))
  end
  if lasts > maxTtl then return { 'max-ttl', lasts } end
  local votesAt = since + lasts * 1000
  if now < votesAt then return { 'young', votesAt - now } end
end

local now = serverTime()
-- Also for claims that need no vote: with their request this script becomes known, and later ones no longer look.
local refusal = whyNoVote(now)
local l = openLock(KEYS[1], KEYS[2], now)
local claim = find(l, id)

if claim and (claim.left or attempt < claim.attempt) then
  return gone(l, id)
elseif lastTicket == 0 and refusal then
  -- Also what an earlier attempt has here may be older than what was forgotten.
  return refusal
elseif claim then
  claim.attempt = attempt
  if lastTicket ~= 0 then settle(l, claim, lastTicket) end
  claim.who = string.match(ARGV[2], '^%d+ %d %d+ (.*)$')
  if not claim.fixed then claim.deadline = math.max(claim.deadline, now + ttl) end
elseif lastTicket ~= 0 then
  return gone(l, id)
else
  -- One client that errs must not use up the tickets of all others.
  local lowest = tonumber(floor) < now + 1000000 and tonumber(floor) or 0
  local ticket = math.max(l.last + 1, now, lowest)
  claim = readClaim(string.format('%s %d %d %d 0 %d %s', id, attempt, ticket, now, now + grant, ARGV[2]))
  if l.sum + claim.weight > WHOLE then
    local soonest = l.claims[1]
    for _, other in ipairs(l.claims) do
      if other.deadline < soonest.deadline then soonest = other end
    end
    if waits == '1' and not l.wanted then
      l.wanted = true
      save(l, retentionMs)
    end
    local by = soonest.weight < WHOLE and '+' or string.sub(soonest.id, 1, 8)
    return { 'refused', by, now - soonest.granted, soonest.deadline - now }
  end
  l.last = ticket
  l.claims[#l.claims + 1] = claim
end
save(l, retentionMs)
return { 'granted', claim.ticket, now, claim.deadline - now }
