-- Claims and releases that a process has issued in one turn, each as if it had come alone, in the order in which they
-- were issued. Put behind two functions, claim and release, each of which is the whole script of that name: so each
-- element has its own inputs, and its own list of notifications.
--
-- KEYS  those of each element, one element after the other
-- ARGV  for each element '<c for a claim, r for a release><how many keys><how many arguments>', as one text;
--       then the arguments of each element. 1 means: only the first, and the others as the claim or release before it
-- Out   for each element what its script answers, or '-' and the text of its error; or, instead of all of that, 'alone'
--       if nothing was done, and each element has to be sent by itself

-- The server looks at its memory before the first write of a script, and not again behind one that it let pass. So one
-- goes first that it refuses when the memory is full, and that changes nothing: there is no such member.
local refused = redis.pcall('ZADD', KEYS[3], 'XX', 0, '')
if type(refused) == 'table' and refused.err then return 'alone' end

local keys, args, shape = KEYS, ARGV, ARGV[1]
local answers, before, lastKey, lastArg = {}, {}, 0, 1
for place = 1, #shape, 3 do
  -- Digits: 48 is that of 0.
  local letter, keyCount, argCount = string.byte(shape, place, place + 2)
  local nextKey, nextArg = lastKey + keyCount - 48, lastArg + argCount - 48
  local given
  if nextArg == lastArg + 1 then
    given = { args[nextArg], unpack(before[letter], 2) }
  else
    given = { unpack(args, lastArg + 1, nextArg) }
    before[letter] = given
  end
  local script = letter == 99 and claim or release
  local done, answer = pcall(script, { unpack(keys, lastKey + 1, nextKey) }, given)
  if not done then answer = '-' .. (type(answer) == 'table' and answer.err or 'ERR ' .. tostring(answer)) end
  answers[#answers + 1] = answer
  lastKey, lastArg = nextKey, nextArg
end
return answers
