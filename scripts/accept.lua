-- accept: accepts a value under a token, or extends or ends the lease of the token's attempt: the second
-- command after promise.lua, which describes the key.
--
-- KEYS    1 the request, or the job
-- ARGV    1 the attempt's owner; 2 'finish' with a value, 'extend', or 'fail' for an attempt whose work others
--         may do at once; 3 the TTL in milliseconds; 4 for how long the key is kept, in milliseconds; 5 the
--         token; 6 the fingerprint and 7 the value of finished work, or ''; 8 the stamp
-- Reply   the stamp; {stamp, 0} if the token is not the last promised one, or not this owner's, or, for a lease,
--         if a value was accepted
-- Atomic  because a server runs a script whole: no other token can be promised between reading the key
--         and writing it.
--
-- A token has one value, so a second delivery changes nothing. An extension after the attempt has failed begins
-- no lease. A promise ends with its key: later commands under it are refused, even if a smaller token was promised
-- since.

local token, stamp = tonumber(ARGV[5]), ARGV[8]
local kept = redis.call('GET', KEYS[1])
local its, lease, starts, promised, accepted, rest =
  string.match(kept or '', '^quorum (%S+) (%d+) (%d+) (%d+) (%d+) (%d+ .*)$')
if its ~= ARGV[1] or tonumber(promised) ~= token then
  return {stamp, 0}
end
local ends, lasts = 0, tonumber(ARGV[4])
if ARGV[2] == 'finish' then
  accepted, rest = ARGV[5], string.format('%d ', #ARGV[6]) .. ARGV[6] .. ARGV[7]
elseif accepted ~= '0' or lease == '0' and ARGV[2] == 'extend' then
  return {stamp, 0}
else
  lasts = math.max(lasts, tonumber(ARGV[3]))
  if ARGV[2] == 'extend' then
    pcall(redis.replicate_commands)
    local time = redis.call('TIME')
    ends = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]
  end
end
local head = string.format('quorum %s %.0f %s %s %s ', its, ends, starts, ARGV[5], accepted)
local span = string.format('%.0f', lasts)
-- As in settle.lua.
redis.pcall('PEXPIRE', KEYS[1], span)
redis.call('SET', KEYS[1], head .. rest, 'PX', span)
return stamp
