-- settle: extends, finishes or gives up what once.lua or begin.lua has started, if it is still its owner's.
--
-- KEYS    1 the job, or the request
-- ARGV    1 the owner; 2 'extend', 'finish', or 'fail' for a run that others may repeat at once; 3 the TTL
--         in milliseconds; 4 for how long the key is kept, in milliseconds; 5 the result of what is
--         finished, or ''; 6 the stamp
-- Reply   the stamp; {stamp, 0} when another has started since, or the key is gone
-- Atomic  because a server runs a script whole: no other can start between the look at the owner and the
--         writing.
--
-- Both scripts begin their values with the owner and the end of its lease; what is behind that stays, and a
-- result goes to its end. What is finished stays finished: a second delivery changes nothing.

local kept = redis.call('GET', KEYS[1])
local its, ends, rest = string.match(kept or '', '^(%S+) (%d+) (.*)$')
if its ~= ARGV[1] then
  return {ARGV[6], 0}
elseif ends == '0' then
  return ARGV[2] == 'finish' and ARGV[6] or {ARGV[6], 0}
end
if redis.replicate_commands then
  redis.replicate_commands()
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
ends = ARGV[2] == 'extend' and now + ARGV[3] or ARGV[2] == 'fail' and 1 or 0
local value = string.format('%s %.0f ', its, ends) .. rest .. ARGV[5]
redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', math.max(tonumber(ARGV[3]), tonumber(ARGV[4]))))
return ARGV[6]
