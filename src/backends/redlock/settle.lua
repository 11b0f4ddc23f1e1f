-- The second phase: this claim's ticket is now known, so the counter is raised to it, and the claim shows it.
--
-- KEYS  head, forced
-- ARGV  id, attempt, ticket, retention ms, and 'raise' while it is not handed out: then nothing gets lower by it,
--       because another attempt relies on what was drawn here
-- Out   1 if the claim is still there, else 0

local id, attempt, ticket = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
insistOnWriting(KEYS[2])
local l = openLock(KEYS[1], KEYS[2], serverTime())
local claim = find(l, id)
if not claim or claim.left or claim.attempt ~= attempt then return 0 end
settle(l, claim, ARGV[5] and math.max(claim.ticket, ticket) or ticket)
save(l, tonumber(ARGV[4]))
return 1
