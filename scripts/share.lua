-- share: takes a share of a lock, waits for one, gives one back, and turns a share into the whole lock and
-- back. A reader's share has no limit; the shares of a semaphore are its permits.
--
-- KEYS    1 the lock; 2 its fence counter; 3 its queue; 4 its shares
-- ARGV    1 the owner's value; 2 what to do; last the stamp
--         'take' takes a share, unless others wait; 'enter' enters the queue where none is to be had, and
--         'beat' says that the owner still waits there; 'mend' is 'take' for an owner whose share this server
--         has lost, while a quorum of others has it. For these: 3 the TTL in milliseconds; 4 the limit, 0
--         without one; 5 the weight, 1 to 64; for the last two 6 the channel that the process hears, and 7
--         for how many milliseconds the entry lives without a word; for the others 6 the token that a
--         reader's must not be below, which other servers have, or 0; 7 the owner whose turn it was, if there was
--         one: beside its share this owner is let in though others wait
--         'upgrade' takes the whole lock if no other has a share, 'downgrade' keeps a share of the whole
--         lock: 3 the TTL in milliseconds; 4 the value under which the owner has what it has
--         'look' says how many shares are taken, and changes nothing
--         '' gives back, 'single' does for an owner whose share has weight 1, and 'leave' does also leave the
--         queue: 3 where the owner took over from another, that one's value
--         One of the keys alone, where the others are on another node, can be given back by no
--         share: its TTL ends it
-- Reply   granted: {stamp, 'granted', the fencing token}
--         not to be had: {stamp, 'held', the holder's value (its first 320 bytes), the milliseconds until
--         there may be more or -1 where that is not known, '0', maximum entries before this one, or for an
--         upgrade the number of the others that have shares}
--         to be had, and others are before this one: {stamp, 'queued', maximum entries before this one}
--         shared with another limit: {stamp, 'limit', that limit, the one that is wanted}
--         looked at: {stamp, the number of shares that are taken}
--         given back: the stamp; and {stamp, 0} where it was not the owner's (any more), or is not in the
--         queue
-- Atomic  because a server runs a script whole: nobody comes between the look at the shares and the
--         writing of them, and no waiter is overtaken.
--
-- A lock is free, one owner's, or shared. While it is shared, a value stands under it that is no owner's:
-- a sharer's, with '*' and the limit behind its id. So a client that knows only the lock finds it held. Its end
-- rests on the share of that sharer: it is never before another's, and an eighth of a TTL behind it at the
-- most. So few shares move it, and only the release of that one looks for another. The shares count only
-- while such a value stands there. A byte 0 behind it says that somebody waits, as for one owner's lock
-- (queue.lua): without that byte, what takes a share or gives one back does not look at the queue.
--
-- The shares are a sorted set, scored by the server's time in milliseconds at which each ends by its own
-- TTL. A share of weight 3 has three members: the owner's value, and that with '#1' and '#2' behind it. The
-- number of live ones is a range, so there is no counter that can be wrong. Shares that have ended are
-- forgotten some at a time, for their space alone; until then they can be given back.
--
-- Waiters stand in the queue of queue.lua: one that wants a share has '/', the limit, '/' and the weight
-- behind its TTL. The first is never overtaken. Whatever makes room hands on to the first, and to those
-- behind it as far as there is room: at most 64 shares at once. What release.lua frees, it hands to no
-- waiter for a share: it tells the first to ask.
--
-- A reader's token is the one of the last writer: a resource that checks tokens refuses a reader's that is below
-- the last writer's. Each permit has a token of its own. A counter that is a day behind the server's clock was
-- lost, or is given a new expiry: it begins again from that clock. Of several servers that have different
-- counters, each is raised to the largest before a reader is told it: so any later writer's token is larger.
--
-- What is asked most comes first: a server pays for each function that a script defines before it ends.

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
-- Nearly every release: nobody waits, and the lock is one owner's, or its end rests on another's share, or this
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
-- A queue's key that holds no queue keeps no share from being given back.
local waiting = looks and redis.pcall('HLEN', queue)
if type(waiting) == 'table' and not string.find(waiting.err, 'WRONGTYPE', 1, true) then
  call('HLEN', queue)
end
local is_waited_for = type(waiting) == 'number' and waiting > 0
local gone, is_resting = 0, false
if is_shared and (how == '' or how == 'leave') then
  if is_single or digit == 48 then
    gone = call('ZREM', shares, owner)
  else
    gone = call('ZREM', shares, owner, owner .. '#1')
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

if redis.replicate_commands then
  redis.replicate_commands()
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The limit of a lock that is shared. Without any, it is free, or one owner's.
local limit = is_shared and (digit == 48 and '0' or string.match(holder, '^%d+', 34))

-- Nearly every first attempt: nobody waits, and the lock is free, or lasts for as long and has room even if
-- shares that have ended count.
local ttl, its_limit = ARGV[3], ARGV[4]
local least = #ARGV > 6 and (how == 'take' or how == 'mend') and tonumber(ARGV[6]) or 0
if how == 'take' and not is_waited_for
  and (not holder or limit == its_limit and call('PTTL', shares) >= tonumber(ttl)) then
  local token, is_good
  if its_limit == '0' then
    token = tonumber(call('GET', fence) or 0)
    is_good = token and token >= math.max(least, 1000000000000000)
  elseif not holder or call('ZCARD', shares) + ARGV[5] <= tonumber(limit) then
    token = tonumber(redis.pcall('INCRBY', fence, '1'))
    is_good = token and token >= (time[1] - 86400) * 1000000
  end
  if is_good and token < 9007199254740991 then
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

-- How many shares are taken.
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
-- A reader keeps the token that there is, or the one that other servers have.
local function mint(is_kept)
  local token, lowest = nil, (time[1] - 86400) * 1000000
  if is_kept then
    token, lowest = call('GET', fence), math.max(least, 1000000000000000)
  end
  token = tonumber(token or redis.pcall('INCRBY', fence, '1'))
  if not token or token >= 9007199254740991 then
    return nil
  elseif token < lowest then
    token = is_kept and least > 0 and least or time[1] * 1000000 + time[2]
    call('SET', fence, whole(token), 'PX', '604800000')
  end
  return token
end

local function ended()
  return redis.error_reply('FENCE the fence counter of this lock holds no number or is used up: tokens end at 2^53')
end

-- The lock's end rests on the share of this owner.
local function rest_on(of, lasts)
  local behind = string.sub(of, 33) .. (is_waited_for and '\0' or '')
  call('SET', lock, string.sub(of, 1, 32) .. '*' .. limit .. behind, 'PX', lasts)
  call('PEXPIRE', shares, lasts)
end

-- An owner has a share for this TTL from now. Where there was none, the lock is shared from here on.
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

-- A share is gone: the lock's end rests on another, or it is free.
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

-- The first of the waiters are given what there is room for.
local function serve()
  local first, last = unpack(call('HMGET', queue, 'first', 'last'))
  if not first or not last then
    return
  end
  first, last = tonumber(first), tonumber(last)
  local unheard, gaps, given, is_over = 0, 0, 0, false
  while not is_over and first <= last and unheard < 16 and gaps < 128 and given < 64 do
    local ticket = whole(first)
    local entry = call('HGET', queue, ticket)
    if entry then
      local deadline, its_ttl, want, channel, its = string.match(entry, '^(%d+) (%d+)(%S*) (%S+) (.*)$')
      local its_limit, its_weight = string.match(want, '^/(%d+)/(%d+)$')
      its_weight = tonumber(its_weight)
      local is_late = tonumber(deadline) < now
      local has_room = not is_late and (its_weight and is_room(its_limit, its_weight) or not its_weight and not holder)
      local heard = has_room and redis.pcall('PUBSUB', 'NUMSUB', channel)
      if not is_late and (not has_room or heard.err) then
        break
      end
      call('HDEL', queue, ticket, its)
      first = first + 1
      if heard and heard[2] == 0 then
        unheard = unheard + 1
      elseif heard then
        local token = mint(its_limit == '0')
        if not token then
          break
        end
        if its_weight then
          put(its, its_limit, its_weight, its_ttl)
          used, given = used + its_weight, given + its_weight
        else
          call('SET', lock, first <= last and its .. '\0' or its, 'PX', its_ttl)
          is_over = true
        end
        holder = its
        call('PUBLISH', channel, whole(token) .. ' ' .. its)
      end
    else
      gaps = gaps + 1
      first = first + 1
    end
  end
  if first <= last then
    call('HSET', queue, 'first', whole(first))
  else
    call('DEL', queue)
  end
end

local function is_of(value)
  return holder and value and (holder == value or holder == value .. '\0')
end

local ticket = is_waited_for and call('HGET', queue, owner)

local function forget()
  if ticket then
    call('HDEL', queue, ticket, owner)
  end
end

if how == '' or how == 'leave' then
  if how == 'leave' then
    forget()
  end
  local reply = stamp
  if gone > 0 then
    close()
  elseif is_of(owner) or is_of(ARGV[4] and ARGV[3]) then
    call('DEL', lock)
    holder = false
  else
    reply = {stamp, 0}
  end
  if is_waited_for then
    serve()
  end
  return reply
end

local weight, mine = tonumber(ARGV[5]), limit and call('ZSCORE', shares, owner)
mine = mine and tonumber(mine) >= now
if limit == '0' and #ARGV > 7 and not mine and not enters then
  local turn = call('ZSCORE', shares, ARGV[7])
  mine = turn and tonumber(turn) >= now
end
if how == 'upgrade' then
  local from = ARGV[4]
  local score = limit == '0' and call('ZSCORE', shares, from)
  if not is_of(owner) and (not score or tonumber(score) < now) then
    return {stamp, 0}
  elseif not is_of(owner) and used > 1 then
    return {stamp, 'held', string.sub(holder, 1, 320), call('PTTL', lock), '0', used - 1}
  end
  local token = mint(false)
  if not token then
    return ended()
  end
  local mark = is_waited_for and '\0' or ''
  call('SET', lock, owner .. mark, 'PX', ttl)
  call('UNLINK', shares)
  return {stamp, 'granted', token}
elseif how == 'downgrade' and (mine or is_of(ARGV[4])) then
  local token = mint(true)
  if not token then
    return ended()
  end
  put(owner, '0', 1, ttl)
  used = math.max(used, 1)
  serve()
  return {stamp, 'granted', token}
elseif how == 'downgrade' then
  return {stamp, 0}
end

if mine then
  local token = mint(limit == '0')
  if not token then
    return ended()
  end
  forget()
  put(owner, limit, weight, ttl)
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
  local ends = call('HMGET', queue, 'first', 'last')
  first, last = tonumber(ends[1] or '1'), tonumber(ends[2] or '0')
end
local passed = first
while passed <= last and passed - first < 128 do
  local entry = call('HGET', queue, whole(passed))
  if entry then
    local deadline, its = string.match(entry, '^(%d+) %S+ %S+ (.*)$')
    if its == owner or tonumber(deadline) >= now then
      break
    end
    call('HDEL', queue, whole(passed), its)
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
  put(owner, its_limit, weight, ttl)
  holder, used = owner, used + weight
  if call('ZCARD', shares) > used then
    local before_now = '(' .. whole(now)
    local over = call('ZRANGEBYSCORE', shares, '-inf', before_now, 'LIMIT', 0, 64)
    call('ZREM', shares, unpack(over))
  end
  if last >= first then
    call('HSET', queue, 'first', whole(ticket and place + 1 or passed))
    serve()
  end
  return {stamp, 'granted', token}
end

if enters then
  local life = tonumber(ARGV[7])
  call('HSET', queue, 'first', whole(passed))
  if not ticket then
    call('HSET', queue, 'last', whole(place))
    call('HSET', queue, owner, whole(place))
  end
  local want = ttl .. '/' .. its_limit .. '/' .. ARGV[5]
  call('HSET', queue, whole(place), whole(now + life) .. ' ' .. want .. ' ' .. ARGV[6] .. ' ' .. owner)
  if call('PTTL', queue) < life then
    call('PEXPIRE', queue, ARGV[7])
  end
end
if has_room then
  return {stamp, 'queued', place - passed}
end
local is_ours = string.find(holder, '^' .. string.rep('%x', 32) .. '[:@+!*]')
if enters and is_ours and string.sub(holder, -1) ~= '\0' then
  call('APPEND', lock, '\0')
end
local left = call('PTTL', lock)
if limit and limit ~= '0' then
  local next = call('ZRANGEBYSCORE', shares, whole(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  left = next and tonumber(next) - now or 0
end
return {stamp, 'held', string.sub(holder, 1, 320), left, '0', place - passed}
