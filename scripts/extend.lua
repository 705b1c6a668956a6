-- extend: makes leases last for their TTL from now, if their owners still have the locks.
--
-- KEYS    the locks
-- ARGV    for each lock, one after the other: its owner's value; the TTL in milliseconds; last the
--         stamp
-- Reply   the stamp if all leases last that long now; else {stamp, for each lock: 1 if its
--         lease does; 0 if the owner does not have the lock}
-- Atomic  because a server runs a script whole: a lock cannot change hands between reading its
--         owner and setting the expiry.
--
-- A byte 0 after the owner's value means that there are waiters: see queue.lua.
--
-- This never shortens a lease: all extensions of one lease have the same TTL, so the last to arrive has
-- the latest end. If a key ends later than that, a server's clock was set back, or its end was set by
-- hand: it gets the lease's own end again, or else the lock would stay long after its holder died. This
-- never creates a missing key: another owner may have held the lock meanwhile. The lock is read once
-- more after it was written, because a server's client tracking forgets a key at a write.
-- A key that is no lock any more (WRONGTYPE) is not the owner's, and does not affect other locks; any
-- other error of GET, such as a missing right, says nothing about the lock: a second GET raises it, so
-- that the server's error has the line.

local stamp, all = ARGV[#ARGV], true
local kept = {stamp}
for lock = 1, #KEYS do
  kept[lock + 1] = 0
  local holder = redis.pcall('GET', KEYS[lock])
  if type(holder) == 'string' and string.byte(holder, -1) == 0 then
    holder = string.sub(holder, 1, -2)
  end
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
