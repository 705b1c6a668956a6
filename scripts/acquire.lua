-- acquire: takes locks for an owner if nobody else holds any of them, and accepts a fencing token.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter; its queue
-- ARGV    1 the owner's value; 2 the TTL in milliseconds; 3 the token that the owner proposes;
--         4 'mint' if this server alone decides, and so chooses the token if the proposal is unfit;
--           'vote' if it is one of several, and the owner has to propose again;
--           'outbid' as 'vote', for a proposal that comes from servers' counters or clocks;
--           each followed by ' on' if the lock goes on within a process: then tokens are set aside;
--         5 'take' to take free locks; 'turn' to take them unless a living waiter is in a queue; 'look'
--           to take nothing;
--         6.. if the owner takes over from others, their values: their locks are as good as free;
--           last the stamp
-- Reply   granted with the proposed token: the stamp
--         granted with another: {stamp, 'granted', the token, an integer}
--         held by another: {stamp, 'held', the holder's value (its first 320 bytes), its remaining TTL
--         in milliseconds or -1 without one, the counter as a string, 0}
--         free or the owner's already, and others wait: {stamp, 'queued', maximum number of them, an integer}
--         free, with 'look': {stamp, 'free'}
--         token not above the counter: {stamp, 'stale', the counter as a string}
--         token far ahead of the server's clock: {stamp, 'ahead', that clock in microseconds as a
--         string}
--         an error AGAIN, to repeat the command at once (parts/next_waiter.lua): nothing was taken
-- Atomic  because a server runs a script whole: no other owner can take a lock, and no other
--         token can be accepted, between reading the keys and writing them; and all
--         locks are taken, or none.
--
-- A token is accepted only above every token accepted before, in the script that takes the lock: so
-- issued tokens are unique and ordered. Tokens stay below 2^53, where Lua counts exactly. The
-- proposed one is written as it came, which is cheaper than formatting it; the next one by '%.0f',
-- because tostring would write 1.7e+15. The counter expires after seven idle days: proposals come
-- from a clock that has moved on by then.
--
-- A proposal that is more than a second above the counters is compared with the server's own clock, so that
-- a client whose clock is far ahead cannot use up the tokens: a server that decides alone uses its clock instead
-- of a proposal that is more than a second off, and one of several refuses a proposal more than a second ahead.
-- 'outbid' proposals are accepted: servers' counters may have been driven ahead before. TIME makes no
-- difference to replicas: servers before Redis 5 replicate scripts, and are told to replicate effects.
--
-- A counter with fewer digits than any clock was lost, and begun anew by INCRBY of an earlier version, without an
-- expiry: a script that sees one gives it an expiry.
--
-- An owner that takes over from another of its process also has the next 15 tokens: the counter is written that
-- far ahead. The next holders in that process need not ask (src/policy/relay.rs).
--
-- A byte 0 after the holder's value means that there are waiters in the queue (queue.lua): it stays there
-- when another owner of the same process takes over.

local args, call = ARGV, redis.call
local proposal, stamp = args[3], args[#args]
local top, counter = 0, '0'
for lock = 1, #KEYS, 3 do
  local accepted = call('GET', KEYS[lock + 1])
  if accepted then
    local number = tonumber(accepted)
    if not number or number >= 9007199254740991 then
      return redis.error_reply('FENCE the fence counter of this lock holds no number or is used up: tokens end at 2^53')
    end
    if number < 1000000000000000 then
      call('PEXPIRE', KEYS[lock + 1], '604800000')
    end
    if number > top then
      top, counter = number, accepted
    end
  end
end

-- Nearly every acquire: one free lock without waiters, an owner that takes over from nobody and sets no tokens
-- aside, and a proposal that needs no clock.
local judged, ahead = args[4], proposal - top
local is_near = ahead > 0 and (ahead <= 1000000 and (judged == 'mint' or judged == 'vote') or judged == 'outbid')
if is_near and #args == 6 and not KEYS[4]
  and (args[5] == 'take' or args[5] == 'turn' and redis.pcall('HLEN', KEYS[3]) == 0)
  and call('SET', KEYS[1], args[1], 'NX', 'PX', args[2]) then
  call('SET', KEYS[2], proposal, 'PX', '604800000')
  return stamp
end

if args[5] == 'turn' then
  pcall(redis.replicate_commands)
end
local aside = 0
if string.sub(judged, -3) == ' on' then
  judged, aside = string.sub(judged, 1, -4), 15
end
local replaced, marks = {}, {}
for other = 6, #args - 1 do
  replaced[args[other]] = true
end
for lock = 1, #KEYS, 3 do
  local holder = call('GET', KEYS[lock])
  marks[lock] = ''
  if holder and string.byte(holder, -1) == 0 then
    holder, marks[lock] = string.sub(holder, 1, -2), '\0'
  end
  if holder and holder ~= args[1] and not replaced[holder] then
    local left = call('PTTL', KEYS[lock])
    return {stamp, 'held', string.sub(holder, 1, 320), left, counter, 0}
  end
  -- If this server alone decides, the owner's own lock was taken without regard to waiters.
  if args[5] == 'turn' and (holder ~= args[1] or judged == 'mint') then
    local queue = KEYS[lock + 2]
    local fields = redis.pcall('HLEN', queue)
    if type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
      call('HLEN', queue)
    elseif type(fields) == 'number' and fields > 2 then
      --@ next_waiter
      local time = redis.call('TIME')
      local ends = redis.pcall('HMGET', queue, 'first', 'last')
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      -- A user that may not read a queue leaves the lock to the waiters in it.
      local next = ends.err and {owner = true} or next_waiter(queue, now, true, ends[1], ends[2])
      if next.again then
        return next.again
      elseif next.owner then
        return {stamp, 'queued', math.floor(call('HLEN', queue) / 2) - 1}
      end
    end
  end
end
if args[5] == 'look' then
  return {stamp, 'free'}
end

local token, written = tonumber(proposal), proposal
if ahead > 1000000 and judged ~= 'outbid' then
  pcall(redis.replicate_commands)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  if token > now + 1000000 and judged == 'vote' then
    return {stamp, 'ahead', string.format('%.0f', now)}
  elseif math.abs(token - now) > 1000000 and judged == 'mint' then
    token, written = now, string.format('%.0f', now)
  end
end
if token <= top then
  if judged ~= 'mint' then
    return {stamp, 'stale', counter}
  end
  token = top + 1
  written = string.format('%.0f', token)
end

local counted = written
if aside > 0 then
  counted = string.format('%.0f', math.min(token + aside, 9007199254740991))
end
for lock = 1, #KEYS, 3 do
  call('SET', KEYS[lock], args[1] .. marks[lock], 'PX', args[2])
  call('SET', KEYS[lock + 1], counted, 'PX', '604800000')
end
if written ~= proposal then
  return {stamp, 'granted', token}
end
return stamp
