-- token: mints a fencing token for an owner to which the script itself gives a lock or a share.
--
-- A token is one more than the counter, or the server's clock in microseconds (`micros`) if that is larger. So a
-- server that begins with an older snapshot, or a promoted replica that lacks the last writes, mints none again:
-- the clock has moved on past all former tokens. The counter expires after seven idle days.
--
-- Returns the token, and its text as written; or nil, and the error that has to be the script's reply. It is called
-- before anything else is written, so that a grant that the server refuses to write is not reported.

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
