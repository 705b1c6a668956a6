-- keep: releases locks, if the owner still has them, and keeps them from everybody for a while.
--
-- KEYS    the locks
-- ARGV    1 the owner's value; 2 for how long the locks stay taken, in milliseconds; 3 their value
--         meanwhile, which is no owner's; 4 if the owner took over from another, that one's value;
--         last the stamp
-- Reply   the stamp if the owner had every lock; {stamp, 0} if not
-- Atomic  because a server runs a script whole: a lock cannot expire and be taken by another
--         between reading its owner and writing it.
--
-- This is used instead of release.lua. Nobody holds the locks from now on, and nobody can take them
-- before their time is over. A second delivery finds another value than the owner's and does nothing:
-- so the locks do not stay taken for longer. A key that is no lock any more, and errors of GET, are
-- handled as in release.lua.

local owner, stamp, predecessor = ARGV[1], ARGV[#ARGV], ARGV[5] and ARGV[4]
local reply = stamp
for lock = 1, #KEYS do
  local holder = redis.pcall('GET', KEYS[lock])
  if type(holder) == 'string' and string.byte(holder, -1) == 0 then
    holder = string.sub(holder, 1, -2)
  end
  if holder == owner or holder == predecessor then
    redis.call('SET', KEYS[lock], ARGV[3], 'PX', ARGV[2])
  else
    if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
      redis.call('GET', KEYS[lock])
    end
    reply = {stamp, 0}
  end
end
return reply
