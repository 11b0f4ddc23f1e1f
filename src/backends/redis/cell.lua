-- Reads or changes a cell: a small value with a version.
--
-- KEYS  the cell; and to change it, a key of this very change
-- ARGV  nothing: read it
--       '<what it must be: its version, 0 for none, -1 for whatever it is>', '<ms to keep it, or 0 for ever>',
--       '<ms to remember this change>', '<ms to remember that it was deleted>', '<the lowest version to draw>',
--       and its new text, or no sixth argument to delete it
-- Out   reading: the version and the text, or nothing
--       changing: the new version, or nothing if it was not as expected
--
-- The value is '<version> <text>', or '<version>' alone of one that was deleted. The version is never behind the
-- clock, and of a deleted cell it is remembered until the clock has passed it for long: so it grows also when the
-- cell was gone in between, and when the clock was set back.
--
-- A client may send a script again when its connection broke, though the first one was carried out. So a change
-- is remembered for as long as its caller waits for the answer. While a cluster moves the cell, its key is not named.

local stored = redis.call('GET', KEYS[1])
local version, text
if stored then version, text = string.match(stored, '^(%d+) ?(.*)$') end
local found = stored and stored ~= version
if #ARGV == 0 then return found and { version, text } or {} end

local done = KEYS[2] and redis.call('GET', KEYS[2])
if done then return done end
if ARGV[1] ~= '-1' and ARGV[1] ~= (found and version or '0') then return false end
local time = redis.call('TIME')
local now, keptMs, floor = time[1] * 1000000 + time[2], tonumber(ARGV[2]), tonumber(ARGV[5])
-- A version that is forgotten before the clock gets there would be followed by a lower one.
if ARGV[6] and keptMs > 0 and floor > now + keptMs * 1000 then floor = 0 end
local next = draw(tonumber(version or 0), now, floor)
local drawn = string.format('%d', next)
if not ARGV[6] then
  redis.call('SET', KEYS[1], drawn, 'PXAT', math.ceil(next / 1000) + ARGV[4])
elseif keptMs == 0 then
  redis.call('SET', KEYS[1], drawn .. ' ' .. ARGV[6])
else
  redis.call('SET', KEYS[1], drawn .. ' ' .. ARGV[6], 'PX', ARGV[2])
end
if KEYS[2] then redis.call('SET', KEYS[2], drawn, 'PX', ARGV[3]) end
return drawn
