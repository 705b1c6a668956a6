-- kept: says what is kept under keys of primitives. It changes nothing.
--
-- KEYS    1.. the keys
-- ARGV    1 how many bytes of a string are said, less one; 2 the stamp
-- Reply   the stamp, the server's clock in microseconds as a string, and for each key: {} where there is none;
--         {TTL in milliseconds or -1, the beginning of the string}; {TTL, the field '#' or '', how many fields}
--         of a hash; {TTL} of any other type
-- Atomic  because a server runs a script whole: all keys are of the same moment.
--
-- Of WRONGTYPE it is concluded that the key is no string; any other error, such as a right that the user
-- lacks, is raised by a second GETRANGE.

local time = redis.call('TIME')
local shown = {ARGV[2], string.format('%.0f', time[1] * 1000000 + time[2])}
for key = 1, #KEYS do
  local value = redis.pcall('GETRANGE', KEYS[key], '0', ARGV[1])
  local pttl = redis.call('PTTL', KEYS[key])
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    redis.call('GETRANGE', KEYS[key], '0', ARGV[1])
  end
  if pttl == -2 then
    shown[key + 2] = {}
  elseif type(value) == 'string' then
    shown[key + 2] = {pttl, value}
  else
    local fields = redis.pcall('HLEN', KEYS[key])
    if type(fields) == 'number' then
      local field = redis.call('HGET', KEYS[key], '#')
      shown[key + 2] = {pttl, field or '', fields}
    else
      shown[key + 2] = {pttl}
    end
  end
end
return shown
