-- release: gives locks back, if they are still the owner's: to the first in the queue of each, or to
-- nobody.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter; its queue. Or one of
--         these keys alone, where the others are on another node: then the lock is handed to nobody
-- ARGV    1 the owner's value; 2 'leave' where the owner may be in the queue; else ''; 3 where the owner
--         took over from another, that one's value; last the stamp
-- Reply   the stamp when every lock was the owner's and is not any more; {stamp, 0} when one of them was
--         not; an error AGAIN, where it is to be asked again at once (parts/next_waiter.lua): nothing was
--         given back
-- Atomic  because a server runs a script whole: a lock cannot expire and be taken by another
--         between the look at its owner and its deletion; and no waiter comes between.
--
-- The fence counter stays, for the tokens of the leases to come. A key that is no lock any more
-- (WRONGTYPE) is not the owner's, and keeps none of the others from being freed. Any other error of
-- GET, such as a right that the user lacks, is raised by a second GET: so the server says on which
-- line.
--
-- No waiter is told that is then passed over: what PUBLISH counts are connections of this server alone,
-- and replicas and other nodes of a Cluster pass the message on to theirs. So they are counted before.
--
-- Somebody waits where a byte 0 stands behind the owner's value: see queue.lua. Then the lock becomes that of the next
-- waiter that can hear (parts/next_waiter.lua), whatever stands before it. A waiter for a share (share.lua) is told,
-- with 1 in the place of a token, that it is time to ask. A waiter that leaves a free lock has it handed on, too: it
-- may have been told.

local stamp, predecessor = ARGV[#ARGV], ARGV[4] and ARGV[3]
-- Nearly every release: of one lock, for which nobody waits.
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] and #KEYS <= 3 and ARGV[2] ~= 'leave' then
  redis.call('DEL', KEYS[1])
  return stamp
end
local reply = stamp

-- Whether the lock is its: 1 where nobody waits, 2 where somebody does.
local function held_by(holder, owner)
  if holder == owner then
    return 1
  elseif owner and holder == owner .. '\0' then
    return 2
  end
end

--@ next_waiter
--@ token

-- The lock becomes that of the next waiter; whether there is one.
local function hand_on(lock, fence, queue, next, micros)
  if not next.owner or next.is_mute then
    return false
  elseif next.limit then
    redis.pcall('PUBLISH', next.channel, '1 ' .. next.owner)
    return false
  end
  -- Written before it is told: a server that is full refuses to write, and then nobody is told.
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

-- Whoever is next for each is known before any is given back: where a queue says AGAIN, none is.
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
    if read[3] and ARGV[2] == 'leave' then
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
