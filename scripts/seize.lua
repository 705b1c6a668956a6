-- seize: takes one lock from any holder, or from one owner alone, and accepts a fencing token.
--
-- KEYS    1 the lock; 2 its fence counter
-- ARGV    1 the owner's value; 2 the TTL in milliseconds; 3 the token that the owner proposes;
--         4 'mint', 'vote' or 'outbid', as in acquire.lua; 5 the id of the only owner from which the lock
--         may be taken, or '' for any; 6 the stamp
-- Reply   taken from another: {stamp, 'seized', the token, an integer, the former holder's value (its first
--         320 bytes), its remaining TTL in milliseconds or -1 without one}
--         taken from nobody: {stamp, 'granted', the token, an integer}
--         held by another than that owner: {stamp, 'held', the holder's value (its first 320 bytes), its
--         remaining TTL in milliseconds or -1 without one, '0', 0}
--         held by nobody, with an owner in 5: {stamp, 0}
--         token not above the counter: {stamp, 'stale', the counter as a string}
--         token far ahead of the server's clock: {stamp, 'ahead', that clock in microseconds as a
--         string}
-- Atomic  because a server runs a script whole: nobody can take the lock between its former holder and its
--         new one.
--
-- An id is never used twice, so a lock is taken from one owner once. Waiters then wait for the new
-- holder, and the byte 0 that marks this (queue.lua) stays after its value. Numbers, clocks and the counter's
-- expiry are handled as in acquire.lua.

local stamp = ARGV[6]
local holder, mark = redis.call('GET', KEYS[1]), ''
if holder and string.byte(holder, -1) == 0 then
  holder, mark = string.sub(holder, 1, -2), '\0'
end
local left = holder and redis.call('PTTL', KEYS[1])
if ARGV[5] ~= '' and holder ~= ARGV[1] then
  if not holder then
    return {stamp, 0}
  elseif string.sub(holder, 1, 32) ~= ARGV[5] then
    return {stamp, 'held', string.sub(holder, 1, 320), left, '0', 0}
  end
end
local accepted = redis.call('GET', KEYS[2])
local counter = tonumber(accepted or '0')
if not counter or counter >= 9007199254740991 then
  return redis.error_reply('FENCE the fence counter of this lock holds no number or is used up: tokens end at 2^53')
end
local token = tonumber(ARGV[3])
if token > counter + 1000000 and ARGV[4] ~= 'outbid' then
  pcall(redis.replicate_commands)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  if token > now + 1000000 and ARGV[4] == 'vote' then
    return {stamp, 'ahead', string.format('%.0f', now)}
  elseif math.abs(token - now) > 1000000 and ARGV[4] == 'mint' then
    token = now
  end
end
if token <= counter then
  if ARGV[4] ~= 'mint' then
    return {stamp, 'stale', accepted}
  end
  token = counter + 1
end
redis.call('SET', KEYS[1], ARGV[1] .. mark, 'PX', ARGV[2])
redis.call('SET', KEYS[2], string.format('%.0f', token), 'PX', '604800000')
if holder and holder ~= ARGV[1] then
  return {stamp, 'seized', token, string.sub(holder, 1, 320), left}
end
return {stamp, 'granted', token}
