-- Sets a key.
--
-- KEYS  key
-- ARGV  value
-- Out   OK
return redis.call('SET', KEYS[1], ARGV[1])
