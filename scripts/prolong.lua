-- prolong: makes shares of locks last for their TTL from now, if their owners still have them.
--
-- KEYS    for each share, one after the other: the lock; its shares
-- ARGV    for each share, one after the other: its owner's value; the TTL in milliseconds; last the stamp
-- Reply   the stamp if all shares last that long now; else {stamp, for each share: 1 if it does; 0 if the
--         owner does not have it}
-- Atomic  because a server runs a script whole: a share cannot be taken by another between reading it
--         and setting its end.
--
-- For shares, this is used instead of extend.lua. A share that has ended does not come back: another owner
-- may have its permit by now. The shares count only while the lock is shared: a writer may have come and
-- gone since. If the lock would end before the share, its end rests on the share from then on. A byte 0
-- after the lock's value means that there are waiters (share.lua): it stays there.

pcall(redis.replicate_commands)
local call, stamp, all = redis.call, ARGV[#ARGV], true
local kept = {stamp}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for share = 1, #KEYS / 2 do
  local lock, shares = KEYS[2 * share - 1], KEYS[2 * share]
  local owner, ttl = ARGV[2 * share - 1], ARGV[2 * share]
  local holder = redis.pcall('GET', lock)
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    call('GET', lock)
  end
  local is_shared = type(holder) == 'string' and string.byte(holder, 33) == 42
    and string.find(holder, '^' .. string.rep('%x', 32) .. '%*%d') == 1
  local score = is_shared and call('ZSCORE', shares, owner)
  if score and tonumber(score) >= now then
    local ends = string.format('%d%03d', (now + ttl) / 1000, (now + ttl) % 1000)
    local limit, more = string.match(holder, '^%d+', 34), 1
    -- Removes nothing, but is a write, after which a full server lets a script write what needs no more memory.
    call('ZREM', shares, '')
    call('ZADD', shares, ends, owner)
    while limit ~= '0' and call('ZSCORE', shares, owner .. '#' .. more) do
      call('ZADD', shares, ends, owner .. '#' .. more)
      more = more + 1
    end
    if call('PTTL', shares) < tonumber(ttl) then
      local lasts = ttl + math.floor(ttl / 8)
      local behind = string.sub(owner, 33) .. (string.byte(holder, -1) == 0 and '\0' or '')
      call('SET', lock, string.sub(owner, 1, 32) .. '*' .. limit .. behind, 'PX', lasts)
      call('PEXPIRE', shares, lasts)
    end
    kept[share + 1] = 1
  else
    all = false
    kept[share + 1] = 0
  end
end
return all and stamp or kept
