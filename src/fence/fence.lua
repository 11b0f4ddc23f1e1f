-- Lets the script behind it go on if its token is not older than the newest that was seen; put in front of it.
--
-- It takes its own inputs from the ends, so that the script behind it finds its KEYS and ARGV as if it were alone:
--   KEYS  …, fence
--   ARGV  …, token, how long to remember it (ms; 0 for ever)
-- A stale token ends it with the error STALETOKEN <the newest>, and nothing is written.
do
  local fence, keptMs, token = table.remove(KEYS), tonumber(table.remove(ARGV)), table.remove(ARGV)
  local highest = redis.call('GET', fence)
  -- Compared as digits: a double does not hold 64 bits.
  if highest and (#highest > #token or (#highest == #token and highest > token)) then
    return redis.error_reply('STALETOKEN ' .. highest)
  end
  redis.call('SET', fence, token)
  if keptMs > 0 then redis.call('PEXPIRE', fence, keptMs) end
end
