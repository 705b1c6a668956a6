-- queue: one process enters the queue of a lock, or says that it still waits there; and takes the
-- lock where the lock is free and nobody is before it.
--
-- KEYS    1 the lock; 2 its fence counter; 3 its queue
-- ARGV    1 the owner's value; 2 the TTL in milliseconds; 3 'enter' with the first question of this
--         owner, else 'beat'; 4 the channel that the process hears; 5 for how many milliseconds the
--         entry lives without a word; last the stamp
-- Reply   granted: {stamp, 'granted', the fencing token}
--         held by another: {stamp, 'held', the holder's value (its first 320 bytes), its remaining TTL
--         in milliseconds or -1 where it has none, '0', maximum entries before this one}
--         free, and others are before this one: {stamp, 'queued', maximum entries before this one}
--         neither in the queue nor the holder: {stamp, 0}
--         an error AGAIN, where it is to be asked again at once (parts/next_waiter.lua): nothing was done of it
-- Atomic  because a server runs a script whole: no lock can become free between the look at it and the
--         entry in the queue.
--
-- An owner is granted the lock at most once. So only the first question enters the queue: an owner that
-- has been taken out is told so, and comes back as another. Where the lock is the asking owner's already,
-- it is given a whole TTL anew: the lease may count from this question.
--
-- The queue is first in, first out. But an owner with a priority ('!' and a number in its value, before the
-- label) enters before those at the end that have a smaller one, of which it passes 128 at most.
--
-- The queue is a hash: 'first' and 'last' are tickets, each ticket has an entry (its deadline by the
-- server's clock in milliseconds, the TTL, the channel and the owner's value), and each owner its ticket.
-- It expires with the last of its entries. A holder of ours is marked by a byte behind its value, so that
-- no plain compare-and-delete frees a lock that somebody waits for; another library's is not touched.
-- A token is the server's clock in microseconds, or above the counter where that is ahead: a counter that
-- was lost makes no difference.

if redis.replicate_commands then
  redis.replicate_commands()
end
local stamp, owner, ttl = ARGV[#ARGV], ARGV[1], ARGV[2]
local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function mint()
  local counter = tonumber(redis.call('GET', fence) or '0')
  if not counter or counter >= 9007199254740991 then
    return nil
  end
  local token = math.max(counter + 1, time[1] * 1000000 + time[2])
  redis.call('SET', fence, string.format('%.0f', token), 'PX', '604800000')
  return token
end

local function forget(ticket, its_owner)
  redis.call('HDEL', queue, ticket, its_owner)
end

local function priority(its_owner)
  return tonumber(string.match(its_owner, '^[%x+@]*!(%d+)') or '0')
end

local function ended()
  return redis.error_reply('FENCE the fence counter of this lock holds no number or is used up: tokens end at 2^53')
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

local holder = redis.call('GET', lock)
local read = redis.pcall('HMGET', queue, owner, 'first', 'last')
if read.err then
  if not string.find(read.err, 'WRONGTYPE', 1, true) then
    redis.call('HMGET', queue, owner, 'first', 'last')
  end
  -- What is no queue makes room for one.
  redis.call('DEL', queue)
  read = {}
end
local ticket, first, last = read[1], read[2], read[3]
if holder == owner or holder == owner .. '\0' then
  if ticket then
    forget(ticket, owner)
  end
  redis.call('PEXPIRE', lock, ttl)
  local token = tonumber(redis.call('GET', fence) or '0')
  if not token or token < (time[1] - 86400) * 1000000 then
    token = mint()
  end
  return token and {stamp, 'granted', token} or ended()
end
if not ticket and ARGV[3] ~= 'enter' then
  return {stamp, 0}
end
local place = ticket and tonumber(ticket)
local next = next_waiter(queue, now, not holder, first, last, place)
if next.again then
  return next.again
elseif ticket and not (place and place >= next.first and place <= next.last) then
  redis.call('HDEL', queue, owner)
  return {stamp, 0}
end
local passed = next.first
place = place or next.last + 1
last = math.max(next.last, place)
local rank, end_of_line = ticket and 0 or priority(owner), place
while rank > 0 and place > passed and end_of_line - place < 128 do
  local before = redis.call('HGET', queue, string.format('%.0f', place - 1))
  local its_owner = before and string.match(before, '^%d+ %S+ %S+ (.*)$')
  if its_owner and priority(its_owner) >= rank then
    break
  end
  local moved = string.format('%.0f', place)
  if its_owner then
    redis.call('HSET', queue, moved, before)
    redis.call('HSET', queue, its_owner, moved)
  else
    redis.call('HDEL', queue, moved)
  end
  place = place - 1
end
if place < passed then
  passed = place
end
if not holder and place <= passed then
  local token = mint()
  if not token then
    return ended()
  end
  local others = last > place
  if ticket or others then
    forget(string.format('%.0f', place), owner)
  end
  redis.call('SET', lock, others and owner .. '\0' or owner, 'PX', ttl)
  if others then
    redis.call('HSET', queue, 'first', string.format('%.0f', place + 1))
    redis.call('HSET', queue, 'last', string.format('%.0f', last))
  else
    redis.call('DEL', queue)
  end
  return {stamp, 'granted', token}
end

local life = tonumber(ARGV[5])
local entry = string.format('%.0f', now + life) .. ' ' .. ttl .. ' ' .. ARGV[4] .. ' ' .. owner
if ticket then
  redis.call('HSET', queue, ticket, entry)
else
  local head, tail = string.format('%.0f', passed), string.format('%.0f', last)
  local own = string.format('%.0f', place)
  redis.call('HSET', queue, 'first', head, 'last', tail, owner, own, own, entry)
end
if redis.call('PTTL', queue) < life then
  redis.call('PEXPIRE', queue, life)
end
if not holder then
  return {stamp, 'queued', place - passed}
end
-- Of ours, and without a mark yet.
if string.byte(holder, -1) ~= 0 and string.find(holder, '^' .. string.rep('%x', 32) .. '[:@+!*]') then
  redis.call('APPEND', lock, '\0')
end
local left = redis.call('PTTL', lock)
return {stamp, 'held', string.sub(holder, 1, 320), left, '0', place - passed}
