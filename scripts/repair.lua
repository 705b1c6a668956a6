-- repair: gives leases back to a server that has lost them, while a quorum of others holds each; or says to a primary
-- that may have lost them that they are held.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter. Of several leases each has as many
-- ARGV    for each lease, one after the other: its owner's value; the TTL in milliseconds; its fencing token, or the
--         last of those that are set aside for it, or '0'; behind them of a primary in its grace: until when nothing
--         new is granted there, by its own clock in microseconds; last the stamp
-- Reply   the stamp when the server holds all leases now; else {stamp, for each lease: 1 when it does; 0 when a lock
--         is another's, or the grace is over and a lock is not the owner's}
-- Atomic  because a server runs a script whole: no other owner can take a lock between the look
--         and the writing.
--
-- It is asked only while a lease is provably valid, and its answer is no vote, but in a grace, where it counts as
-- an extension. The token was issued, so servers have held it against their clocks already. A counter is raised to
-- the token and never lowered. A counter above the token keeps nothing back: while this lease is valid, the larger
-- token is that of an owner which no quorum let in. The lock is read once more after it was written: what a server
-- tracks for a connection, it forgets at a write. A lease that has several locks has all of them, or none.
--
-- A key that is no lock or no counter any more is no other lease's trouble: see extend.lua.
--
-- In a grace (src/policy/grace.rs) an owner whose counter is below the token is none any more: its lease had ended
-- when the token was given. TIME makes no difference to replicas: servers before Redis 5 replicate scripts, and have
-- to be asked for their effects.

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
    -- With its mark, where somebody waits.
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
