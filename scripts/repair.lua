-- repair: restores leases at a server that has lost them, while a quorum of others holds each; or reports held
-- leases to a primary in its grace, which may have lost them.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter. Several leases have the same number of locks
-- ARGV    for each lease, one after the other: its owner's value; the TTL in milliseconds; its fencing token, or the
--         last token that is set aside for it, or '0'; then, for a primary in its grace: until when nothing
--         new is granted there, by its own clock in microseconds; last the stamp
-- Reply   the stamp if the server holds all leases now; else {stamp, for each lease: 1 if it does; 0 if another
--         owner has a lock, or the grace is over and the owner does not have it}
-- Atomic  because a server runs a script whole: no other owner can take a lock between reading and
--         writing it.
--
-- This is sent only while a lease is provably valid, and the reply is no vote, except in a grace, where it counts
-- as an extension. The token was issued, so servers have compared it with their clocks already. A counter is raised
-- to the token and never lowered. A counter above the token prevents nothing: while this lease is valid, no quorum
-- granted the larger token. The lock is read once more after it was written, because a server's client tracking
-- forgets a key at a write. A lease with several locks gets all of them, or none.
--
-- A key that is no lock or no counter any more does not affect other leases: see extend.lua.
--
-- In a grace (src/policy/grace.rs) an owner whose counter is below the token no longer counts: its lease had ended
-- when the token was issued. TIME makes no difference to replicas: servers before Redis 5 replicate scripts, and are
-- told to replicate effects.

local stamp, leases = ARGV[#ARGV], math.floor((#ARGV - 1) / 3)
local in_grace, is_heard = #ARGV % 3 == 2, true
if in_grace then
  pcall(redis.replicate_commands)
  local time = redis.call('TIME')
  is_heard = time[1] * 1000000 + time[2] < tonumber(ARGV[#ARGV - 1])
end

local function read(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    redis.call('GET', key)
  end
  return value
end

local kept, all, each = {stamp}, true, #KEYS / leases
for lease = 1, leases do
  local owner, token = ARGV[3 * lease - 2], ARGV[3 * lease]
  local first, values, is_raised, is_its = (lease - 1) * each + 1, {}, {}, true
  for lock = first, first + each - 1, 2 do
    local holder, counter = read(KEYS[lock]), read(KEYS[lock + 1])
    counter = tonumber(counter or '0')
    is_raised[lock] = counter and tonumber(token) > counter
    -- With its mark, if there are waiters.
    local has_mark = type(holder) == 'string' and string.byte(holder, -1) == 0
    values[lock] = owner .. (has_mark and '\0' or '')
    local may_take = not holder or type(holder) == 'string' and in_grace and is_raised[lock]
    is_its = is_its and (holder == values[lock] or is_heard and counter and may_take)
  end
  for lock = first, is_its and first + each - 1 or 0, 2 do
    redis.call('SET', KEYS[lock], values[lock], 'PX', ARGV[3 * lease - 1])
    redis.call('GET', KEYS[lock])
    if is_raised[lock] then
      redis.call('SET', KEYS[lock + 1], token, 'PX', 604800000)
    end
  end
  kept[lease + 1], all = is_its and 1 or 0, all and is_its
end
return all and stamp or kept
