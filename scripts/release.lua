-- release: gives a lock back, if it is still the owner's.
--
-- KEYS    1 the lock
-- ARGV    1 the owner's value
-- Reply   1 when the lock was the owner's and is free now; 0 when it was not the owner's
-- Atomic  because a server runs a script whole: the lock cannot expire and be taken by another
--         between the look at its owner and its deletion.
--
-- The fence counter stays, for the tokens of the leases to come.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
