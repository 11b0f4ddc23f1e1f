-- What every script of a node shares; put in front of each of them.
--
-- A lock has two keys with one hash tag:
--   head       string: '<last ticket>', and 'w' behind it if a waiter was refused since the last notification; then,
--              each on a line of its own, the live claims
--   forced     hash: id -> JSON { reason, by, resize } of claims that an operator took away
-- A claim is '<id> <attempt> <ticket> <granted> <left> <deadline> <weight> <fixed> <min hold> <who>'. There is
-- no queue: all claims that are there have this node's vote. A later attempt of the same id replaces an
-- earlier one, and nothing that belongs to an earlier attempt touches a later one, however late it arrives.
--
-- Times are this server's, in µs; a double holds them, and tickets, exactly until the year 2255.

local FORCED_KEPT_MS = 60000
local WHOLE = 2147483647

local function serverTime()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function readClaim(text)
  local id, attempt, ticket, granted, left, deadline, weight, fixed, minHold, who =
    string.match(text, '^(%S+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d) (%d+) (.*)$')
  return {
    id = id,
    attempt = tonumber(attempt),
    ticket = tonumber(ticket),
    granted = tonumber(granted),
    left = left == '1',
    deadline = tonumber(deadline),
    weight = tonumber(weight),
    fixed = fixed == '1',
    minHold = tonumber(minHold),
    who = who,
  }
end

local function writeClaim(c)
  return string.format('%s %d %d %d %d %d %d %d %d %s', c.id, c.attempt, c.ticket, c.granted, c.left and 1 or 0,
    c.deadline, c.weight, c.fixed and 1 or 0, c.minHold, c.who)
end

-- When the server's memory is full, it refuses a script's first write unless that needs no memory. So such
-- a one goes first where a lock is kept or given back; it changes nothing.
local function insistOnWriting(forced)
  redis.call('HDEL', forced, '')
end

-- The lock without its dead: they had their time, and never come back.
local function openLock(key, forced, now)
  local l = { key = key, forced = forced, last = 0, wanted = false, claims = {}, sum = 0 }
  local text = redis.call('GET', key)
  if not text then return l end
  -- A later release may write heads of another form. Then no claim is granted, and none is told that it is gone.
  local last, wanted = string.match(text .. '\n', '^(%d+)(w?)\n')
  if not last then error('the head of this lock cannot be read. Has a later release written it?') end
  l.last, l.wanted = tonumber(last), wanted == 'w'
  for line in string.gmatch(text, '\n([^\n]+)') do
    local claim = readClaim(line)
    if claim.deadline > now then
      l.claims[#l.claims + 1] = claim
      l.sum = l.sum + claim.weight
    end
  end
  return l
end

local function find(l, id)
  for index, claim in ipairs(l.claims) do
    if claim.id == id then return claim, index end
  end
end

-- The counter outlives the last claim by the retention, counted from the ticket: a clock that was set back
-- must not hand out a ticket twice.
local function save(l, retentionMs)
  local expireMs = math.ceil(l.last / 1000) + retentionMs
  local lines = { string.format('%d', l.last) .. (l.wanted and 'w' or '') }
  for _, claim in ipairs(l.claims) do
    expireMs = math.max(expireMs, math.ceil(claim.deadline / 1000) + 1)
    lines[#lines + 1] = writeClaim(claim)
  end
  redis.call('SET', l.key, table.concat(lines, '\n'), 'PXAT', expireMs)
end

-- What a majority amounted to counts, whatever this node drew for it.
local function settle(l, claim, ticket)
  claim.ticket = ticket
  l.last = math.max(l.last, ticket)
end

local function gone(l, id)
  return { 'gone', redis.call('HGET', l.forced, id) or '' }
end
