-- Who a node is, and whether it has ever been asked for a vote or, if that is declared, that nothing can have
-- been lost here, so that it votes at once.
--
-- KEYS  born
-- ARGV  max ttl ms, and 'declare' to declare it
-- Out   {run id, 1 if it has never been asked, else 0}

local runId = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local asked = redis.call('EXISTS', KEYS[1])
if ARGV[2] == 'declare' and asked == 0 then
  redis.call('SET', KEYS[1], string.format('0 %d %s', tonumber(ARGV[1]), runId))
end
return { runId, 1 - asked }
