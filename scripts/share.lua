-- share: takes a share of a lock, waits for one, releases one, and turns a share into the whole lock and
-- back. A reader's share has no limit; the shares of a semaphore are its permits.
--
-- KEYS    1 the lock; 2 its fence counter; 3 its queue; 4 its shares
-- ARGV    1 the owner's value; 2 what to do; last the stamp
--         'take' takes a share, unless others wait; 'enter' enters the queue if there is no room, and 'beat'
--         says that the owner still waits there; 'mend' is 'take' for an owner whose share this server
--         has lost, while a quorum of others has it. For these: 3 the TTL in milliseconds; 4 the limit, 0
--         without one; 5 the weight, 1 to 64; for 'enter' and 'beat' 6 the process's channel, and 7 for how
--         many milliseconds the entry lives without another command; for the others, over several servers,
--         6 the largest token that any of them has, or 0
--         'upgrade' takes the whole lock if no other owner has a share, 'downgrade' keeps a share of the whole
--         lock: 3 the TTL in milliseconds; 4 the value of the owner that has it until then; for 'downgrade' over
--         several servers 5 the largest token that any of them has, or 0
--         'look' returns how many shares are taken, and changes nothing
--         '' releases, 'single' does so for an owner whose share has weight 1, and 'leave' also leaves the
--         queue: 3 if the owner took over from another, that one's value
--         If the keys are on several nodes, no share can be released by one of them alone: its TTL ends
--         it
-- Reply   granted: {stamp, 'granted', the fencing token}
--         no room: {stamp, 'held', the holder's value (its first 320 bytes), the milliseconds until there
--         may be room or -1 if unknown, the counter as a string, maximum entries before this one, the
--         server's clock in microseconds}; for an upgrade '0', the number of other owners with shares, and
--         no clock
--         room, and others are before this one: {stamp, 'queued', maximum entries before this one}
--         shared with another limit: {stamp, 'limit', that limit, the requested one}
--         'look': {stamp, the number of shares that are taken}
--         released: the stamp; {stamp, 0} if the owner did not have it (any more), or is not in the
--         queue
--         an error AGAIN, to repeat the command at once (parts/next_waiter.lua): nothing of it was done
-- Atomic  because a server runs a script whole: nobody comes between reading the shares and writing
--         them, and no waiter is overtaken.
--
-- A lock is free, one owner's, or shared. While it is shared, its value is no owner's: it is a sharer's, with
-- '*' and the limit after its id. So a client that knows only the lock finds it held. The lock's end rests on
-- the share of that sharer: it is never before another share's, and at most an eighth of a TTL after it. So
-- few shares move it, and only the release of that share looks for another. The shares count only while the lock
-- has such a value. A byte 0 after it means that there are waiters, as for one owner's lock (queue.lua):
-- without that byte, taking or releasing a share does not read the queue.
--
-- The shares are a sorted set, scored by the server's time in milliseconds at which each ends by its own
-- TTL. A share of weight 3 has three members: the owner's value, and that followed by '#1' and '#2'. The
-- live ones are counted by a range, so no counter can be wrong. Shares that have ended are deleted some at
-- a time, only for their space; until then they can be released.
--
-- Waiters are in the queue of queue.lua: a waiter for a share has '/', the limit, '/' and the weight after
-- its TTL. The first living one (parts/next_waiter.lua) is never overtaken. A command that makes room hands on
-- to it, and to later waiters while there is room: at most 64 shares at once. release.lua hands a lock to no
-- waiter for a share: it has the next one ask.
--
-- A writer, a permit, and the first of several readers each get a token of their own (parts/token.lua); readers
-- that join others get those readers' token. So a reader's token is above that of the writer before it, and
-- resources refuse no reader for another. It is minted before anything else is written: a write that the server
-- refuses costs nobody a share. Over several servers a reader keeps the present token, and each server's counter
-- is raised to the largest of all before a reader gets it: so any later writer's token is larger.
--
-- The most frequent calls come first: a server pays for each function that a script defines before it ends.

local call, stamp, owner, how = redis.call, ARGV[#ARGV], ARGV[1], ARGV[2]
local lock, fence, queue, shares = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if not shares then
  return {stamp, 0}
end
local is_single = how == 'single'
how = is_single and '' or how
local holder = redis.pcall('GET', lock)
if type(holder) == 'table' then
  local is_no_lock = string.find(holder.err, 'WRONGTYPE', 1, true) and (how == '' or how == 'leave')
  return is_no_lock and {stamp, 0} or call('GET', lock)
end
-- Nearly every release: no waiters, and the lock is one owner's, or its end rests on another share, or this
-- was the last one.
if how == '' and holder == owner and call('EXISTS', queue) == 0 then
  call('DEL', lock)
  return stamp
end
local is_shared, is_marked, digit = false, false, nil
if holder then
  local star
  star, digit = string.byte(holder, 33, 34)
  is_shared = star == 42 and string.find(holder, '^' .. string.rep('%x', 32) .. '%*%d') == 1
  is_marked = string.byte(holder, -1) == 0
end
local looks = is_marked or not is_shared or how ~= '' and how ~= 'take'
-- A share is released even if the queue's key holds no queue.
local waiting = looks and redis.pcall('HLEN', queue)
if type(waiting) == 'table' and not string.find(waiting.err, 'WRONGTYPE', 1, true) then
  call('HLEN', queue)
end
if type(waiting) == 'table' and (how == 'enter' or how == 'beat') then
  call('DEL', queue)
end
--@ next_waiter

-- The next waiter, before anything is done: if the queue says AGAIN, nothing is.
local is_waited_for, time, now, next, ticket = type(waiting) == 'number' and waiting > 0, nil, nil, nil, nil
if is_waited_for and how ~= 'look' then
  pcall(redis.replicate_commands)
  time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  local first, last
  first, last, ticket = unpack(call('HMGET', queue, 'first', 'last', owner))
  if ticket and how == 'leave' then
    call('HDEL', queue, ticket, owner)
    ticket = false
  end
  -- A downgrade makes room, too.
  local may_be_free = how == '' or how == 'leave' or how == 'downgrade' or not holder or is_shared
  next = next_waiter(queue, now, may_be_free, first, last, tonumber(ticket))
  if next.again then
    return next.again
  end
  is_waited_for = next.first <= next.last
end
local gone, is_resting = 0, false
if is_shared and (how == '' or how == 'leave') then
  if is_single or digit == 48 then
    gone = redis.pcall('ZREM', shares, owner)
  else
    gone = redis.pcall('ZREM', shares, owner, owner .. '#1')
  end
  -- A server that refuses writes has nothing to release of an owner without a share.
  if type(gone) == 'table' then
    local is_there = redis.pcall('ZSCORE', shares, owner)
    gone = is_there and call('ZREM', shares, owner) or 0
  end
  while gone > 1 and call('ZREM', shares, owner .. '#' .. gone) == 1 do
    gone = gone + 1
  end
  is_resting = gone > 0 and string.byte(holder, 32) == string.byte(owner, 32)
    and string.sub(holder, 1, 32) == string.sub(owner, 1, 32)
  if not is_waited_for then
    if gone == 0 then
      return {stamp, 0}
    elseif not is_resting then
      return stamp
    elseif call('EXISTS', shares) == 0 then
      call('DEL', lock)
      return stamp
    end
  end
end

if not time then
  pcall(redis.replicate_commands)
  time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
-- The limit of a shared lock. Without one, the lock is free, or one owner's.
local limit = is_shared and (digit == 48 and '0' or string.match(holder, '^%d+', 34))

-- Nearly every first attempt: no waiters, and the lock is free, or lasts long enough and has room even if
-- shares that have ended count.
local ttl, its_limit = ARGV[3], ARGV[4]
local micros = time[1] * 1000000 + time[2]
-- The largest token of other servers, if there are several.
local least
if how == 'take' or how == 'mend' then
  least = #ARGV > 6 and tonumber(ARGV[6])
elseif how == 'downgrade' then
  least = #ARGV > 5 and tonumber(ARGV[5])
end
--@ token

-- The present token, raised to the largest of other servers, if it `stays`; else a minted one.
local function draw(stays)
  local counter = (stays or least) and redis.pcall('GET', fence)
  if type(counter) == 'table' then
    return nil, counter
  end
  local token = math.max(tonumber(counter or '0') or 0, least or 0)
  -- tonumber may read a word as NaN, which fails both comparisons.
  if not (token >= 1000000000000000 and token < 9007199254740991) then
    return mint(fence, micros)
  end
  local word = string.format('%.0f', token)
  local written = word ~= counter and redis.pcall('SET', fence, word, 'PX', '604800000')
  if written and written.err then
    return nil, written
  end
  return token, word
end

if how == 'take' and not is_waited_for
  and (not holder or limit == its_limit and call('PTTL', shares) >= tonumber(ttl)) then
  if its_limit == '0' or not holder or call('ZCARD', shares) + ARGV[5] <= tonumber(limit) then
    local token, why = draw(limit == '0')
    if not token then
      return why
    end
    if not holder then
      call('UNLINK', shares)
    end
    local ends = string.format('%d%03d', (now + ttl) / 1000, (now + ttl) % 1000)
    call('ZADD', shares, ends, owner)
    for more = 1, ARGV[5] - 1 do
      call('ZADD', shares, ends, owner .. '#' .. more)
    end
    if not holder then
      local lasts = ttl + math.floor(ttl / 8)
      call('SET', lock, string.sub(owner, 1, 32) .. '*' .. its_limit .. string.sub(owner, 33), 'PX', lasts)
      call('PEXPIRE', shares, lasts)
    end
    return {stamp, 'granted', token}
  end
end

local function whole(number)
  return string.format('%.0f', number)
end

-- The number of taken shares.
local function count()
  local live = call('ZCOUNT', shares, whole(now), '+inf')
  return live
end

local used = limit and count() or 0
if how == 'look' then
  return {stamp, used}
elseif limit and used == 0 and gone == 0 then
  call('DEL', lock)
  holder, limit = false, false
end

local enters = how == 'enter' or how == 'beat'
-- Rests the lock's end on this owner's share.
local function rest_on(of, lasts)
  local behind = string.sub(of, 33) .. (is_waited_for and '\0' or '')
  call('SET', lock, string.sub(of, 1, 32) .. '*' .. limit .. behind, 'PX', lasts)
  call('PEXPIRE', shares, lasts)
end

-- Gives an owner a share for this TTL from now. If it is the first, the lock is shared from now on.
local function put(of, its_limit, its_weight, its_ttl)
  local is_new = not limit
  if is_new then
    call('UNLINK', shares)
    limit, used = its_limit, 0
  end
  local ends = whole(now + its_ttl)
  local scored = {ends, of}
  for more = 1, its_weight - 1 do
    scored[2 * more + 1], scored[2 * more + 2] = ends, of .. '#' .. more
  end
  call('ZADD', shares, unpack(scored))
  if is_new or call('PTTL', shares) < tonumber(its_ttl) then
    rest_on(of, its_ttl + math.floor(its_ttl / 8))
  end
end

-- After a share is gone, rests the lock's end on another one, or frees the lock.
local function close()
  used = count()
  if used == 0 then
    call('DEL', lock)
    call('UNLINK', shares)
    holder, limit = false, false
  elseif is_resting then
    local last = call('ZREVRANGE', shares, 0, 0, 'WITHSCORES')
    local its = string.match(last[1], '^(.*)#%d+$')
    if not its or not call('ZSCORE', shares, its) then
      its = last[1]
    end
    rest_on(its, math.max(1, math.floor((last[2] - now) * 1.125)))
  end
end

local function is_room(its_limit, its_weight)
  if not limit then
    return not holder
  end
  return limit == its_limit and (limit == '0' or used + its_weight <= tonumber(limit))
end

-- Gives the next waiters shares, while there is room.
local function serve(waiter)
  local given = 0
  while waiter and waiter.owner and not waiter.is_mute and given < 64 do
    local its, its_limit, its_weight = waiter.owner, waiter.limit, waiter.weight
    local has_room = its_weight and is_room(its_limit, its_weight) or not its_weight and not holder
    if not has_room then
      break
    end
    local token, word = draw(limit == '0')
    if not token then
      break
    end
    call('HDEL', queue, whole(waiter.first), its)
    if its_weight then
      put(its, its_limit, its_weight, waiter.ttl)
      used, given = used + its_weight, given + its_weight
    else
      call('SET', lock, waiter.first < waiter.last and its .. '\0' or its, 'PX', waiter.ttl)
    end
    holder = its
    redis.pcall('PUBLISH', waiter.channel, word .. ' ' .. its)
    waiter = next_waiter(queue, now, its_weight, waiter.first + 1, waiter.last)
  end
end

local function is_of(value)
  return holder and value and (holder == value or holder == value .. '\0')
end

local function forget()
  if ticket then
    call('HDEL', queue, ticket, owner)
  end
end

if how == '' or how == 'leave' then
  local reply = stamp
  if gone > 0 then
    close()
  elseif is_of(owner) or is_of(ARGV[4] and ARGV[3]) then
    call('DEL', lock)
    holder = false
  else
    reply = {stamp, 0}
  end
  serve(next)
  return reply
end

local weight, mine = tonumber(ARGV[5]), limit and call('ZSCORE', shares, owner)
mine = mine and tonumber(mine) >= now
if how == 'upgrade' then
  local from = ARGV[4]
  local score = limit == '0' and call('ZSCORE', shares, from)
  if not is_of(owner) and (not score or tonumber(score) < now) then
    return {stamp, 0}
  elseif not is_of(owner) and used > 1 then
    return {stamp, 'held', string.sub(holder, 1, 320), call('PTTL', lock), '0', used - 1}
  end
  local upgraded, why = draw()
  if not upgraded then
    return why
  end
  local mark = is_waited_for and '\0' or ''
  call('SET', lock, owner .. mark, 'PX', ttl)
  call('UNLINK', shares)
  return {stamp, 'granted', upgraded}
elseif how == 'downgrade' and (mine or is_of(ARGV[4])) then
  local token, why = draw()
  if not token then
    return why
  end
  put(owner, '0', 1, ttl)
  used = math.max(used, 1)
  serve(next)
  return {stamp, 'granted', token}
elseif how == 'downgrade' then
  return {stamp, 0}
end

if mine then
  local token, why = draw(limit == '0')
  if not token then
    return why
  end
  forget()
  put(owner, limit, weight, ttl)
  return {stamp, 'granted', token}
elseif limit and limit ~= its_limit then
  forget()
  if next then
    serve(next_waiter(queue, now, true, next.first, next.last))
  end
  return {stamp, 'limit', tonumber(limit), tonumber(its_limit)}
elseif how == 'beat' and not ticket then
  return {stamp, 0}
end

local passed, last = 1, 0
if next then
  passed, last = next.first, next.last
end
local place = last + 1
if ticket then
  place = tonumber(ticket)
  if not place or place < passed or place > last then
    call('HDEL', queue, owner)
    return {stamp, 0}
  end
end

local has_room = is_room(its_limit, weight)
if has_room and passed == place then
  local token, why = draw(limit == '0')
  if not token then
    return why
  end
  forget()
  put(owner, its_limit, weight, ttl)
  holder, used = owner, used + weight
  if call('ZCARD', shares) > used then
    local before_now = '(' .. whole(now)
    local over = call('ZRANGEBYSCORE', shares, '-inf', before_now, 'LIMIT', 0, 64)
    call('ZREM', shares, unpack(over))
  end
  if ticket then
    serve(next_waiter(queue, now, true, place + 1, last))
  end
  return {stamp, 'granted', token}
end

-- Before the entry, so that the server's error shows a key that is no counter.
local shown = not has_room and call('GET', fence) or '0'
if enters then
  local life = tonumber(ARGV[7])
  local want = ttl .. '/' .. its_limit .. '/' .. ARGV[5]
  local entry = whole(now + life) .. ' ' .. want .. ' ' .. ARGV[6] .. ' ' .. owner
  if ticket then
    -- As in queue.lua.
    call('HDEL', queue, '')
    call('HSET', queue, ticket, entry)
  else
    local head, own = whole(passed), whole(place)
    call('HSET', queue, 'first', head, 'last', own, owner, own, own, entry)
  end
  if call('PTTL', queue) < life then
    call('PEXPIRE', queue, ARGV[7])
  end
end
if has_room then
  return {stamp, 'queued', place - passed}
end
local knows_marks = string.find(holder, '^' .. string.rep('%x', 32) .. '[~*]')
if enters and knows_marks and string.sub(holder, -1) ~= '\0' then
  call('APPEND', lock, '\0')
end
local left = call('PTTL', lock)
if limit and limit ~= '0' then
  local next = call('ZRANGEBYSCORE', shares, whole(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  left = next and tonumber(next) - now or 0
end
return {stamp, 'held', string.sub(holder, 1, 320), left, shown, place - passed, micros}
