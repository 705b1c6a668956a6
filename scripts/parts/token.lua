-- token: mints a fencing token for whoever is given a lock, or something of it, by the script itself.
--
-- A token is one more than the counter, or the server's clock in microseconds (`micros`) where that is ahead. So a
-- server that begins with an older snapshot, and a replica that is promoted and had not heard all, mints none
-- again: the clock has moved on past all that was minted before. The counter may be forgotten after seven idle days.
--
-- It gives back the token, and the token as it was written; or nil, and the error that is to be the script's reply. It is
-- called before anything else is written: what the server refuses to write, nobody is told of.

local function mint(fence, micros)
  local counter = redis.pcall('GET', fence)
  if type(counter) == 'table' then
    return nil, counter
  end
  counter = tonumber(counter or '0')
  if not counter or not (counter < 9007199254740991) then
    return nil, redis.error_reply('FENCE the fence counter of this lock holds no number or is used up: tokens end at 2^53')
  end
  local token = math.max(counter + 1, micros)
  local word = string.format('%.0f', token)
  local written = redis.pcall('SET', fence, word, 'PX', '604800000')
  if written.err then
    return nil, written
  end
  return token, word
end
