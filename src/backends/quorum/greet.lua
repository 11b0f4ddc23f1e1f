-- Who a node is, and whether it has ever been asked for a vote or, if that is declared, that nothing can have
-- been lost here, so that it votes at once. Notes if it was started anew since it was last asked.
--
-- KEYS  born
-- ARGV  to declare it: max ttl ms, 'declare'
-- Out   {run id, 1 if it has never been asked, else 0}

local runId = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local born = redis.call('GET', KEYS[1])
local agreed, known = string.match(born or '', '^%d+ (%d+) (%S+)$')
if known and known ~= runId then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  redis.call('SET', KEYS[1], string.format('%d %d %s', now, tonumber(agreed), runId))
elseif ARGV[2] == 'declare' and not born then
  redis.call('SET', KEYS[1], string.format('0 %d %s', tonumber(ARGV[1]), runId))
end
return { runId, born and 0 or 1 }
