-- free: releases locks for which nobody waits, if their owners still have them.
--
-- KEYS    the locks
-- ARGV    for each lock its owner's value; last the stamp
-- Reply   the stamp if all owners had their locks, and have them no more; else {stamp, for each lock: 1 if
--         so; 0 if the owner did not have the lock, or others may wait for it, or the key is no lock:
--         release.lua is for these}
-- Atomic  because a server runs a script whole: no lock can expire and be taken by another between reading
--         its owner and deleting it.
--
-- A byte 0 after an owner's value means that there are waiters: see queue.lua. All locks are deleted by one command,
-- which takes a server a little less time than one for each.

local stamp, free, freed = ARGV[#ARGV], {}, {}
freed[1] = stamp
for lock = 1, #KEYS do
  local is_its = redis.pcall('GET', KEYS[lock]) == ARGV[lock]
  freed[lock + 1] = is_its and 1 or 0
  if is_its then
    free[#free + 1] = KEYS[lock]
  end
end
if free[1] then
  redis.call('DEL', unpack(free))
end
return #free == #KEYS and stamp or freed
