-- limit: takes tokens of a rate limit, or returns when there are enough of them.
--
-- KEYS    1 the limit
-- ARGV    1 tokens that come back in one period; 2 the period in microseconds; 3 the burst: the maximum
--         number of tokens; 4 the minimum and 5 the maximum number of tokens to take; 6 how long the
--         caller would wait for them in microseconds, '0' for not at all; 7 the stamp
-- Reply   taken: {stamp, 'taken', the tokens, how long the caller has to wait in microseconds, the
--         tokens that are left}
--         too few: {stamp, 'refused', the microseconds until there is the minimum}
--         another limit is kept under the key: {stamp, 'other', its three numbers with a '/' between
--         them}
-- Atomic  because a server runs a script whole: no other caller takes tokens between reading the key
--         and writing it.
--
-- This is GCRA, the generic cell rate algorithm. The key has only the moment when the limit will be full,
-- by the server's clock: each token taken moves it on by a token's share of the period, and it may be as
-- far ahead as the burst takes to come back. So no span of time t lets through more than the burst and
-- t's share of the rate, wherever the span begins. A share is rounded up to a microsecond.
--
-- The key also has the time of its last write: if the clock was set back since, no time has passed, and
-- both are written by the new clock. The key ends when the limit is full, because a full limit and none are
-- the same. TIME makes no difference to replicas: servers before Redis 5 replicate scripts, and are told to
-- replicate effects.

local stamp = ARGV[7]
pcall(redis.replicate_commands)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local count, period, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local rule = ARGV[1] .. '/' .. ARGV[2] .. '/' .. ARGV[3]

local full, is_set_back = now, false
local function keep()
  local value = string.format('%.0f %.0f %s', full, now, rule)
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', math.ceil((full - now) / 1000)))
end
local kept = redis.call('GET', KEYS[1])
if kept then
  local at, written, its = string.match(kept, '^(%d+) (%d+) (%d+/%d+/%d+)$')
  if not at then
    return redis.error_reply('LIMIT the key holds a value that is no limit')
  elseif its ~= rule then
    return {stamp, 'other', its}
  end
  is_set_back = now < tonumber(written)
  full = math.max(now, is_set_back and at + now - written or tonumber(at))
end

local latest = now + math.ceil(burst * period / count)
local least = full + math.ceil(ARGV[4] * period / count)
if least > latest + ARGV[6] then
  if is_set_back then
    keep()
  end
  return {stamp, 'refused', least - latest}
end
local most = math.floor((latest + ARGV[6] - full) * count / period)
local tokens = math.max(tonumber(ARGV[4]), math.min(tonumber(ARGV[5]), most))
full = full + math.ceil(tokens * period / count)
keep()
local left = math.max(0, math.floor((latest - full) * count / period))
return {stamp, 'taken', tokens, math.max(0, full - latest), left}
