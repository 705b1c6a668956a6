-- inspect: returns the holders of locks, their remaining times, counters and queues. Changes nothing.
--
-- KEYS    for each lock, one after the other: the lock; its fence counter; its queue
-- ARGV    1 the maximum bytes of a holder's value to return; 2 the stamp
-- Reply   the stamp, and for each lock: {} if nobody holds it; {'other'} if its key is no lock;
--         else {the beginning of the holder's value, the length of the whole value, its
--         remaining TTL in milliseconds or -1 without one, the counter as a string ('' without
--         one), the number of processes that wait as a string}
-- Atomic  because a server runs a script whole: value, TTL and counter are of the same lease.
--
-- WRONGTYPE means that the key is no lock; any other error, such as a missing right, is raised by a
-- second GET, so that the server's error has the line.

-- Another program's value under the key of a counter or a queue is none.
local function is_foreign(reply)
  return type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE', 1, true)
end

local shown = {ARGV[2]}
for lock = 1, #KEYS, 3 do
  local holder = redis.pcall('GET', KEYS[lock])
  if type(holder) == 'table' and not is_foreign(holder) then
    redis.call('GET', KEYS[lock])
  end
  if not holder then
    shown[#shown + 1] = {}
  elseif type(holder) == 'table' then
    shown[#shown + 1] = {'other'}
  else
    local counter = redis.pcall('GET', KEYS[lock + 1])
    local fields = redis.pcall('HLEN', KEYS[lock + 2])
    if is_foreign(counter) then
      counter = ''
    elseif type(counter) == 'table' then
      redis.call('GET', KEYS[lock + 1])
    end
    if is_foreign(fields) then
      fields = 0
    elseif type(fields) == 'table' then
      redis.call('HLEN', KEYS[lock + 2])
    end
    shown[#shown + 1] = {
      string.sub(holder, 1, tonumber(ARGV[1])),
      #holder,
      redis.call('PTTL', KEYS[lock]),
      counter or '',
      tostring(math.max(math.floor(fields / 2) - 1, 0)),
    }
  end
end
return shown
