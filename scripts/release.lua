-- release: releases locks, if the owner still has them: to the first in the queue of each, or to
-- nobody.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter; its queue. Or one of
--         these keys alone, if the others are on another node: then the lock is handed to nobody
-- ARGV    1 the owner's value; 2 'leave' if the owner may be in the queue; else ''; 3 if the owner
--         took over from another, that one's value; last the stamp
-- Reply   the stamp if the owner had every lock, and has none any more; {stamp, 0} if it did not have
--         one of them; an error AGAIN, to repeat the command at once (parts/next_waiter.lua): nothing was
--         released
-- Atomic  because a server runs a script whole: a lock cannot expire and be taken by another
--         between reading its owner and deleting it; and no waiter comes between.
--
-- The fence counter stays, for the tokens of later leases. A key that is no lock any more (WRONGTYPE) is
-- not the owner's, and the other locks are still released. Any other error of GET, such as a missing
-- right, is raised by a second GET, so that the server's error has the line.
--
-- Subscribers are counted before PUBLISH, so that no waiter gets a push and is then passed over: the count of
-- PUBLISH leaves out subscribers at replicas and other nodes of a Cluster, which get the message too.
--
-- A byte 0 after the owner's value means that there are waiters: see queue.lua. Then the next waiter that has a
-- subscriber (parts/next_waiter.lua) becomes the owner, whatever is before it. A waiter for a share (share.lua)
-- gets a push with 1 instead of a token: it is time to ask. A waiter that leaves a free lock has it handed on,
-- too: it may have got such a push.

local stamp, predecessor = ARGV[#ARGV], ARGV[4] and ARGV[3]
-- Nearly every release: one lock without waiters.
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] and #KEYS <= 3 and ARGV[2] ~= 'leave' then
  redis.call('DEL', KEYS[1])
  return stamp
end
local reply = stamp

-- Whether the owner has the lock: 1 without waiters, 2 with waiters.
local function held_by(holder, owner)
  if holder == owner then
    return 1
  elseif owner and holder == owner .. '\0' then
    return 2
  end
end

--@ next_waiter
--@ token

-- Hands the lock to the next waiter; returns whether there is one.
local function hand_on(lock, fence, queue, next, micros)
  if not next.owner or next.is_mute then
    return false
  elseif next.limit then
    redis.pcall('PUBLISH', next.channel, '1 ' .. next.owner)
    return false
  end
  -- Written before the push: a full server refuses to write, and then there is no push.
  local mark = next.first < next.last and '\0' or ''
  local token, word = mint(fence, micros)
  local taken = token and redis.pcall('SET', lock, next.owner .. mark, 'PX', next.ttl)
  local told = taken and taken.ok and redis.pcall('PUBLISH', next.channel, word .. ' ' .. next.owner)
  if type(told) ~= 'number' then
    return false
  end
  if next.first < next.last then
    redis.call('HDEL', queue, string.format('%.0f', next.first), next.owner)
    redis.call('HSET', queue, 'first', string.format('%.0f', next.first + 1))
  else
    redis.call('DEL', queue)
  end
  return true
end

-- The next waiter of each lock is found before any lock is released: if a queue says AGAIN, none is.
local found, micros = {}, nil
for key = 1, #KEYS, 3 do
  local lock = KEYS[key]
  local queue, holder = KEYS[key + 2], key == 1 and value or redis.pcall('GET', lock)
  if type(holder) == 'table' then
    if not string.find(holder.err, 'WRONGTYPE', 1, true) then
      redis.call('GET', lock)
    end
    queue = queue or lock
  end
  local how = type(holder) == 'string' and (held_by(holder, ARGV[1]) or held_by(holder, predecessor))
  local next
  if queue and (how == 2 or ARGV[2] == 'leave') then
    local read = redis.pcall('HMGET', queue, 'first', 'last', ARGV[1])
    if read[3] then
      redis.call('HDEL', queue, read[3], ARGV[1])
    end
    if read[1] and KEYS[key + 2] and (how == 2 or not holder) then
      if not micros then
        pcall(redis.replicate_commands)
        local time = redis.call('TIME')
        micros = time[1] * 1000000 + time[2]
      end
      next = next_waiter(queue, math.floor(micros / 1000), true, read[1], read[2])
      if next.again then
        return next.again
      end
    end
  end
  found[key] = {how = how, next = next}
end
for key = 1, #KEYS, 3 do
  local how, next = found[key].how, found[key].next
  local is_handed = next and hand_on(KEYS[key], KEYS[key + 1], KEYS[key + 2], next, micros)
  if not how then
    reply = {stamp, 0}
  elseif not is_handed then
    redis.call('DEL', KEYS[key])
  end
end
return reply
