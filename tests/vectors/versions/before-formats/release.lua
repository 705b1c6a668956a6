-- release: gives locks back, if they are still the owner's: to the first in the queue of each, or to
-- nobody.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter; its queue. Or one of
--         these keys alone, where the others are on another node: then the lock is handed to nobody
-- ARGV    1 the owner's value; 2 'leave' where the owner may be in the queue; else ''; 3 where the owner
--         took over from another, that one's value; last the stamp. Where the stamp is right behind the
--         owner's value, the lock is only to be freed, and not where somebody waits for it
-- Reply   the stamp when every lock was the owner's and is not any more; {stamp, 0} when one of them was
--         not; {stamp, 1} when the lock is only to be freed and somebody waits: nothing was done; an error
--         AGAIN, where it is to be asked again at once (parts/next_waiter.lua): nothing was given back
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

-- next_waiter: the first in the queue of a lock (queue.lua) that is to have the lock. Whatever stands before it is
-- taken out: waiters that nobody hears of any more, entries that are none, and gaps.
--
-- A waiter lives whose entry has not ended by the server's clock. Where the lock `is_free`, its channel has to be heard
-- too: nobody waits longer for a process that has died. An entry that lasts for longer than any may, since a clock was
-- set or somebody else wrote it, is cut to the longest that one may have. `own` is the ticket of the waiter that asks,
-- if there is one: it lives.
--
-- Gaps are passed over 100 at a time. A queue without an entry, or whose 'first' or 'last' is no ticket (a whole number
-- up to 2^52), or that has far more gaps than any had, is deleted: so nobody's number is counted through, and a waiter
-- that was in it comes back with its next question. After 500 entries, or 2000 gaps, `again` is what the script
-- is to reply, with nothing done of what it was asked: who asked asks the same again at once, and goes on from there.
--
-- It is given the queue's 'first' and 'last', as they are there. It gives back the first ticket and the last (1 and 0 where the queue is empty, and so deleted), and of the waiter at
-- the first: the owner, the TTL, the limit and the weight of the share that it wants, if it wants one, the channel, and
-- `is_mute` where the server does not say whether anybody hears that.

local function next_waiter(queue, now, is_free, begun, ended, own)
  local next, looked, first, last = {}, 0, tonumber(begun), tonumber(ended)
  local function is_ticket(number)
    return number and number % 1 == 0 and math.abs(number) <= 4503599627370496
  end
  if not is_ticket(first) or not is_ticket(last) then
    first, last = 1, 0
  end
  while first <= last and first ~= own and not next.owner and not next.again do
    local ticket = string.format('%.0f', first)
    local entry = redis.call('HGET', queue, ticket)
    looked = looked + 1
    if entry then
      local ends, ttl, want, channel, owner = string.match(entry, '^(%d+) ([1-9]%d*)(%S*) (%S+) (.+)$')
      local limit, weight = string.match(want or '', '^/(%d+)/([1-9]%d?)$')
      local lives, heard = (want == '' or weight) and tonumber(ends) >= now, nil
      if lives and is_free then
        heard = redis.pcall('PUBSUB', 'NUMSUB', channel)
        lives = heard.err or heard[2] > 0
      end
      if lives then
        if tonumber(ends) > now + 30000 then
          redis.call('HSET', queue, ticket, string.format('%.0f', now + 30000) .. string.sub(entry, #ends + 1))
        end
        next.owner, next.ttl, next.channel, next.is_mute = owner, ttl, channel, heard and heard.err
        next.limit, next.weight = limit, tonumber(weight)
      else
        -- Its owner may have another entry, where somebody else wrote this one.
        local is_its = owner and redis.call('HGET', queue, owner) == ticket
        redis.call('HDEL', queue, ticket, is_its and owner or ticket)
        first = first + 1
      end
    else
      local fields, ahead, gaps = redis.call('HLEN', queue), {}, 1
      if fields <= 2 or last - first > 100000 + 64 * fields then
        first, last = 1, 0
      elseif first < last then
        for number = first + 1, math.min(last, first + 100) do
          ahead[#ahead + 1] = string.format('%.0f', number)
        end
        local entries = redis.call('HMGET', queue, unpack(ahead))
        looked = looked + 24
        while gaps <= #ahead and not entries[gaps] do
          gaps = gaps + 1
        end
      end
      first = first + gaps
    end
    if looked >= 500 and not next.owner and first <= last then
      next.again = redis.error_reply('AGAIN more entries are to be taken out of the queue of this lock')
    end
  end
  if first > last then
    if begun or ended then
      redis.call('DEL', queue)
    end
    first, last = 1, 0
  elseif begun ~= string.format('%.0f', first) then
    redis.call('HSET', queue, 'first', string.format('%.0f', first))
  end
  next.first, next.last = first, last
  return next
end

-- The lock becomes that of the next waiter; whether there is one.
local function hand_on(lock, fence, queue, next, micros)
  if not next.owner or next.is_mute then
    return false
  elseif next.limit then
    redis.pcall('PUBLISH', next.channel, '1 ' .. next.owner)
    return false
  end
  local counter = tonumber(redis.call('GET', fence) or '0')
  if not counter or counter >= 9007199254740991 then
    return false
  end
  local word = string.format('%.0f', math.max(counter + 1, micros))
  -- Written before it is told: a server that is full refuses to write, and then nobody is told.
  local mark = next.first < next.last and '\0' or ''
  local minted = redis.pcall('SET', fence, word, 'PX', '604800000')
  local taken = minted.ok and redis.pcall('SET', lock, next.owner .. mark, 'PX', next.ttl)
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
  if queue and (how == 2 and #ARGV > 2 or ARGV[2] == 'leave') then
    local read = redis.pcall('HMGET', queue, 'first', 'last', ARGV[1])
    if read[3] and ARGV[2] == 'leave' then
      redis.call('HDEL', queue, read[3], ARGV[1])
    end
    if read[1] and KEYS[key + 2] and (how == 2 or not holder) then
      if not micros then
        if redis.replicate_commands then
          redis.replicate_commands()
        end
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
  elseif how == 2 and #ARGV == 2 then
    reply = {stamp, 1}
  elseif not is_handed then
    redis.call('DEL', KEYS[key])
  end
end
return reply
