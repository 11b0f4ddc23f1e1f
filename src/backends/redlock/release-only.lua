-- The uncontended release: the only claim leaves, and the lock is idle. Put in front of common.lua and
-- release.lua, whose inputs and outputs it shares; whatever is not that simple falls through to them.

local head = redis.call('GET', KEYS[1])
if not head then return 0 end
if not ARGV[5] then
  local last, id, attempt, deadline = string.match(head, '^(%d+)\n(%S+) (%d+) %d+ %d+ 0 (%d+) %d+ %d 0 [^\n]*$')
  if id == ARGV[1] and tonumber(attempt) <= tonumber(ARGV[2]) then
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    -- A clock that was set back needs the counter for longer than it is kept here.
    if tonumber(last) < now + 1000000 then
      local kept = redis.pcall('SET', KEYS[1], last, 'PX', ARGV[3] + 1000)
      -- Where the server's memory is full, only the longer way leads there.
      if not kept.err then return tonumber(deadline) > now and 1 or 0 end
    end
  end
end
