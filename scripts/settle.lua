-- settle: extends, finishes or gives up work that once.lua or begin.lua has started, if it is still its owner's.
--
-- KEYS    1 the job, or the request
-- ARGV    1 the owner; 2 'extend', 'finish', or 'fail' for a run that others may repeat at once; 3 the TTL
--         in milliseconds; 4 for how long the key is kept, in milliseconds, at least the TTL; 5 the result
--         of finished work, or ''; 6 the stamp
-- Reply   the stamp; {stamp, 0} if another owner has started since, or the key is gone
-- Atomic  because a server runs a script whole: no other owner can start between reading the owner and
--         writing.
--
-- Both scripts begin their values with the owner and the end of its lease; the rest of the value stays, and
-- a result is appended. Finished or given up work stays so: a second delivery changes nothing, and a late
-- extension does not begin a lease.

local owner, how, stamp = ARGV[1] .. ' ', ARGV[2], ARGV[6]
local kept = redis.call('GET', KEYS[1])
if not kept or string.sub(kept, 1, #owner) ~= owner then
  return {stamp, 0}
end
local behind = string.find(kept, ' ', #owner + 1, true)
local ends = string.sub(kept, #owner + 1, behind - 1)
if ends == '0' or ends == '1' then
  return how == (ends == '0' and 'finish' or 'fail') and stamp or {stamp, 0}
end
ends = how == 'fail' and '1' or '0'
if how == 'extend' then
  pcall(redis.replicate_commands)
  local time = redis.call('TIME')
  ends = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3])
end
-- A full server refuses no such write, and after one lets a script write more.
redis.pcall('PEXPIRE', KEYS[1], ARGV[4])
redis.call('SET', KEYS[1], owner .. ends .. string.sub(kept, behind) .. ARGV[5], 'PX', ARGV[4])
return stamp
