-- Which server a node is, and since when it remembers everything. Where it has never been asked for a vote, it gets
-- a mark, 'new <µs> <run id>': a process that declares that nothing can have been lost here names the mark that it
-- has seen, and if that is gone, something has been lost. Notes if the server was started anew since it was last asked.
--
-- KEYS  born
-- ARGV  to declare it, so that it votes at once: max ttl ms, 'declare', and the mark (without: whatever it is)
-- Out   {run id, born as it is now: different for each server, start, database and prefix}

-- As if it had remembered for so long, 30 years: longer than any max ttl.
local LONG_US = 1000000000000000

local runId = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local born = redis.call('GET', KEYS[1])
local agreed, known = string.match(born or '', '^%d+ (%d+) (%S+)$')
local marked = string.match(born or '', '^new %d+ (%S+)$') == runId
local noted
if known and known ~= runId then
  noted = string.format('%d %d %s', now, tonumber(agreed), runId)
elseif not known and ARGV[2] == 'declare' and (not ARGV[3] or marked and ARGV[3] == born) then
  noted = string.format('%d %d %s', now - LONG_US, tonumber(ARGV[1]), runId)
elseif not known and not marked then
  noted = string.format('new %d %s', now, runId)
end
if noted then redis.call('SET', KEYS[1], noted) end
return { runId, noted or born }
