-- What every script of a lock shares; put in front of each of them.
--
-- A lock has four keys with one hash tag, so that they live on one cluster slot:
--   head       string, in one of four forms:
--              '<last ticket>' of an idle lock
--              'f <ticket> <id> <ttl> <capacity> <weight> <fixed> 0 <who>' of one claim that was granted at
--              once, that is at its ticket, and has not been touched since
--              'o <id> <claim>' of one claim, whatever happened to it
--              'm <last> <capacity> <sum> <edge> <live> <waiting> <soonest> <latest> <kept>' of many claims
--   claims     hash: id -> claim
--   queue      sorted set: id by ticket, and 'until <id>' by the time (µs) at which the claim is dead, negated:
--              two orders in one key, because each key and each call costs time
--   forced     hash: id -> JSON { reason, by, resize } of claims that an operator took away
-- A claim is '<ticket> <came> <granted> <left> <deadline> <capacity> <weight> <fixed> <min hold> <who>'.
-- So an uncontended lock touches one key. When a second claim enters, the first one unfolds into the other
-- keys, and they stay in use until the last claim has left. A script that finds one claim needs the head alone.
--
-- Times are the server's, in µs; a double holds them, and tickets, exactly until the year 2255.
-- The rule decides which claims are granted. The head caches its boundary (edge: the last granted ticket) and
-- totals (sum: the granted weight), so that an operation costs O(log claims). No claim is dead before
-- <soonest> or alive after <latest>; the server keeps claims and queue until <kept> (ms).

local BATCH = 500
local FORCED_KEPT_MS = 60000
local KEPT_LONGER_MS = 60000
-- No id has a blank in it.
local UNTIL = 'until '

local function readClaim(text)
  local ticket, came, granted, left, deadline, capacity, weight, fixed, minHold, who =
    string.match(text, '^(%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (%d) (%d+) (.*)$')
  return {
    ticket = tonumber(ticket),
    came = tonumber(came),
    granted = tonumber(granted),
    left = left == '1',
    deadline = tonumber(deadline),
    capacity = tonumber(capacity),
    weight = tonumber(weight),
    fixed = fixed == '1',
    minHold = tonumber(minHold),
    who = who,
  }
end

local function writeClaim(c)
  return string.format('%d %d %d %d %d %d %d %d %d %s', c.ticket, c.came, c.granted, c.left and 1 or 0,
    c.deadline, c.capacity, c.weight, c.fixed and 1 or 0, c.minHold, c.who)
end

-- When the server's memory is full, it refuses a script's first write unless that needs no memory. So such
-- a one goes first where a lock is kept or given back; it changes nothing.
local function insistOnWriting(claims)
  if claims then redis.call('HDEL', claims, '') end
end

-- While a cluster moves a lock to another node, only some of its keys are named. Whatever needs more ends
-- here, before anything is written.
local function need(key)
  if not key then error('this needs more keys of the lock') end
end

local function openLock(first)
  local l = {
    key = KEYS[first],
    claims = KEYS[first + 1],
    queue = KEYS[first + 2],
    forced = KEYS[first + 3],
    last = 0,
    capacity = 0,
    sum = 0,
    edge = 0,
    live = 0,
    waiting = 0,
    soonest = 0,
    latest = 0,
    kept = 0,
  }
  local text = redis.call('GET', l.key) or '0'
  local kind = string.sub(text, 1, 1)
  if kind == 'f' or kind == 'o' then
    local id, claim = string.match(text, '^o (%S+) (.*)$')
    if kind == 'f' then
      local ticket, freshId, ttl, rest = string.match(text, '^f (%d+) (%S+) (%d+) (.*)$')
      id, claim = freshId, string.format('%s %s %s 0 %d %s', ticket, ticket, ticket, ticket + ttl, rest)
    end
    l.onlyId, l.only = id, readClaim(claim)
    l.last, l.edge, l.capacity = l.only.ticket, l.only.ticket, l.only.capacity
    l.sum, l.live, l.latest = l.only.weight, 1, l.only.deadline
  elseif kind == 'm' then
    need(l.claims)
    local last, capacity, sum, edge, live, waiting, soonest, latest, kept =
      string.match(text, '^m (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    l.last, l.capacity, l.sum, l.edge = tonumber(last), tonumber(capacity), tonumber(sum), tonumber(edge)
    l.live, l.waiting = tonumber(live), tonumber(waiting)
    l.soonest, l.latest, l.kept = tonumber(soonest), tonumber(latest), tonumber(kept)
  else
    -- A later release may write heads of another form. Then no claim is granted, and none is told that it is gone.
    l.last = tonumber(text) or error('the head of this lock cannot be read. Has a later release written it?')
  end
  return l
end

local function find(l, id)
  if l.live == 0 then return nil end
  if l.onlyId then return l.onlyId == id and l.only or nil end
  local text = redis.call('HGET', l.claims, id)
  return text and readClaim(text)
end

local function store(l, id, claim)
  if claim.deadline > l.latest then l.latest = claim.deadline end
  if l.onlyId == id then
    l.only = claim
    return
  end
  if l.soonest == 0 or claim.deadline < l.soonest then l.soonest = claim.deadline end
  redis.call('HSET', l.claims, id, writeClaim(claim))
  redis.call('ZADD', l.queue, claim.ticket, id, -claim.deadline, UNTIL .. id)
end

local function forgetMany(l)
  redis.call('DEL', l.claims, l.queue)
  l.soonest, l.kept = 0, 0
end

-- Makes room for a new claim, which is to be stored next.
local function makeRoom(l, id)
  local onlyId, only = l.onlyId, l.only
  l.onlyId, l.only = nil, nil
  if l.live == 0 then
    l.onlyId = id
  elseif onlyId then
    need(l.claims)
    -- Nothing should be there; if keys were lost, what they left behind must not come back to life.
    forgetMany(l)
    store(l, onlyId, only)
  end
  l.live = l.live + 1
end

local function isGranted(l, claim)
  return claim.ticket <= l.edge
end

-- Sent only when everything is written: a notification that is refused must not leave a step half done.
local notifications = {}

-- <who> begins with the channel on which its process is notified.
local function notify(claim, id, message)
  local channel = string.match(claim.who, '^(%S+)')
  notifications[#notifications + 1] = { channel, string.format('%d %s %s', claim.ticket, id, message) }
end

local function sendNotifications()
  -- Where this user may not publish, a process learns of what concerns it by the renewal of its claim.
  for _, one in ipairs(notifications) do redis.pcall('PUBLISH', one[1], one[2]) end
  notifications = {}
end

-- Whether the claim may stay with its process when no task needs it. JSON has a backslash in front of each quote in
-- a text, so no note looks like this.
local function isSticky(claim)
  return string.find(claim.who, '"sticky":true', 1, true) ~= nil
end

-- Another claim waits for a sticky claim, or was refused because of it: its process gives it up. Once there were
-- several claims the holder has been told, or it had to wait, and then it does not stay. But what it was told may be
-- lost; its renewal says that others wait, and of one that was refused only this does.
local function tellSticky(l, refused)
  local id, claim = l.onlyId, l.only
  if not id and refused then
    id = redis.call('ZRANGEBYSCORE', l.queue, 0, '+inf', 'LIMIT', 0, 1)[1]
    claim = id and find(l, id)
  end
  if claim and isSticky(claim) then notify(claim, id, 'wanted') end
end

-- The counter outlives the last claim by the retention, counted from the ticket: a clock that was set
-- back must not hand out a ticket twice.
local function save(l, retentionMs)
  if l.live == 0 then l.latest = 0 end
  local latestMs = math.ceil(l.latest / 1000) + 1
  local expireMs = math.max(latestMs, math.ceil(l.last / 1000) + retentionMs)
  local text
  if l.live == 0 then
    text = string.format('%d', l.last)
  elseif l.onlyId then
    text = 'o ' .. l.onlyId .. ' ' .. writeClaim(l.only)
  else
    if latestMs > l.kept then
      -- For a while longer than needed, so that this is not to be done at each step.
      l.kept = latestMs + math.min(retentionMs, KEPT_LONGER_MS)
      redis.call('PEXPIREAT', l.claims, l.kept)
      redis.call('PEXPIREAT', l.queue, l.kept)
    end
    text = string.format('m %d %d %d %d %d %d %d %d %d', l.last, l.capacity, l.sum, l.edge, l.live, l.waiting,
      l.soonest, l.latest, l.kept)
  end
  redis.call('SET', l.key, text, 'PXAT', expireMs)
  sendNotifications()
end

local function uncount(l, claim)
  l.live = l.live - 1
  if isGranted(l, claim) then
    l.sum = l.sum - claim.weight
  else
    l.waiting = l.waiting - 1
  end
end

local function remove(l, id, claim)
  if l.onlyId == id then
    l.onlyId, l.only = nil, nil
  else
    redis.call('HDEL', l.claims, id)
    redis.call('ZREM', l.queue, id, UNTIL .. id)
  end
  uncount(l, claim)
end

-- The counts follow from the claims. Where they do not agree, because keys were deleted or a step was cut
-- short for want of a right, whatever is still whole counts, and the rest is forgotten.
local function recount(l)
  local sum, edge, live, waiting, whole = 0, 0, 0, 0, {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', l.queue, 0, '+inf')) do
    local claim = find(l, id)
    if claim then
      live, whole[id] = live + 1, claim
      if waiting == 0 and sum + claim.weight <= l.capacity then
        sum, edge = sum + claim.weight, claim.ticket
      else
        waiting = waiting + 1
      end
    end
  end
  forgetMany(l)
  for id, claim in pairs(whole) do store(l, id, claim) end
  l.sum, l.edge, l.live, l.waiting = sum, edge, live, waiting
end

local function isWhole(l)
  return redis.call('ZCARD', l.queue) == 2 * l.live and redis.call('HLEN', l.claims) == l.live
end

local function nextWaiting(l)
  if l.waiting == 0 then return nil end
  return redis.call('ZRANGEBYSCORE', l.queue, string.format('(%d', l.edge), '+inf', 'LIMIT', 0, 1)[1]
end

-- The rule: grants the claims that fit now, in ticket order, and notifies their processes.
local function advance(l, now)
  while l.waiting > 0 do
    local id = nextWaiting(l)
    local claim = id and find(l, id)
    -- A dead claim, of more than were forgotten, is not granted: the next script forgets it.
    if not claim or claim.deadline <= now or l.sum + claim.weight > l.capacity then return end
    l.sum = l.sum + claim.weight
    l.edge = claim.ticket
    l.waiting = l.waiting - 1
    -- Where the grant starts a clock of its own, the claim itself has to ask for it.
    if not claim.fixed and claim.minHold == 0 then
      claim.granted = now
      redis.call('HSET', l.claims, id, writeClaim(claim))
    end
    notify(claim, id, 'granted')
  end
end

local function soonestDeadline(l)
  local first = redis.call('ZREVRANGEBYSCORE', l.queue, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return first[2] and -tonumber(first[2]) or 0
end

-- Forgets up to so many dead claims, and says how many.
local function dropBatch(l, now, most)
  local dead = redis.call('ZREVRANGEBYSCORE', l.queue, '(0', -now, 'LIMIT', 0, most)
  local ids = {}
  for _, member in ipairs(dead) do
    local id = string.sub(member, #UNTIL + 1)
    local claim = find(l, id)
    if claim then uncount(l, claim) end
    ids[#ids + 1] = id
  end
  if #ids > 0 then
    redis.call('HDEL', l.claims, unpack(ids))
    redis.call('ZREM', l.queue, unpack(ids))
    redis.call('ZREM', l.queue, unpack(dead))
  end
  return #dead
end

-- Forgets what is dead, but not more than the call may. Says whether anything was.
local function dropDead(l, now)
  if l.live == 0 then return false end
  if l.onlyId then
    if l.only.deadline > now then return false end
    remove(l, l.onlyId, l.only)
    return true
  end
  local recounted = not isWhole(l)
  if recounted then recount(l) end
  if l.soonest > now then return recounted end
  local dropped = 0
  while mayForget > 0 do
    local batch = dropBatch(l, now, math.min(BATCH, mayForget))
    dropped, mayForget = dropped + batch, mayForget - batch
    if batch < BATCH then break end
  end
  if dropped > 0 then advance(l, now) end
  l.soonest = soonestDeadline(l)
  return recounted or dropped > 0
end

-- The claim, unless it is dead: of more dead than were forgotten, none may come back.
local function findLive(l, id, now)
  local claim = find(l, id)
  if not claim or claim.deadline > now then return claim end
  remove(l, id, claim)
  advance(l, now)
  return nil
end

-- When the first of the claims here will be dead unless it is refreshed.
local function changeIn(l, now)
  return math.max(0, soonestDeadline(l) - now)
end

local function gone(l, id)
  need(l.claims)
  return { 'gone', l.forced and redis.call('HGET', l.forced, id) or '' }
end
