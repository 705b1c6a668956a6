-- once: claims a slot of a schedule for a run, if it is due and nobody has claimed it or a later one.
--
-- KEYS    1 the job
-- ARGV    1 the run's owner; 2 the slot in milliseconds since 1970, or '' for the latest one of a grid;
--         3 the period of the grid in milliseconds, '0' for a given slot; 4 the TTL of the run in
--         milliseconds if an unfinished slot is run again, '0' for a claim alone; 5 the stamp
-- Reply   claimed: {stamp, 'claimed', the slot, how often it has been claimed, an unfinished slot before it
--         or -1, the milliseconds until the grid's next slot or -1}
--         not due: {stamp, 'early', the milliseconds until it is due}
--         claimed before, or too old: {stamp, 'taken', the last slot that was claimed or -1, the next as
--         above}
--         a run of the job is not finished: {stamp, 'running', the milliseconds left of its lease, its
--         slot}
-- Atomic  because a server runs a script whole: no other run can claim the slot between reading the key and
--         writing it.
--
-- The value is the owner, when its lease ends (0 of a run that is finished, or of a claim alone; 1 of a run
-- that has failed), the slot, and how often that was claimed. A slot that is seven days old is never claimed,
-- and the key lasts for seven days from the last claim: so a forgotten slot is too old. A second delivery
-- finds its own claim, even in a later slot of the grid, with the same reply but for an unfinished slot before
-- it, which the claim has overwritten; after the run is over, it begins nothing. TIME makes no difference to
-- replicas: servers before Redis 5 replicate scripts, and are told to replicate effects.

local owner, ttl, stamp = ARGV[1], tonumber(ARGV[4]), ARGV[5]
pcall(redis.replicate_commands)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local slot, period, next_in = tonumber(ARGV[2]), tonumber(ARGV[3]), -1
if period > 0 then
  slot = now - now % period
  next_in = slot + period - now
end
if slot > now then
  return {stamp, 'early', slot - now}
end

local last, count, claims, unfinished, its_slot = -1, 1, '1', -1, ARGV[2]
local kept = redis.call('GET', KEYS[1])
if kept then
  local its, ends, number, before = string.match(kept, '^(%S+) (%d+) (%d+) (%d+)$')
  if not its then
    return redis.error_reply('ONCE the key holds a value that is no job')
  end
  last, ends = tonumber(number), tonumber(ends)
  if its == owner and ttl > 0 and ends < 2 then
    return {stamp, 'taken', last, next_in}
  elseif its == owner then
    slot, its_slot, count, claims = last, number, tonumber(before), before
  elseif ends > now then
    return {stamp, 'running', ends - now, last}
  elseif slot < last or slot == last and ends == 0 then
    return {stamp, 'taken', last, next_in}
  elseif slot == last then
    count = before + 1
    claims = count
  elseif ends > 0 then
    unfinished = last
  end
end
if slot <= now - 604800000 then
  return {stamp, 'taken', last, next_in}
end
local ends = '0'
if ttl > 0 then
  ends = string.format('%d%03d', (now + ttl) / 1000, (now + ttl) % 1000)
end
if period > 0 then
  its_slot = string.format('%.0f', slot)
end
local value = owner .. ' ' .. ends .. ' ' .. its_slot .. ' ' .. claims
redis.call('SET', KEYS[1], value, 'PX', '604800000')
return {stamp, 'claimed', slot, count, unfinished, next_in}
