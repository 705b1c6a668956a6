-- queue: one process enters the queue of a lock, or says that it still waits there; and takes the
-- lock if that is free and nobody is before it.
--
-- KEYS    1 the lock; 2 its fence counter; 3 its queue
-- ARGV    1 the owner's value; 2 the TTL in milliseconds; 3 'enter' with the first command of this
--         owner, else 'beat'; 4 the process's channel; 5 for how many milliseconds the entry lives
--         without another command; last the stamp
-- Reply   granted: {stamp, 'granted', the fencing token}
--         held by another: {stamp, 'held', the holder's value (its first 320 bytes), its remaining TTL
--         in milliseconds or -1 without one, the counter as a string, maximum entries before this one,
--         the server's clock in microseconds}
--         free, and others are before this one: {stamp, 'queued', maximum entries before this one}
--         neither in the queue nor the holder: {stamp, 0}
--         an error AGAIN, to repeat the command at once (parts/next_waiter.lua): nothing of it was done
-- Atomic  because a server runs a script whole: no lock can become free between reading it and
--         entering the queue.
--
-- An owner is granted the lock at most once. So only its first command enters the queue: an owner that
-- was removed learns so, and comes back as another. If the owner already has the lock, it gets a whole
-- TTL again, and another token: the lease may count from this command.
--
-- The queue is first in, first out. But an owner with a priority ('!' and a number in its value, before the
-- label) passes waiters at the end with a smaller one, at most 128, among the last 2000 tickets. Each waiter
-- that it passes gets the ticket of the next one, so gaps stay where they are.
--
-- The queue is a hash: 'first' and 'last' are tickets, each ticket has an entry (its deadline by the
-- server's clock in milliseconds, the TTL, the channel and the owner's value), and each owner its ticket.
-- It expires with the last of its entries. A holder is marked by a byte 0 after its value, so that no plain
-- compare-and-delete frees a lock that has waiters. Only a value whose owner knows marks is marked, as shown
-- by '~' after its id, or '*' for a shared lock. Other owners compare their value whole, and would not find it:
-- those of earlier versions, and of other libraries (docs/compatibility.md). An owner in the queue knows marks,
-- whatever its value: so a lock that it gets there may be marked.
-- Tokens are minted by parts/token.lua.

pcall(redis.replicate_commands)
local stamp, owner, ttl = ARGV[#ARGV], ARGV[1], ARGV[2]
local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now, micros = time[1] * 1000 + math.floor(time[2] / 1000), time[1] * 1000000 + time[2]

local function forget(ticket, its_owner)
  redis.call('HDEL', queue, ticket, its_owner)
end

local function priority(its_owner)
  return tonumber(string.match(its_owner, '^[%x~+@]*!(%d+)') or '0')
end

--@ token

--@ next_waiter

local holder = redis.call('GET', lock)
local read = redis.pcall('HMGET', queue, owner, 'first', 'last')
if read.err then
  if not string.find(read.err, 'WRONGTYPE', 1, true) then
    redis.call('HMGET', queue, owner, 'first', 'last')
  end
  -- A hash that is no queue makes room for one.
  redis.call('DEL', queue)
  read = {}
end
local ticket, first, last = read[1], read[2], read[3]
if holder == owner or holder == owner .. '\0' then
  -- Not the present counter: a server that began with an older snapshot has one below this owner's token.
  local token, why = mint(fence, micros)
  if not token then
    return why
  elseif ticket then
    forget(ticket, owner)
  end
  redis.call('PEXPIRE', lock, ttl)
  return {stamp, 'granted', token}
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
-- Before anything is written, so that the server's error shows a key that is no counter.
local shown = redis.call('GET', fence) or '0'
local passed = next.first
place = place or next.last + 1
last = math.max(next.last, place)
local rank, passes, ahead = ticket and 0 or priority(owner), 0, place - 1
while rank > 0 and ahead >= passed and ahead > last - 2000 do
  local tickets = {}
  for number = ahead, math.max(passed, ahead - 99), -1 do
    tickets[#tickets + 1] = string.format('%.0f', number)
  end
  local entries = redis.call('HMGET', queue, unpack(tickets))
  for at, entry in ipairs(entries) do
    local its_owner = entry and string.match(entry, '^%d+ %S+ %S+ (.*)$')
    if its_owner and (passes == 128 or priority(its_owner) >= rank) then
      rank = 0
      break
    elseif its_owner then
      local behind = string.format('%.0f', place)
      redis.call('HSET', queue, behind, entry)
      redis.call('HSET', queue, its_owner, behind)
      place, passes = ahead + 1 - at, passes + 1
    end
  end
  ahead = ahead - #tickets
end
if place < passed then
  passed = place
end
if not holder and place <= passed then
  local token, why = mint(fence, micros)
  if not token then
    return why
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
  -- Removes nothing, but is a write, after which a full server lets a waiter say that it waits.
  redis.call('HDEL', queue, '')
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
if string.byte(holder, -1) ~= 0 and string.find(holder, '^' .. string.rep('%x', 32) .. '[~*]') then
  redis.call('APPEND', lock, '\0')
end
local left = redis.call('PTTL', lock)
return {stamp, 'held', string.sub(holder, 1, 320), left, shown, place - passed, micros}
