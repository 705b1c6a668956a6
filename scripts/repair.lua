-- repair: gives a lease back to a server that has lost it, while a quorum of others holds it; or says to a primary
-- that may have lost it that it is held.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter
-- ARGV    1 the owner's value; 2 the TTL in milliseconds; 3 the lease's fencing token, or the last of those
--         that are set aside for it, or '0'; 4 of a primary in its grace: until when nothing new is granted
--         there, by its own clock in microseconds; last the stamp
-- Reply   the stamp when the server holds the lease now; {stamp, 0} when a lock is another's, or the grace is over
--         and a lock is not the owner's
-- Atomic  because a server runs a script whole: no other owner can take a lock between the look
--         and the writing.
--
-- It is asked only while the lease is provably valid, and its answer is no vote, but in a grace, where it counts as
-- an extension. The token was issued, so servers have held it against their clocks already. A counter is raised to
-- the token and never lowered. A counter above the token keeps nothing back: while this lease is valid, the larger
-- token is that of an owner which no quorum let in. The lock is read once more after it was written: what a server
-- tracks for a connection, it forgets at a write.
--
-- In a grace (src/policy/grace.rs) an owner whose counter is below the token is none any more: its lease had ended
-- when the token was given. TIME makes no difference to replicas: servers before Redis 5 replicate scripts, and have
-- to be asked for their effects.

local stamp, values, is_raised = ARGV[#ARGV], {}, {}
local in_grace, is_heard = ARGV[5], true
if in_grace then
  pcall(redis.replicate_commands)
  local time = redis.call('TIME')
  is_heard = time[1] * 1000000 + time[2] < tonumber(ARGV[4])
end
for lock = 1, #KEYS, 2 do
  local holder = redis.call('GET', KEYS[lock])
  local counter = tonumber(redis.call('GET', KEYS[lock + 1]) or '0')
  is_raised[lock] = tonumber(ARGV[3]) > counter
  -- With its mark, where somebody waits.
  local mark = holder and string.byte(holder, -1) == 0 and '\0' or ''
  values[lock] = ARGV[1] .. mark
  local is_own = holder == values[lock]
  local may_take = is_heard and not holder or in_grace and is_heard and is_raised[lock]
  if not is_own and not may_take then
    return {stamp, 0}
  end
end
for lock = 1, #KEYS, 2 do
  redis.call('SET', KEYS[lock], values[lock], 'PX', ARGV[2])
  redis.call('GET', KEYS[lock])
  if is_raised[lock] then
    redis.call('SET', KEYS[lock + 1], ARGV[3], 'PX', 604800000)
  end
end
return stamp
