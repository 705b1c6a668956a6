-- extend: makes leases last for their TTL from now, where the locks are still their owners'.
--
-- KEYS    the locks
-- ARGV    for each lock, one after the other: its owner's value; the TTL in milliseconds; last the
--         stamp
-- Reply   the stamp when all leases last that long now; else {stamp, for each lock: 1 when
--         its lease does; 0 when the lock is not the owner's}
-- Atomic  because a server runs a script whole: a lock cannot change hands between the look at
--         its owner and the new expiry.
--
-- It never shortens a lease: all extensions of one lease have the same TTL, so the last to arrive has
-- the latest end. A key that ends later than that had its end moved by a server's clock that was set
-- back, or by hand, and gets the lease's own end again: else the lock would stay long after its holder
-- died. It never creates a key that is gone: somebody else may have held the lock meanwhile. The lock is read
-- once more after it was written: what a server tracks for a connection, it forgets at a write.
-- A key that is no lock any more (WRONGTYPE) is not the owner's, and no other lock's trouble; any
-- other error of GET, such as a right that the user lacks, says nothing of the lock: it is raised by
-- a second GET, which has the server say on which line.

local stamp, all = ARGV[#ARGV], true
local kept = {stamp}
for lock = 1, #KEYS do
  kept[lock + 1] = 0
  local holder = redis.pcall('GET', KEYS[lock])
  if holder == ARGV[2 * lock - 1] then
    redis.call('PEXPIRE', KEYS[lock], ARGV[2 * lock])
    redis.call('GET', KEYS[lock])
    kept[lock + 1] = 1
  else
    if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
      redis.call('GET', KEYS[lock])
    end
    all = false
  end
end
return all and stamp or kept
