-- holder: says who holds a lock and for how long still. It changes nothing.
--
-- KEYS    1 the lock
-- ARGV    none
-- Reply   {the holder's value (its first 320 bytes), its remaining TTL in milliseconds or -1
--         where it has none}; an empty array where nobody holds the lock
-- Atomic  because a server runs a script whole: the value and the TTL are of the same lease.

local holder = redis.call('GET', KEYS[1])
if not holder then
  return {}
end
return {string.sub(holder, 1, 320), redis.call('PTTL', KEYS[1])}
