-- next_waiter: the first living waiter in the queue of a lock (queue.lua), which is to get the lock. Whatever is
-- before it is removed: dead waiters, invalid entries, and gaps.
--
-- A waiter lives if its entry has not ended by the server's clock and, if the lock `is_free`, its channel has a
-- subscriber: so nobody waits longer for a process that has died. An entry that lasts too long, because a clock was
-- set or another program wrote it, is cut to the longest time allowed. `own` is the ticket of the waiter that calls,
-- if any: it lives.
--
-- The end of more than 100 gaps is found by the names of all fields, if these are few, and the user may read
-- them (HKEYS). Otherwise gaps are passed 100 at a time. A queue with far too many gaps is deleted, so that no call
-- goes through them; so is a queue without an entry, or whose 'first' or 'last' is no ticket (a whole number up to
-- 2^52). Its waiters come back with their next command. After 500 entries, or 2000 gaps, the script has to reply
-- `again`, without doing its work: the caller repeats the command at once, which goes on from there.
--
-- Takes the queue's 'first' and 'last', as stored. Returns the first ticket and the last (1 and 0 if the queue is
-- empty, and so deleted), and of the waiter at the first: the owner, the TTL, the limit and the weight of the share
-- that it wants, if any, the channel, and `is_mute` if the server does not say whether that has a subscriber.

local function next_waiter(queue, now, is_free, begun, ended, own)
  local next, looked, first, last = {}, 0, tonumber(begun), tonumber(ended)
  local function is_ticket(number)
    return number and number % 1 == 0 and math.abs(number) <= 4503599627370496
  end
  if not is_ticket(first) or not is_ticket(last) then
    first, last = 1, 0
  end
  while first <= last and first ~= own and not next.owner and not next.again do
    local ticket = string.format('%.0f', first)
    local entry = redis.call('HGET', queue, ticket)
    looked = looked + 1
    if entry then
      local ends, ttl, want, channel, owner = string.match(entry, '^(%d+) ([1-9]%d*)(%S*) (%S+) (.+)$')
      local limit, weight = string.match(want or '', '^/(%d+)/([1-9]%d?)$')
      local lives, heard = (want == '' or weight) and tonumber(ends) >= now, nil
      if lives and is_free then
        heard = redis.pcall('PUBSUB', 'NUMSUB', channel)
        lives = heard.err or heard[2] > 0
      end
      if lives then
        if tonumber(ends) > now + 30000 then
          redis.call('HSET', queue, ticket, string.format('%.0f', now + 30000) .. string.sub(entry, #ends + 1))
        end
        next.owner, next.ttl, next.channel, next.is_mute = owner, ttl, channel, heard and heard.err
        next.limit, next.weight = limit, tonumber(weight)
      else
        -- The owner may have another entry, if another program wrote this one.
        local is_its = owner and redis.call('HGET', queue, owner) == ticket
        redis.call('HDEL', queue, ticket, is_its and owner or ticket)
        first = first + 1
      end
    else
      local fields, ahead, gaps = redis.call('HLEN', queue), {}, 1
      if fields <= 2 then
        first, last = 1, 0
      elseif first < last then
        for number = first + 1, math.min(last, first + 100) do
          ahead[#ahead + 1] = string.format('%.0f', number)
        end
        local entries = redis.call('HMGET', queue, unpack(ahead))
        looked = looked + 24
        while gaps <= #ahead and not entries[gaps] do
          gaps = gaps + 1
        end
      end
      if gaps > 100 then
        local names = fields <= 2000 and redis.pcall('HKEYS', queue)
        if names and not names.err then
          local nearest = last + 1
          for _, name in ipairs(names) do
            local number = tonumber(name)
            if number and number > first and number < nearest and name == string.format('%.0f', number) then
              nearest = number
            end
          end
          gaps, looked = nearest - first, looked + fields / 8
        elseif last - first > 100000 + 64 * fields then
          first, last = 1, 0
        end
      end
      first = first + gaps
    end
    if looked >= 500 and not next.owner and first <= last then
      next.again = redis.error_reply('AGAIN more entries are to be taken out')
    end
  end
  if first > last then
    if begun or ended then
      redis.call('DEL', queue)
    end
    first, last = 1, 0
  elseif begun ~= string.format('%.0f', first) then
    -- As in queue.lua.
    redis.call('HDEL', queue, '')
    redis.call('HSET', queue, 'first', string.format('%.0f', first))
  end
  next.first, next.last = first, last
  return next
end
