-- begin: starts a request under an idempotency key, or returns its former outcome.
--
-- KEYS    1 the request
-- ARGV    1 the attempt's owner; 2 the length of the request's fingerprint, a space, and the
--         fingerprint; 3 the TTL of the attempt in milliseconds; 4 for how long the key is kept, in
--         milliseconds, at least the TTL; 5 the stamp
-- Reply   started: {stamp, 'started', how often it was started, its fencing token as a string}
--         done before: {stamp, 'done', the result}
--         under way: {stamp, 'running', the milliseconds left of its lease}
--         another request has the key: {stamp, 'other'}
-- Atomic  because a server runs a script whole: no other attempt can start between reading the key and
--         writing it.
--
-- The value is the owner, when its lease ends (0 of one that is done, 1 of one that has failed), how often the
-- request was started, its fencing token, the length of the fingerprint, the fingerprint, and the result. An
-- attempt's lease is judged by its own end, never by the caller's TTL. The key lasts for as long as results
-- are kept, from the last start or the end on, and at least as long as the lease. The token is the server's clock
-- in microseconds, or one above the last. A second delivery finds its own attempt, with the same reply; after the
-- attempt has failed, it starts nothing.

local owner, fingerprint, ttl, lasts, stamp = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
pcall(redis.replicate_commands)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count, starts, token = 1, '1', string.format('%s%06d', time[1], time[2])

local kept = redis.call('GET', KEYS[1])
if kept then
  local its, ends, before, fence, rest =
    string.match(kept, '^(%S+) (%d+) (%d+) (%d+) (%d+ .*)$')
  if not its then
    return redis.error_reply('IDEMPOTENCY the key holds a value that is no request')
  end
  ends = tonumber(ends)
  if string.sub(rest, 1, #fingerprint) ~= fingerprint then
    return {stamp, 'other'}
  elseif ends == 0 then
    return {stamp, 'done', string.sub(rest, #fingerprint + 1)}
  elseif its == owner and ends == 1 then
    return {stamp, 'running', 1}
  elseif its == owner then
    count, starts, token = tonumber(before), before, fence
  elseif ends > now then
    return {stamp, 'running', ends - now}
  else
    count, token = before + 1, string.format('%.0f', math.max(tonumber(token), fence + 1))
    starts = count
  end
end
local ends = string.format('%d%03d', (now + ttl) / 1000, (now + ttl) % 1000)
local value = owner .. ' ' .. ends .. ' ' .. starts .. ' ' .. token .. ' ' .. fingerprint
redis.call('SET', KEYS[1], value, 'PX', lasts)
return {stamp, 'started', count, token}
