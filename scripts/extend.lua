-- extend: makes an owner's lease last for its TTL from now, if the lock is still the owner's.
--
-- KEYS    1 the lock
-- ARGV    1 the owner's value; 2 the TTL in milliseconds
-- Reply   1 when the lease lasts at least that long now; 0 when the lock is not the owner's
-- Atomic  because a server runs a script whole: the lock cannot change hands between the look at
--         its owner and the new expiry.
--
-- It never shortens a lease (PEXPIRE .. GT, as servers before Redis 7 can do it too) and never
-- creates a key that is gone: somebody else may have held the lock meanwhile.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
