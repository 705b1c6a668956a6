-- release: gives locks back, if they are still the owner's: to the first in the queue of each, or to
-- nobody.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter; its queue. Or one of
--         these keys alone, where the others are on another node: then the lock is handed to nobody
-- ARGV    1 the owner's value; 2 'leave' where the owner may be in the queue; else ''; 3 where the owner
--         took over from another, that one's value; last the stamp. Where the stamp is right behind the
--         owner's value, the lock is only to be freed, and not where somebody waits for it
-- Reply   the stamp when every lock was the owner's and is not any more; {stamp, 0} when one of them was
--         not; {stamp, 1} when the lock is only to be freed and somebody waits: nothing was done
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
-- Somebody waits where a byte 0 stands behind the owner's value: see queue.lua. Then the lock becomes the
-- first waiter's that a push reaches: the server says how many heard it. At most 16 are passed over that
-- did not; then the lock is free, and a waiter finds that when it asks next. A waiter for a
-- share (share.lua) is told, with 1 in the place of a token, that it is time to ask.

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

-- The lock becomes the next one's; whether there is one.
local function hand_on(lock, fence, queue, first, last)
  if not first or not last then
    return false
  end
  if redis.replicate_commands then
    redis.replicate_commands()
  end
  local time = redis.call('TIME')
  local counter = tonumber(redis.call('GET', fence) or '0')
  if not counter or counter >= 9007199254740991 then
    return false
  end
  local token = math.max(counter + 1, time[1] * 1000000 + time[2])
  local now, unheard, gaps = time[1] * 1000 + math.floor(time[2] / 1000), 0, 0
  local ticket, is_handed = first, false
  first, last = tonumber(first), tonumber(last)
  while not is_handed and first <= last and unheard < 16 and gaps < 128 do
    local entry = redis.call('HGET', queue, ticket)
    local deadline, ttl, channel, owner = string.match(entry or '', '^(%d+) (%d+) (%S+) (.*)$')
    if entry and not deadline then
      local told, its_owner = string.match(entry, '^%d+ %S+ (%S+) (.*)$')
      redis.pcall('PUBLISH', told, '1 ' .. its_owner)
      break
    end
    first = first + 1
    if not entry then
      gaps = gaps + 1
    else
      -- The last one goes with the queue.
      if first <= last then
        redis.call('HDEL', queue, ticket, owner)
      end
      local heard = tonumber(deadline) >= now and redis.pcall('PUBSUB', 'NUMSUB', channel)
      if heard and heard.err then
        return false
      elseif heard and heard[2] > 0 then
        -- Written before it is told: a server that is full refuses to write, and then nobody is told.
        local word, mark = string.format('%.0f', token), first <= last and '\0' or ''
        local minted = redis.pcall('SET', fence, word, 'PX', '604800000')
        local taken = minted.ok and redis.pcall('SET', lock, owner .. mark, 'PX', ttl)
        local told = taken and taken.ok and redis.pcall('PUBLISH', channel, word .. ' ' .. owner)
        if type(told) ~= 'number' then
          return false
        end
        is_handed = true
      elseif heard then
        unheard = unheard + 1
      end
    end
    ticket = string.format('%.0f', first)
  end
  if first <= last then
    redis.call('HSET', queue, 'first', ticket)
  else
    redis.call('DEL', queue)
  end
  return is_handed
end

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
  local waiters = {}
  if queue and (how == 2 or ARGV[2] == 'leave') then
    waiters = redis.pcall('HMGET', queue, 'first', 'last', ARGV[1])
    if waiters[3] and ARGV[2] == 'leave' then
      redis.call('HDEL', queue, waiters[3], ARGV[1])
    end
  end
  if not how then
    reply = {stamp, 0}
  elseif how == 2 and #ARGV == 2 then
    reply = {stamp, 1}
  elseif how == 1 or not queue or not hand_on(lock, KEYS[key + 1], queue, waiters[1], waiters[2]) then
    redis.call('DEL', lock)
  end
end
return reply
