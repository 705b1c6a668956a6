-- acquire: takes locks for an owner if nobody else holds any of them, and accepts a fencing token.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter; the number of those
--         who wait for it
-- ARGV    1 the owner's value; 2 the TTL in milliseconds; 3 the token that the owner proposes;
--         4 'mint' where this server alone decides, and so chooses the token where the proposal is
--           no good; 'vote' where it is one of several, and the owner has to propose again;
--           'outbid' as 'vote', of a proposal that servers led to by a counter or a clock;
--         5 'take' to take what is free; 'turn' to take it unless others wait for it; 'look' to
--           take nothing;
--         6 what a refusal adds to the number of those who wait: '1' for a waiter whom this holder
--           has not refused before, '0' for one whom it has, '' for one who does not wait;
--         7 where the owner takes over from another, that one's value: its locks are as good as
--           free; last the stamp
-- Reply   granted with the token that was proposed: the stamp
--         granted with another: {stamp, 'granted', the token, an integer}
--         held by another: {stamp, 'held', the holder's value (its first 320 bytes), its remaining TTL
--         in milliseconds or -1 where it has none, the counter as a string ('0' for one who
--         waits), the number of those who wait, an integer}
--         free, and others wait: {stamp, 'queued', their number, an integer}
--         free, and only looked at: {stamp, 'free'}
--         token not above the counter: {stamp, 'stale', the counter as a string}
--         token far ahead of the server's clock: {stamp, 'ahead', that clock in microseconds as a
--         string}
-- Atomic  because a server runs a script whole: no other owner can take a lock, and no other
--         token can be accepted, between the look at the keys and the writing of them; and all
--         locks are taken, or none.
--
-- A token is accepted only above every token accepted before, in the script that takes the lock;
-- that is what makes issued tokens unique and ordered. Tokens stay below 2^53, where Lua counts
-- exactly. The one proposed is written as it came, which is cheaper than to spell it; the next one
-- by '%.0f', because tostring would write 1.7e+15. The counter may be forgotten after seven idle
-- days: proposals come from a clock that has moved on by then.
--
-- A proposal that is more than a second above the counters is held against the server's own clock, so
-- that a client whose clock is far ahead cannot use up the tokens: who decides alone takes the clock in
-- the place of a proposal that is more than a second off, and who does not refuses what is more than a
-- second ahead. What servers led to is accepted: their counters may have been driven ahead before. TIME makes no difference to replicas: servers
-- before Redis 5 replicate scripts, and have to be asked for their effects.
--
-- A counter of fewer digits than any clock has was lost, and begun anew by INCRBY, without an expiry
-- (src/lock/direct.rs): who is refused gives it one, and who is granted sets it anew.
--
-- Who waits is counted until one of them is granted the lock, so that who comes anew does not
-- overtake them; a second after the holder's TTL the number is forgotten. One who waits for one lock
-- is refused before its counter is read.

local stamp, predecessor = ARGV[#ARGV], ARGV[8] and ARGV[7]
local counter = '0'
for lock = 1, #KEYS, 3 do
  local holder = redis.call('GET', KEYS[lock])
  if holder and holder ~= ARGV[1] and holder ~= predecessor then
    local left = redis.call('PTTL', KEYS[lock])
    if ARGV[6] == '' then
      local waiting = redis.call('GET', KEYS[lock + 2]) or '0'
      counter = redis.call('GET', KEYS[lock + 1]) or '0'
      if counter ~= '0' and #counter < 16 then
        redis.call('PEXPIRE', KEYS[lock + 1], '604800000')
      end
      return {stamp, 'held', string.sub(holder, 1, 320), left, counter, tonumber(waiting) or 1}
    end
    local waiting = redis.call('INCRBY', KEYS[lock + 2], ARGV[6])
    if waiting == 0 then
      waiting = redis.call('INCRBY', KEYS[lock + 2], 1)
    end
    redis.call('PEXPIRE', KEYS[lock + 2], (left > 0 and left or 60000) + 1000)
    return {stamp, 'held', string.sub(holder, 1, 320), left, '0', waiting}
  end
  if ARGV[5] == 'turn' and holder ~= ARGV[1] then
    local waiting = redis.call('GET', KEYS[lock + 2])
    if waiting then
      return {stamp, 'queued', tonumber(waiting) or 1}
    end
  end
  local accepted = redis.call('GET', KEYS[lock + 1])
  if accepted then
    local number = tonumber(accepted)
    if not number or number >= 9007199254740991 then
      return redis.error_reply('FENCE the fence counter of this lock holds no number below 2^53')
    end
    if number > tonumber(counter) then
      counter = accepted
    end
  end
end
if ARGV[5] == 'look' then
  return {stamp, 'free'}
end

local token, written = tonumber(ARGV[3]), ARGV[3]
if token > tonumber(counter) + 1000000 and ARGV[4] ~= 'outbid' then
  if redis.replicate_commands then
    redis.replicate_commands()
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  if token > now + 1000000 and ARGV[4] == 'vote' then
    return {stamp, 'ahead', string.format('%.0f', now)}
  elseif math.abs(token - now) > 1000000 and ARGV[4] == 'mint' then
    token, written = now, string.format('%.0f', now)
  end
end
if token <= tonumber(counter) then
  if ARGV[4] ~= 'mint' then
    return {stamp, 'stale', counter}
  end
  token = tonumber(counter) + 1
  written = string.format('%.0f', token)
end

for lock = 1, #KEYS, 3 do
  redis.call('SET', KEYS[lock], ARGV[1], 'PX', ARGV[2])
  redis.call('SET', KEYS[lock + 1], written, 'PX', '604800000')
  if ARGV[6] ~= '' then
    redis.call('DEL', KEYS[lock + 2])
  end
end
if written ~= ARGV[3] then
  return {stamp, 'granted', token}
end
return stamp
