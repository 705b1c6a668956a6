-- mint: accepts a fencing token for an owner that has taken the lock by take.lua, where the lock's
-- key is on another node.
--
-- KEYS    1 the lock's fence counter
-- ARGV    1 the token that the owner proposes; 2 'mint', 'vote' or 'outbid', or these with ' on', as in
--         acquire.lua; 3 the stamp
-- Reply   accepted as proposed: the stamp
--         another accepted: {stamp, 'granted', the token, an integer}
--         token not above the counter: {stamp, 'stale', the counter as a string}
--         token far ahead of the server's clock: {stamp, 'ahead', that clock in microseconds as a
--         string}
-- Atomic  because a server runs a script whole: no other token can be accepted between reading
--         the counter and writing it.
--
-- The token is issued only once extend.lua confirms that the owner still has the lock: then nobody
-- else had it when the token was accepted, and tokens rise in the order in which the lock is held.
-- Numbers, clocks and the counter's expiry are handled as in acquire.lua.

local stamp = ARGV[3]
local accepted = redis.call('GET', KEYS[1])
local counter = tonumber(accepted or '0')
if not counter or counter >= 9007199254740991 then
  return redis.error_reply('FENCE the fence counter of this lock holds no number or is used up: tokens end at 2^53')
end
local token, written = tonumber(ARGV[1]), ARGV[1]
local judged, aside = ARGV[2], 0
if string.sub(judged, -3) == ' on' then
  judged, aside = string.sub(judged, 1, -4), 15
end
if token > counter + 1000000 and judged ~= 'outbid' then
  pcall(redis.replicate_commands)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  if token > now + 1000000 and judged == 'vote' then
    return {stamp, 'ahead', string.format('%.0f', now)}
  elseif math.abs(token - now) > 1000000 and judged == 'mint' then
    token, written = now, string.format('%.0f', now)
  end
end
if token <= counter then
  if judged ~= 'mint' then
    return {stamp, 'stale', accepted}
  end
  token = counter + 1
  written = string.format('%.0f', token)
end
local counted = written
if aside > 0 then
  counted = string.format('%.0f', math.min(token + aside, 9007199254740991))
end
redis.call('SET', KEYS[1], counted, 'PX', '604800000')
if written ~= ARGV[1] then
  return {stamp, 'granted', token}
end
return stamp
