-- prolong: makes shares of locks last for their TTL from now, where they are still their owners'.
--
-- KEYS    for each share, one after the other: the lock; its shares
-- ARGV    for each share, one after the other: its owner's value; the TTL in milliseconds; last the stamp
-- Reply   the stamp when all shares last that long now; else {stamp, for each share: 1 when it does; 0
--         when it is not the owner's}
-- Atomic  because a server runs a script whole: a share cannot be taken by another between the look at it
--         and its new end.
--
-- It stands in the place of extend.lua for what share.lua takes. A share that has ended does not come back:
-- its permit may be another's by now. The shares count only while the lock is shared: a writer may have come
-- and gone since.

if redis.replicate_commands then
  redis.replicate_commands()
end
local stamp, all = ARGV[#ARGV], true
local kept = {stamp}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for share = 1, #KEYS / 2 do
  local lock, shares = KEYS[2 * share - 1], KEYS[2 * share]
  local owner, ttl = ARGV[2 * share - 1], tonumber(ARGV[2 * share])
  local ends = string.format('%.0f', now + ttl)
  local holder, member, extended = redis.pcall('GET', lock), owner, 0
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    redis.call('GET', lock)
  end
  local is_shared = type(holder) == 'string' and string.byte(holder, 33) == 42
  local score = is_shared and redis.call('ZSCORE', shares, member)
  while score and tonumber(score) >= now do
    redis.call('ZADD', shares, ends, member)
    extended = extended + 1
    member = owner .. '#' .. extended
    score = redis.call('ZSCORE', shares, member)
  end
  if extended > 0 then
    local last = tonumber(redis.call('ZREVRANGE', shares, 0, 0, 'WITHSCORES')[2])
    local left = redis.call('PTTL', shares)
    if left < last - now or left > (last - now) * 1.25 + 2 then
      local later = string.format('%.0f', last + math.floor((last - now) / 8))
      redis.call('PEXPIREAT', lock, later)
      redis.call('PEXPIREAT', shares, later)
    end
  else
    all = false
  end
  kept[share + 1] = math.min(extended, 1)
end
return all and stamp or kept
