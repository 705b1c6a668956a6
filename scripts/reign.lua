-- reign: returns since when this server has been the primary.
--
-- KEYS    1 the marker
-- ARGV    1 the stamp
-- Reply   {stamp, the marker: the server's run, its replication id and when it began to reign, by its own
--         clock in microseconds, with spaces between; that clock now, as a string}
--         an error READONLY if the server is a replica, and REIGN if its INFO lacks a field
-- Atomic  because a server runs a script whole: it cannot be demoted, and promoted again, between reading
--         INFO and the marker, and of two clients that find none the first one writes it.
--
-- A server has another run after each start, and another replication id after each promotion. The client sends
-- neither: it may have learned them before a promotion. A marker of another run or replication id, as a promoted
-- replica finds it, is overwritten; so is one in the future, after a clock was set back, and a value that is no
-- marker. The marker has no expiry: if one vanishes, free locks cannot be taken for a while. INFO and TIME make
-- no difference to replicas: servers before Redis 5 replicate scripts, and are told to replicate effects. INFO is
-- called for each section alone, because rights are given so.

if redis.replicate_commands then
  redis.replicate_commands()
end
local server = redis.call('INFO', 'server')
local replication = redis.call('INFO', 'replication')
local run, role = string.match(server, 'run_id:(%w+)'), string.match(replication, 'role:(%w+)')
local id = string.match(replication, 'master_replid:(%w+)')
if not run or not role or not id then
  return redis.error_reply('REIGN the server does not tell its run_id, its role and its master_replid')
elseif role ~= 'master' then
  return redis.error_reply('READONLY a replica does not reign')
end

local time = redis.call('TIME')
local now = string.format('%s%06d', time[1], time[2])
local marker = redis.pcall('GET', KEYS[1])
if type(marker) == 'table' and not string.find(marker.err, 'WRONGTYPE', 1, true) then
  redis.call('GET', KEYS[1])
end
local reign = run .. ' ' .. id .. ' '
local began = type(marker) == 'string' and #marker <= #reign + 16
  and string.sub(marker, 1, #reign) == reign and string.match(marker, '^%d+$', #reign + 1)
if not began or tonumber(began) > tonumber(now) then
  marker = reign .. now
  redis.call('SET', KEYS[1], marker)
end
return {ARGV[1], marker, now}
