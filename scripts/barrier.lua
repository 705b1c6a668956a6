-- barrier: counts a party that arrives, and lets all parties go when all have arrived, generation by generation.
--
-- KEYS    1 the parties that have arrived in the present generation; 2 the last generation that was let go
-- ARGV    1 'arrive' to count a party; 'look' to change nothing; 'wait' to change nothing and to read only
--         the second key; 2 the number of parties; 3 for how long the parties are kept, in milliseconds: the
--         generation is kept for twice that; 4 the generation, '0' to look at the present one; 5 the party,
--         or ''; 6 the stamp
-- Reply   let go: {stamp, 'open', the generation}
--         not yet: {stamp, 'closed', the generation, how many parties are still to arrive, or -1 for a waiter};
--         'caught up' instead of 'closed' if by this command the server learned that the one before was let go
--         another number of parties is kept: {stamp, 'other', that number}
-- Atomic  because a server runs a script whole: of two last parties one lets all go.
--
-- An arrival names its generation, so it counts once, however often and however late it is delivered: the
-- generations before the present one are let go. A party that comes for a later one was let go before, which the
-- server has forgotten: so the party tells it. Client tracking of the keys that waiters read pushes only the end of
-- a generation. In the hash the number of parties is in field '#', and a party in 'p' and its name; the second key
-- holds the number of parties and the generation.

local stamp, parties, meant = ARGV[6], ARGV[2], tonumber(ARGV[4])
local passed = redis.call('GET', KEYS[2])
local its, last = string.match(passed or '', '^(%d+) (%d+)$')
local function foreign()
  return redis.error_reply('BARRIER the key holds a value that is no barrier')
end
last = tonumber(last or '0')
if passed and not its then
  return foreign()
elseif its and its ~= parties then
  return {stamp, 'other', tonumber(its)}
elseif meant > 0 and meant <= last then
  return {stamp, 'open', meant}
elseif ARGV[1] == 'wait' then
  return {stamp, 'closed', meant, -1}
end
its = redis.call('HGET', KEYS[1], '#')
if its and its ~= parties then
  return {stamp, 'other', tonumber(its) or 0}
elseif not its and redis.call('HLEN', KEYS[1]) > 0 then
  return foreign()
elseif ARGV[1] == 'look' then
  local arrived = its and redis.call('HLEN', KEYS[1]) - 1 or 0
  return {stamp, 'closed', math.max(meant, last + 1), parties - arrived}
end

local lasts, word = string.format('%.0f', 2 * ARGV[3]), 'closed'
if meant > last + 1 then
  word = 'caught up'
  last = meant - 1
  redis.call('UNLINK', KEYS[1])
  redis.call('SET', KEYS[2], parties .. string.format(' %.0f', last), 'PX', lasts)
end
redis.call('HSET', KEYS[1], '#', parties, 'p' .. ARGV[5], '')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local left = parties + 1 - redis.call('HLEN', KEYS[1])
if left > 0 then
  if last > 0 and redis.call('PTTL', KEYS[2]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[2], lasts)
  end
  return {stamp, word, meant, left}
end
redis.call('UNLINK', KEYS[1])
redis.call('SET', KEYS[2], parties .. string.format(' %.0f', meant), 'PX', lasts)
return {stamp, 'open', meant}
