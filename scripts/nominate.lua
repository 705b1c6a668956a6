-- nominate: puts a waiter first in the queue of a lock, by its label. The next release then hands
-- the lock to this waiter.
--
-- KEYS    1 the queue
-- ARGV    1 the waiter's label; 2 the stamp
-- Reply   the stamp if the waiter is the first now; {stamp, 0} if nobody with this label waits
-- Atomic  because a server runs a script whole: nobody enters or leaves the queue between the search and the
--         move.
--
-- queue.lua describes the queue. At most 1024 tickets are searched. A waiter whose entry has ended does not
-- count.

local stamp = ARGV[2]
local first = tonumber(redis.call('HGET', KEYS[1], 'first') or '1')
local last = tonumber(redis.call('HGET', KEYS[1], 'last') or '0')
pcall(redis.replicate_commands)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for place = first, math.min(last, first + 1023) do
  local ticket = string.format('%.0f', place)
  local entry = redis.call('HGET', KEYS[1], ticket)
  local deadline, owner = string.match(entry or '', '^(%d+) %d+ %S+ (.*)$')
  if owner and tonumber(deadline) >= now and string.match(owner, '^[%x~+@!]*:(.*)$') == ARGV[1] then
    if place > first then
      local front = string.format('%.0f', first - 1)
      redis.call('HDEL', KEYS[1], ticket)
      redis.call('HSET', KEYS[1], front, entry)
      redis.call('HSET', KEYS[1], owner, front)
      redis.call('HSET', KEYS[1], 'first', front)
    end
    return stamp
  end
end
return {stamp, 0}
