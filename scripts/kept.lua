-- kept: returns the values of the keys of primitives. Changes nothing.
--
-- KEYS    1.. the keys
-- ARGV    1 the index of the last byte to return of a string; 2 the stamp
-- Reply   the stamp, the server's clock in microseconds as a string, and for each key: {} if it is missing;
--         {TTL in milliseconds or -1, the beginning of the string}; {TTL, the field '#' or '', the number of
--         fields} of a hash; {TTL} of any other type
-- Atomic  because a server runs a script whole: all keys are read at the same moment.
--
-- WRONGTYPE means that the key is no string; any other error, such as a missing right, is raised by a second
-- GETRANGE.

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
