-- promise: promises a token to an attempt at a value that several servers agree on, and returns what this server
-- has accepted: the first of two commands (src/policy/register.rs has the rules, accept.lua is the second).
--
-- KEYS    1 the request, or the job
-- ARGV    1 the attempt's owner; 2 the request's fingerprint, or ''; 3 the TTL of the attempt's
--         lease in milliseconds, '0' for none; 4 for how long the key is kept, in milliseconds; 5 the token
--         that the attempt proposes, '0' to look and change nothing; 6 'outbid' for a token that comes from
--         servers' promises or clocks, else 'vote'; 7 the stamp
-- Reply   promised: {stamp, 'promised', how often a token was promised since the key exists, the token under
--         which a value was accepted as a string ('0' for none), that value's fingerprint, that value, the
--         server's clock in milliseconds}; to a look 'seen' instead of 'promised'
--         another attempt has its lease: {stamp, 'running', or 'other' if its fingerprint differs, the
--         milliseconds left, its token as a string}
--         token not above a promised one: {stamp, 'stale', that one as a string}
--         token far ahead of the server's clock: {stamp, 'ahead', that clock in microseconds as a string}
-- Atomic  because a server runs a script whole: nothing can be accepted or promised between reading the
--         key and the promise.
--
-- The value is the word 'quorum', the owner that was promised a token last, when its lease ends, how often a
-- token was promised, the token, the token under which a value was accepted, the length of the fingerprint, the
-- fingerprint, and the accepted value. Agreement rests on the tokens alone. The lease keeps attempts from
-- doing the same work at once, and is judged by its own end. A promise ends with the key, and a server
-- without a key accepts nothing: so no value is accepted below a forgotten promise. Tokens are compared with
-- the server's clock as in acquire.lua.

local token, stamp = tonumber(ARGV[5]), ARGV[7]
pcall(redis.replicate_commands)
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local starts, promised, accepted, fingerprint, value = 0, 0, '0', ARGV[2], ''

local kept = redis.call('GET', KEYS[1])
if kept then
  local its, ends, count, promise, under, length, rest =
    string.match(kept, '^quorum (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  if not its then
    return redis.error_reply('QUORUM the key holds a value that several servers have not agreed on')
  end
  local theirs = string.sub(rest, 1, length)
  if under ~= '0' then
    accepted, fingerprint, value = under, theirs, string.sub(rest, length + 1)
  elseif its ~= ARGV[1] and tonumber(ends) > now then
    return {stamp, theirs == fingerprint and 'running' or 'other', ends - now, promise}
  end
  starts, promised = tonumber(count), tonumber(promise)
end
if token == 0 then
  return {stamp, 'seen', starts, accepted, accepted == '0' and '' or fingerprint, value, now}
elseif token > micros + 1000000 and token > promised + 1000000 and ARGV[6] ~= 'outbid' then
  return {stamp, 'ahead', string.format('%.0f', micros)}
elseif token <= promised then
  return {stamp, 'stale', string.format('%.0f', promised)}
end

local ends, lasts = 0, redis.call('PTTL', KEYS[1])
if accepted == '0' then
  ends, lasts = now + ARGV[3], math.max(tonumber(ARGV[3]), tonumber(ARGV[4]))
elseif lasts < 0 then
  -- The key's expiry was removed by hand.
  lasts = tonumber(ARGV[4])
end
local head = string.format('quorum %s %.0f %.0f %.0f %s %d ', ARGV[1], ends, starts + 1, token, accepted, #fingerprint)
redis.call('SET', KEYS[1], head .. fingerprint .. value, 'PX', string.format('%.0f', math.max(lasts, 1)))
return {stamp, 'promised', starts + 1, accepted, accepted == '0' and '' or fingerprint, value, now}
