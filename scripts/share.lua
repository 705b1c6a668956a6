-- share: takes a share of a lock, waits for one, gives one back, and turns a share into the whole lock and
-- back. A reader's share has no limit; the shares of a semaphore are its permits.
--
-- KEYS    1 the lock; 2 its fence counter; 3 its queue; 4 its shares
-- ARGV    1 the owner's value; 2 what to do; last the stamp
--         'take' takes a share, unless others wait; 'enter' enters the queue where none is to be had, and
--         'beat' says that the owner still waits there. For these: 3 the TTL in milliseconds; 4 the limit, 0
--         without one; 5 the weight, 1 to 64; for the last two 6 the channel that the process hears, and 7
--         for how many milliseconds the entry lives without a word
--         'upgrade' takes the whole lock if no other has a share, 'downgrade' keeps a share of the whole
--         lock: 3 the TTL in milliseconds; 4 the value under which the owner has what it has
--         'look' says how many shares are taken, and changes nothing
--         '' gives back, and 'leave' does also leave the queue: 3 where the owner took over from another,
--         that one's value
--         One of the keys alone, where the others are on another node, can be given back by no
--         share: its TTL ends it
-- Reply   granted: {stamp, 'granted', the fencing token}
--         not to be had: {stamp, 'held', the holder's value (its first 320 bytes), the milliseconds until
--         there may be more or -1 where that is not known, '0', maximum entries before this one, or for an
--         upgrade the number of the others who have shares}
--         to be had, and others are before this one: {stamp, 'queued', maximum entries before this one}
--         shared with another limit: {stamp, 'limit', that limit, the one that is wanted}
--         looked at: {stamp, the number of shares that are taken}
--         given back: the stamp; and {stamp, 0} where it was not the owner's (any more), or is not in the
--         queue
-- Atomic  because a server runs a script whole: nobody comes between the look at who has what and the
--         writing of it, and none of those who wait is overtaken.
--
-- A lock is free, one owner's, or shared. While it is shared, a value stands under it that is no owner's:
-- the first sharer's, with '*' and the limit behind its id. So whoever knows only the lock finds it held,
-- for as long as the longest share lasts, or a quarter longer: who watches the lock is not told of each
-- renewal. The shares count only while that value stands there.
--
-- The shares are a sorted set, scored by the server's time in milliseconds at which each ends by its own
-- TTL. A share of weight 3 has three members: the owner's value, and that with '#1' and '#2' behind it. The
-- number of live ones is a range, so there is no counter that can be wrong. Shares that have ended are
-- forgotten some at a time, for their space alone.
--
-- Those who wait stand in the queue of queue.lua: who wants a share has '/', the limit, '/' and the weight
-- behind its TTL. The first is never overtaken. Whatever makes room hands on to the first, and to those
-- behind it as far as there is room: at most 64 shares at once. What release.lua frees, it hands to nobody
-- who wants a share: it tells the first to ask.
--
-- A reader's token is the one of the last writer: who checks tokens refuses a reader's that is below the
-- last writer's. Each permit has a token of its own.

if redis.replicate_commands then
  redis.replicate_commands()
end
local stamp, owner, how = ARGV[#ARGV], ARGV[1], ARGV[2]
local lock, fence, queue, shares = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function whole(number)
  return string.format('%.0f', number)
end

if not shares then
  return {stamp, 0}
end
local holder = redis.pcall('GET', lock)
if type(holder) == 'table' then
  local is_no_lock = string.find(holder.err, 'WRONGTYPE', 1, true) and (how == '' or how == 'leave')
  return is_no_lock and {stamp, 0} or redis.call('GET', lock)
end
local function count()
  local live = redis.call('ZCOUNT', shares, whole(now), '+inf')
  return live
end

-- The limit of a lock that is shared, and how many shares are taken. Without any, it is free.
local limit, used = nil, 0
if holder and string.byte(holder, 33) == 42 then
  limit = string.match(holder, '^%x+%*(%d+)')
end
if limit then
  used = count()
end
if how == 'look' then
  return {stamp, used}
end
if limit then
  if used == 0 then
    redis.call('DEL', lock)
    holder, limit = false, nil
  end
end

local function mint(is_kept)
  local counter = redis.call('GET', fence)
  local token = tonumber(counter or '0')
  if not token or token >= 9007199254740991 then
    return nil
  end
  if is_kept and counter and #counter >= 16 then
    return token
  end
  token = math.max(token + 1, time[1] * 1000000 + time[2])
  redis.call('SET', fence, whole(token), 'PX', '604800000')
  return token
end

local function ended()
  return redis.error_reply('FENCE the fence counter of this lock holds no number below 2^53')
end

-- An owner's members.
local function members(of, weight)
  local all = {of}
  for more = 1, weight - 1 do
    all[more + 1] = of .. '#' .. more
  end
  return all
end

-- The members that there are of an owner who has one.
local function members_of(of)
  local weight = 1
  while limit ~= '0' and redis.call('ZSCORE', shares, of .. '#' .. weight) do
    weight = weight + 1
  end
  return members(of, weight)
end

-- The lock lasts as long as the last of its shares, and no more than a quarter longer.
local function keep()
  local last = tonumber(redis.call('ZREVRANGE', shares, 0, 0, 'WITHSCORES')[2])
  local left = redis.call('PTTL', shares)
  if left < last - now or left > (last - now) * 1.25 + 2 then
    local ends = whole(last + math.floor((last - now) / 8))
    redis.call('PEXPIREAT', lock, ends)
    redis.call('PEXPIREAT', shares, ends)
  end
end

-- They last for this TTL from now.
local function put(all, ttl)
  local ends, scored = whole(now + ttl), {}
  for number = 1, #all do
    scored[2 * number - 1], scored[2 * number] = ends, all[number]
  end
  redis.call('ZADD', shares, unpack(scored))
  keep()
end

-- The lock is shared from here on, where it was not.
local function open(first, its_limit, ttl)
  if not limit then
    redis.call('UNLINK', shares)
    redis.call('SET', lock, string.sub(first, 1, 32) .. '*' .. its_limit .. string.sub(first, 33), 'PX', ttl)
    limit, used = its_limit, 0
  end
end

-- Live shares are gone: the lock lasts as long as the last of the others, or is free.
local function close(weight)
  used = used - weight
  if used == 0 then
    redis.call('DEL', lock)
    redis.call('UNLINK', shares)
    holder, limit = false, nil
  else
    keep()
  end
end

local function is_room(its_limit, weight)
  if not limit then
    return not holder
  end
  return limit == its_limit and (limit == '0' or used + weight <= tonumber(limit))
end

-- The first of those who wait are given what there is room for.
local function serve()
  local first = redis.call('HGET', queue, 'first')
  local last = redis.call('HGET', queue, 'last')
  if not first or not last then
    return
  end
  first, last = tonumber(first), tonumber(last)
  local unheard, gaps, given, is_over = 0, 0, 0, false
  while not is_over and first <= last and unheard < 16 and gaps < 128 and given < 64 do
    local ticket = whole(first)
    local entry = redis.call('HGET', queue, ticket)
    if entry then
      local deadline, ttl, want, channel, its = string.match(entry, '^(%d+) (%d+)(%S*) (%S+) (.*)$')
      local its_limit, weight = string.match(want, '^/(%d+)/(%d+)$')
      weight = tonumber(weight)
      local is_late = tonumber(deadline) < now
      local has_room = not is_late and (weight and is_room(its_limit, weight) or not weight and not holder)
      local heard = has_room and redis.pcall('PUBSUB', 'NUMSUB', channel)
      if not is_late and (not has_room or heard.err) then
        break
      end
      redis.call('HDEL', queue, ticket, its)
      first = first + 1
      if heard and heard[2] == 0 then
        unheard = unheard + 1
      elseif heard then
        local token = mint(its_limit == '0')
        if not token then
          break
        end
        if weight then
          open(its, its_limit, ttl)
          put(members(its, weight), ttl)
          used, given = used + weight, given + weight
        else
          redis.call('SET', lock, first <= last and its .. '\0' or its, 'PX', ttl)
          is_over = true
        end
        holder = its
        redis.call('PUBLISH', channel, whole(token) .. ' ' .. its)
      end
    else
      gaps = gaps + 1
      first = first + 1
    end
  end
  if first <= last then
    redis.call('HSET', queue, 'first', whole(first))
  else
    redis.call('DEL', queue)
  end
end

local function is_of(value)
  return holder and value and (holder == value or holder == value .. '\0')
end

local mine = limit and redis.call('ZSCORE', shares, owner)
if mine and tonumber(mine) < now then
  redis.call('ZREM', shares, unpack(members_of(owner)))
  mine = nil
end
local is_waited_for = redis.call('EXISTS', queue) == 1
local ticket = is_waited_for and redis.call('HGET', queue, owner)

local function forget()
  if ticket then
    redis.call('HDEL', queue, ticket, owner)
  end
end

if how == '' or how == 'leave' then
  if how == 'leave' then
    forget()
  end
  local reply = stamp
  if mine then
    local gone = members_of(owner)
    redis.call('ZREM', shares, unpack(gone))
    close(#gone)
  elseif is_of(owner) or is_of(ARGV[4] and ARGV[3]) then
    redis.call('DEL', lock)
    holder = false
  else
    reply = {stamp, 0}
  end
  if is_waited_for then
    serve()
  end
  return reply
end

local ttl = ARGV[3]
if how == 'upgrade' then
  local from = ARGV[4]
  local score = limit == '0' and redis.call('ZSCORE', shares, from)
  if not is_of(owner) and (not score or tonumber(score) < now) then
    return {stamp, 0}
  elseif not is_of(owner) and used > 1 then
    return {stamp, 'held', string.sub(holder, 1, 320), redis.call('PTTL', lock), '0', used - 1}
  end
  local token = mint(false)
  if not token then
    return ended()
  end
  local mark = is_waited_for and '\0' or ''
  redis.call('SET', lock, owner .. mark, 'PX', ttl)
  redis.call('UNLINK', shares)
  return {stamp, 'granted', token}
elseif how == 'downgrade' and (mine or is_of(ARGV[4])) then
  local token = mint(true)
  if not token then
    return ended()
  end
  open(owner, '0', ttl)
  put({owner}, ttl)
  used = math.max(used, 1)
  serve()
  return {stamp, 'granted', token}
elseif how == 'downgrade' then
  return {stamp, 0}
end

local its_limit, weight = ARGV[4], tonumber(ARGV[5])
if mine then
  local token = mint(limit == '0')
  if not token then
    return ended()
  end
  forget()
  put(members_of(owner), ttl)
  return {stamp, 'granted', token}
elseif limit and limit ~= its_limit then
  forget()
  serve()
  return {stamp, 'limit', tonumber(limit), tonumber(its_limit)}
elseif how == 'beat' and not ticket then
  return {stamp, 0}
end

-- Entries at the front whose waiters have said nothing for too long, and gaps.
local first, last = 1, 0
if is_waited_for then
  first = tonumber(redis.call('HGET', queue, 'first') or '1')
  last = tonumber(redis.call('HGET', queue, 'last') or '0')
end
local passed = first
while passed <= last and passed - first < 128 do
  local entry = redis.call('HGET', queue, whole(passed))
  if entry then
    local deadline, its = string.match(entry, '^(%d+) %S+ %S+ (.*)$')
    if its == owner or tonumber(deadline) >= now then
      break
    end
    redis.call('HDEL', queue, whole(passed), its)
  end
  passed = passed + 1
end
local place = ticket and tonumber(ticket) or last + 1
passed = math.min(passed, place)

local has_room = is_room(its_limit, weight)
if has_room and passed == place then
  local token = mint(its_limit == '0')
  if not token then
    return ended()
  end
  forget()
  open(owner, its_limit, ttl)
  local live = used
  put(members(owner, weight), ttl)
  if redis.call('ZCARD', shares) > live + weight then
    local before_now = '(' .. whole(now)
    local over = redis.call('ZRANGEBYSCORE', shares, '-inf', before_now, 'LIMIT', 0, 16 + weight)
    redis.call('ZREM', shares, unpack(over))
  end
  holder, used = owner, live + weight
  if last >= first then
    redis.call('HSET', queue, 'first', whole(ticket and place + 1 or passed))
    serve()
  end
  return {stamp, 'granted', token}
end

if how ~= 'take' then
  local life = tonumber(ARGV[7])
  redis.call('HSET', queue, 'first', whole(passed))
  if not ticket then
    redis.call('HSET', queue, 'last', whole(place))
    redis.call('HSET', queue, owner, whole(place))
  end
  local want = ttl .. '/' .. its_limit .. '/' .. ARGV[5]
  redis.call('HSET', queue, whole(place), whole(now + life) .. ' ' .. want .. ' ' .. ARGV[6] .. ' ' .. owner)
  if redis.call('PTTL', queue) < life then
    redis.call('PEXPIRE', queue, ARGV[7])
  end
end
if has_room then
  return {stamp, 'queued', place - passed}
end
local is_ours = not limit and string.find(holder, '^' .. string.rep('%x', 32) .. '[:@+!]')
if how ~= 'take' and is_ours and string.sub(holder, -1) ~= '\0' then
  redis.call('APPEND', lock, '\0')
end
local left = redis.call('PTTL', lock)
if limit and limit ~= '0' then
  local next = redis.call('ZRANGEBYSCORE', shares, whole(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  left = next and tonumber(next) - now or 0
end
return {stamp, 'held', string.sub(holder, 1, 320), left, '0', place - passed}
