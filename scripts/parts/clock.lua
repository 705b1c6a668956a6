-- clock: stands before a script, on its first line, where no script may call TIME (ElastiCache Serverless), and is called
-- in the place of that.
--
-- The server's clock is read from a key there: one that ends at a moment which is written down says by its PTTL how far
-- away that is. The key is there within the script alone. It has the slot of the script's last key, the patterns of an ACL
-- that allow that key allow it too, and none that is there is written over. Such a clock counts milliseconds.
--
-- A server that has TIME after all, or refuses the key, is asked for TIME.

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
