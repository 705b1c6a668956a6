-- release: gives locks back, if they are still the owner's.
--
-- KEYS    the locks
-- ARGV    1 the owner's value; 2 where the owner took over from another, that one's value; last the
--         stamp
-- Reply   the stamp when every lock was the owner's and is free now; {stamp, 0} when one of them was
--         not
-- Atomic  because a server runs a script whole: a lock cannot expire and be taken by another
--         between the look at its owner and its deletion.
--
-- The fence counter stays, for the tokens of the leases to come. A key that is no lock any more
-- (WRONGTYPE) is not the owner's, and keeps none of the others from being freed. Any other error of
-- GET, such as a right that the user lacks, is raised by a second GET: so the server says on which
-- line.

local owner, stamp, predecessor = ARGV[1], ARGV[#ARGV], ARGV[3] and ARGV[2]
local reply = stamp
for lock = 1, #KEYS do
  local holder = redis.pcall('GET', KEYS[lock])
  if holder == owner or holder == predecessor then
    redis.call('DEL', KEYS[lock])
  else
    if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
      redis.call('GET', KEYS[lock])
    end
    reply = {stamp, 0}
  end
end
return reply
