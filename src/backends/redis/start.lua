-- What a call does once, however many claims it is about; put in front of every script of a lock.
--
-- The time is the server's, in µs, and the same for all claims of a call: as if all had come at one moment.
--
-- All processes of a fleet may die at once, and the next claim should find the lock free. But all other clients
-- of the server wait until a script ends, so there is a bound for one call, however many locks it touches: to
-- remove this many claims takes some 50 ms.

local MOST_DEAD = 10000
local mayForget = MOST_DEAD
local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000000 + TIME[2]
