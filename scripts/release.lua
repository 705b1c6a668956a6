-- release: gives locks back, if they are still the owner's.
--
-- KEYS    the locks
-- ARGV    1 the owner's value; 2 where the owner took over from another, that one's value
-- Reply   1 when every lock was the owner's and is free now; 0 when one of them was not
-- Atomic  because a server runs a script whole: a lock cannot expire and be taken by another
--         between the look at its owner and its deletion.
--
-- The fence counter stays, for the tokens of the leases to come. A key that is no lock any more
-- (WRONGTYPE) is not the owner's, and keeps none of the others from being freed. Any other error of
-- GET, such as a right that the user lacks, is raised by a second GET: so the server says on which
-- line.

local all = 1
for lock = 1, #KEYS do
  local holder = redis.pcall('GET', KEYS[lock])
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    redis.call('GET', KEYS[lock])
  end
  if holder and (holder == ARGV[1] or holder == ARGV[2]) then
    redis.call('DEL', KEYS[lock])
  else
    all = 0
  end
end
return all
