-- clock: is put before a script, on its first line, if no script may call TIME (ElastiCache Serverless), and is called
-- instead of TIME.
--
-- It reads the server's clock from a key: one with a known end has a PTTL that tells how far away that is. The key
-- exists only within the script. It is in the slot of the script's last key, ACL patterns that allow that key also
-- allow this one, and no existing key is overwritten. Such a clock counts milliseconds.
--
-- If a server has TIME after all, or refuses the key, TIME is called.

local function clock()
  local key = string.gsub(KEYS[#KEYS], '}:', '}:clock}:', 1)
  if key == KEYS[#KEYS] then
    key = key .. ':clock'
  end
  local told = redis.pcall('TIME')
  local set = told.err and redis.pcall('SET', key, '', 'NX', 'PXAT', '4503599627370496')
  if type(set) ~= 'table' or not set.ok then
    told = redis.call('TIME')
    return told
  end
  local now = 4503599627370496 - redis.call('PTTL', key)
  redis.call('DEL', key)
  return {math.floor(now / 1000), now % 1000 * 1000}
end
