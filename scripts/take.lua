-- take: takes one lock for an owner if nobody else holds it, and its fence counter is on another
-- node: the first of three commands that replace acquire.lua in a Cluster slot that moves.
--
-- KEYS    1 the lock
-- ARGV    1 the owner's value; 2 the TTL in milliseconds; 3 'take' to take the lock, 'look' to take
--         nothing; 4.. if the owner takes over from others, their values: their lock is as good
--         as free; last the stamp
-- Reply   taken: the stamp
--         held by another: {stamp, 'held', the holder's value (its first 320 bytes), its remaining TTL
--         in milliseconds or -1 without one, '0', 0}
--         free, with 'look': {stamp, 'free'}
-- Atomic  because a server runs a script whole: no other owner can take the lock between reading
--         and writing it.
--
-- A byte 0 after the holder's value means that there are waiters: see queue.lua.
--
-- The script has one key, because a node that moves a slot serves a script only if it has all of the
-- script's keys. The owner may not use the lock yet: it has no token, and mint.lua may come too
-- late.

local stamp, replaced = ARGV[#ARGV], {}
for other = 4, #ARGV - 1 do
  replaced[ARGV[other]] = true
end
local holder, mark = redis.call('GET', KEYS[1]), ''
if holder and string.byte(holder, -1) == 0 then
  holder, mark = string.sub(holder, 1, -2), '\0'
end
if holder and holder ~= ARGV[1] and not replaced[holder] then
  return {stamp, 'held', string.sub(holder, 1, 320), redis.call('PTTL', KEYS[1]), '0', 0}
end
if ARGV[3] == 'look' then
  return {stamp, 'free'}
end
redis.call('SET', KEYS[1], ARGV[1] .. mark, 'PX', ARGV[2])
return stamp
