-- Reads or changes a cell: a small value with a version.
--
-- KEYS  cell
-- ARGV  nothing: read it
--       '<what it must be: its version, 0 for none, -1 for whatever it is>', '<ms to keep it, or 0 for ever>',
--       and its new text, or no third argument to delete it
-- Out   reading: the version and the text, or nothing
--       changing: the new version, or nothing if it was not as expected
--
-- The value is '<version> <text>'. The version is never behind the clock, so that it grows also when the cell
-- was gone in between.

local stored = redis.call('GET', KEYS[1])
local version, text
if stored then version, text = string.match(stored, '^(%d+) (.*)$') end
if #ARGV == 0 then return version and { version, text } or {} end

if ARGV[1] ~= '-1' and ARGV[1] ~= (version or '0') then return false end
local time = redis.call('TIME')
local next = string.format('%d', math.max(tonumber(version or 0) + 1, time[1] * 1000000 + time[2]))
if not ARGV[3] then
  redis.call('DEL', KEYS[1])
elseif ARGV[2] == '0' then
  redis.call('SET', KEYS[1], next .. ' ' .. ARGV[3])
else
  redis.call('SET', KEYS[1], next .. ' ' .. ARGV[3], 'PX', ARGV[2])
end
return next
