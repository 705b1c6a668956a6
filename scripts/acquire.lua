-- acquire: takes a lock for an owner if nobody else holds it, and accepts a fencing token for it.
--
-- KEYS    1 the lock; 2 its fence counter
-- ARGV    1 the owner's value; 2 the TTL in milliseconds; 3 the token that the owner proposes;
--         4 'mint' where this server alone decides, and so may raise the token to one more than
--         its counter; 'vote' where it is one of several, and the owner has to propose again
-- Reply   granted: the token, an integer
--         held by another: {'held', the holder's value (its first 320 bytes), its remaining TTL
--         in milliseconds or -1 where it has none, the counter as a string}
--         token not above the counter: {'stale', the counter as a string}
-- Atomic  because a server runs a script whole: no other owner can take the lock, and no other
--         token can be accepted, between the look at the two keys and the writing of them.
--
-- A token is accepted only above every token accepted before, in the script that takes the lock;
-- that is what makes issued tokens unique and ordered. Tokens stay below 2^53, where Lua counts
-- exactly, and are written by '%.0f', because tostring would write 1.7e+15. The counter may be
-- forgotten after seven idle days: proposals come from a clock that has moved on by then.

local holder = redis.call('GET', KEYS[1])
local counter = redis.call('GET', KEYS[2]) or '0'
if holder and holder ~= ARGV[1] then
  return {'held', string.sub(holder, 1, 320), redis.call('PTTL', KEYS[1]), counter}
end

local highest = tonumber(counter)
if not highest or highest >= 9007199254740991 then
  return redis.error_reply('FENCE the fence counter of this lock holds no number below 2^53')
end
local token = tonumber(ARGV[3])
if token <= highest then
  if ARGV[4] ~= 'mint' then
    return {'stale', counter}
  end
  token = highest + 1
end

redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], string.format('%.0f', token), 'PX', 604800000)
return token
