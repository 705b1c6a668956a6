-- latch: counts a party down, and opens the latch when all parties have counted down.
--
-- KEYS    1 the parties that have counted down; 2 the key that is there while the latch is open
-- ARGV    1 'down' to count a party down; 'look' to change nothing; 'wait' to change nothing and to read only
--         the second key; 2 the number of parties; 3 for how long both keys are kept, in milliseconds; 4 the
--         party, or ''; 5 the stamp
-- Reply   open: {stamp, 'open'}
--         closed: {stamp, 'closed', how many parties are still to count down, or -1 for a waiter}
--         another number of parties is kept: {stamp, 'other', that number}
-- Atomic  because a server runs a script whole: of two last parties one opens the latch.
--
-- A party counts once, however often it is delivered. An open latch stays open: late parties change nothing.
-- Client tracking of the key that waiters read pushes only the opening. In the hash the number of parties is
-- in field '#', and a party in 'p' and its name.

local stamp = ARGV[5]
local open = redis.call('GET', KEYS[2])
local function foreign()
  return redis.error_reply('LATCH the key holds a value that is no latch')
end
if open then
  if not string.find(open, '^%d+$') then
    return foreign()
  elseif open ~= ARGV[2] then
    return {stamp, 'other', tonumber(open)}
  end
  return {stamp, 'open'}
end
if ARGV[1] == 'wait' then
  return {stamp, 'closed', -1}
end
local its = redis.call('HGET', KEYS[1], '#')
if its and its ~= ARGV[2] then
  return {stamp, 'other', tonumber(its) or 0}
elseif not its and redis.call('HLEN', KEYS[1]) > 0 then
  return foreign()
end
if ARGV[1] == 'look' then
  local counted = its and redis.call('HLEN', KEYS[1]) - 1 or 0
  return {stamp, 'closed', ARGV[2] - counted}
end
redis.call('HSET', KEYS[1], '#', ARGV[2], 'p' .. ARGV[4], '')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local left = ARGV[2] + 1 - redis.call('HLEN', KEYS[1])
if left > 0 then
  return {stamp, 'closed', left}
end
redis.call('UNLINK', KEYS[1])
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return {stamp, 'open'}
