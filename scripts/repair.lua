-- repair: gives a lease back to a server that has lost it, while a quorum of others holds it.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter
-- ARGV    1 the owner's value; 2 the TTL in milliseconds; 3 the lease's fencing token, or the last of those
--         that are set aside for it, or '0'; last the stamp
-- Reply   the stamp when the server holds the lease now; {stamp, 0} when a lock is another's
-- Atomic  because a server runs a script whole: no other owner can take a lock between the look
--         and the writing.
--
-- It is asked only while the lease is provably valid, and its answer is no vote. The token was issued, so
-- servers have held it against their clocks already. A counter is raised to the token and never lowered. A
-- counter above the token keeps nothing back: while this lease is valid, the larger token is that of an owner
-- which no quorum let in. The lock is read once more after it was written: what a server tracks for a
-- connection, it forgets at a write.

local stamp, values, is_raised = ARGV[#ARGV], {}, {}
for lock = 1, #KEYS, 2 do
  local holder = redis.call('GET', KEYS[lock])
  if holder and holder ~= ARGV[1] and holder ~= ARGV[1] .. '\0' then
    return {stamp, 0}
  end
  -- With its mark, where somebody waits.
  values[lock] = holder or ARGV[1]
  local counter = tonumber(redis.call('GET', KEYS[lock + 1]) or '0')
  is_raised[lock] = tonumber(ARGV[3]) > counter
end
for lock = 1, #KEYS, 2 do
  redis.call('SET', KEYS[lock], values[lock], 'PX', ARGV[2])
  redis.call('GET', KEYS[lock])
  if is_raised[lock] then
    redis.call('SET', KEYS[lock + 1], ARGV[3], 'PX', 604800000)
  end
end
return stamp
