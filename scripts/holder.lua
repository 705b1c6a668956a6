-- holder: returns the holder of a lock, and its remaining time. Changes nothing.
--
-- KEYS    1 the lock
-- ARGV    1 the stamp
-- Reply   {stamp, the holder's value (its first 320 bytes), its remaining TTL in milliseconds or -1
--         if it has none}; {stamp} if nobody holds the lock
-- Atomic  because a server runs a script whole: the value and the TTL are of the same lease.

local stamp = ARGV[1]
local holder = redis.call('GET', KEYS[1])
if not holder then
  return {stamp}
end
return {stamp, string.sub(holder, 1, 320), redis.call('PTTL', KEYS[1])}
