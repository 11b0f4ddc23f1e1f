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
-- Filled anew for each element, three keys or four: a table for each costs time.
local ownKeys = {}
for place = 1, #shape, 3 do
  -- Digits: 48 is that of 0.
  local letter, keyCount, argCount = string.byte(shape, place, place + 2)
  local ownArgs = before[letter]
  if argCount == 49 then
    ownArgs[1] = args[lastArg + 1]
  else
    ownArgs = { unpack(args, lastArg + 1, lastArg + argCount - 48) }
    before[letter] = ownArgs
  end
  ownKeys[1], ownKeys[2], ownKeys[3] = keys[lastKey + 1], keys[lastKey + 2], keys[lastKey + 3]
  ownKeys[4] = keyCount == 52 and keys[lastKey + 4] or nil
  local done, answer = pcall(letter == 99 and claim or release, ownKeys, ownArgs)
  if not done then answer = '-' .. (type(answer) == 'table' and answer.err or 'ERR ' .. tostring(answer)) end
  answers[#answers + 1] = answer
  lastKey, lastArg = lastKey + keyCount - 48, lastArg + argCount - 48
end
return answers
