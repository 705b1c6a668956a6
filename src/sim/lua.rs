//! Scripts, run by a real Lua 5.1 on a model keyspace.
//!
//! One interpreter per thread: scripts leave nothing behind in it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use leasehold_resp::Frame;
use mlua::{Function, Lua, Table, Value, Variadic};

use super::keyspace::{Keyspace, error};
#[cfg(test)]
use crate::policy::mutants::Mutant;

/// What Redis gives scripts, as far as ours use it. Numbers become strings, and errors tables, as
/// in its `script_lua.c`.
const PRELUDE: &str = r#"
local native = ...
local function ask(is_protected, ...)
  local words = {...}
  if #words == 0 then
    error({err = 'ERR Please specify at least one argument for this redis.call() call'})
  end
  for i = 1, select('#', ...) do
    if type(words[i]) == 'number' then
      words[i] = string.format('%.17g', words[i])
    elseif type(words[i]) ~= 'string' then
      error({err = 'ERR Lua redis lib command arguments must be strings or integers'})
    end
  end
  local reply = native(unpack(words))
  if type(reply) == 'table' and reply.err and not is_protected then
    error(reply)
  end
  return reply
end
local scope = {
  redis = {
    call = function(...) return ask(false, ...) end,
    pcall = function(...)
      local ok, reply = pcall(ask, true, ...)
      return reply
    end,
    error_reply = function(text) return {err = text} end,
    status_reply = function(text) return {ok = text} end,
  },
  string = string, table = table, math = math,
  type = type, tonumber = tonumber, tostring = tostring, pairs = pairs, ipairs = ipairs,
  select = select, unpack = unpack, pcall = pcall, error = error, next = next,
}
local function refuse(_, name)
  error({err = 'ERR Script attempted to access nonexistent global variable ' .. tostring(name)})
end
setmetatable(scope, {__index = refuse, __newindex = refuse})
return function(script, keys, argv)
  rawset(scope, 'KEYS', keys)
  rawset(scope, 'ARGV', argv)
  setfenv(script, scope)
  local ok, reply = pcall(script)
  if ok then
    return reply
  elseif type(reply) == 'table' and type(reply.err) == 'string' then
    return {err = reply.err}
  end
  return {err = 'ERR ' .. tostring(reply)}
end
"#;

struct Engine {
    lua: Lua,
    run: Function,
    compiled: RefCell<HashMap<Bytes, Function>>,
    keyspace: Rc<RefCell<Keyspace>>,
}

thread_local! {
    static ENGINE: Engine = Engine::new().expect("Lua starts");
}

/// Runs `script` on `keyspace`.
pub(crate) fn run(
    keyspace: &mut Keyspace,
    script: &Bytes,
    keys: &[Bytes],
    argv: &[Bytes],
) -> Frame {
    #[cfg(test)]
    let script = &mutated(script);
    ENGINE.with(|engine| {
        std::mem::swap(&mut *engine.keyspace.borrow_mut(), keyspace);
        let reply = engine.run(script, keys, argv);
        std::mem::swap(&mut *engine.keyspace.borrow_mut(), keyspace);
        reply.unwrap_or_else(|fault| error(&format!("ERR {fault}")))
    })
}

/// Known bugs of scripts: what is written in the place of what.
#[cfg(test)]
const BUGS: [(Mutant, &str, &str); 25] = [
    (
        Mutant::ExtensionRecreatesALostKey,
        "if holder == ARGV[2 * lock - 1] then",
        "if not holder then
              redis.call('SET', KEYS[lock], ARGV[2 * lock - 1], 'PX', ARGV[2 * lock])
              holder = ARGV[2 * lock - 1]
            end
            if holder == ARGV[2 * lock - 1] then",
    ),
    (
        Mutant::ExtensionShortens,
        "redis.call('PEXPIRE', KEYS[lock], ARGV[2 * lock])",
        "redis.call('PEXPIRE', KEYS[lock], math.floor(ARGV[2 * lock] / 2))",
    ),
    (
        Mutant::ExtensionKeepsALaterEnd,
        "redis.call('PEXPIRE', KEYS[lock], ARGV[2 * lock])",
        "if redis.call('PTTL', KEYS[lock]) < tonumber(ARGV[2 * lock]) then
              redis.call('PEXPIRE', KEYS[lock], ARGV[2 * lock])
            end",
    ),
    (Mutant::QueueIsNotLeft, "if read[3] and ARGV[2] == 'leave' then", "if false then"),
    (
        Mutant::DeadEndTheSearch,
        "if looked >= 500 and not next.owner and first <= last then",
        "if looked == 16 and not next.owner and first <= last then
              redis.call('HSET', queue, 'first', string.format('%.0f', first))
              return {first = first, last = last}
            end
            if false then",
    ),
    (
        Mutant::TicketFromAnybody,
        "elseif string.sub(holder, 1, 32) ~= ARGV[5] then",
        "elseif false then",
    ),
    (Mutant::StealTakesAnyToken, "if token <= counter then", "if false then"),
    (Mutant::AnyClockIsBelieved, "if ahead > 1000000 and", "if false and"),
    // redis-semaphore 5.8.0
    (
        Mutant::PermitsEndByTheCallersTtl,
        "call('ZCOUNT', shares, whole(now), '+inf')",
        "call('ZCOUNT', shares, whole(now + (tonumber(ARGV[3]) or 0)), '+inf')",
    ),
    (Mutant::UpgradeBesideReaders, "not is_of(owner) and used > 1", "false"),
    // Redisson #7098
    (
        Mutant::EveryShareIsRenewed,
        "while limit ~= '0' and call('ZSCORE', shares, owner .. '#' .. more) do",
        "for _, its in ipairs(call('ZRANGEBYSCORE', shares, '-inf', '+inf')) do
              call('ZADD', shares, ends, its)
            end
            while limit ~= '0' and call('ZSCORE', shares, owner .. '#' .. more) do",
    ),
    (
        Mutant::SlotIsForgotten,
        "elseif slot < last or slot == last and ends == 0 then",
        "elseif false then",
    ),
    (Mutant::WorkedOnBesideAnother, "elseif ends > now then", "elseif false then"),
    (Mutant::ResultLastsForATtl, "ARGV[5], 'PX', ARGV[4])", "ARGV[5], 'PX', ARGV[3])"),
    (
        Mutant::AcceptedIsForgottenAtAPromise,
        "if under ~= '0' then",
        "if under ~= '0' and under == promise then",
    ),
    (Mutant::PartyCountsEachTime, "'p' .. ARGV[4], ''", "'p' .. ARGV[4] .. stamp, ''"),
    (
        Mutant::ArrivalsOutliveTheirGeneration,
        "redis.call('UNLINK', KEYS[1])
redis.call('SET', KEYS[2], parties .. string.format(' %.0f', meant)",
        "redis.call('SET', KEYS[2], parties .. string.format(' %.0f', meant)",
    ),
    (
        Mutant::SetBackClockRefills,
        "is_set_back and at + now - written or",
        "is_set_back and now or",
    ),
    (
        Mutant::MintedByTheCounterAlone,
        "local token = math.max(counter + 1, micros)",
        "local token = counter > 0 and counter + 1 or micros",
    ),
    (
        Mutant::StaleKeysStay,
        "not holder or type(holder) == 'string' and in_grace and is_raised[lock]",
        "not holder",
    ),
    (Mutant::AnyHolderTakesOver, "in_grace and is_raised[lock]", "in_grace"),
    (
        Mutant::RunAloneIsTheReign,
        "string.sub(marker, 1, #reign) == reign",
        "string.sub(marker, 1, #run) == run",
    ),
    (Mutant::EachBeginsTheReign, "if not began or", "if true or"),
    (
        Mutant::ReplicaIsMet,
        "return redis.error_reply('READONLY a replica does not reign')",
        "return {ARGV[1], run .. ' ' .. id .. ' 0', redis.call('TIME')[1] .. '000000'}",
    ),
    (
        Mutant::CountersPerServer,
        "local judged, ahead = args[4], proposal - top",
        "local judged, ahead = 'mint', -top
            proposal = 0",
    ),
];

/// The script, or what it would be with a known bug.
#[cfg(test)]
fn mutated(script: &Bytes) -> Bytes {
    match BUGS.iter().find(|(bug, ..)| bug.is_on()) {
        Some((_, from, to)) => String::from_utf8_lossy(script).replace(from, to).into(),
        None => script.clone(),
    }
}

impl Engine {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new();
        let keyspace = Rc::new(RefCell::new(Keyspace::default()));
        let asked = Rc::clone(&keyspace);
        let native = lua.create_function(move |lua, words: Variadic<mlua::String>| {
            let words: Vec<Bytes> =
                words.iter().map(|word| Bytes::copy_from_slice(&word.as_bytes())).collect();
            to_lua(lua, &asked.borrow_mut().run(&words))
        })?;
        let run = lua.load(PRELUDE).set_name("prelude").call(native)?;
        Ok(Self { lua, run, compiled: RefCell::default(), keyspace })
    }

    fn run(&self, script: &Bytes, keys: &[Bytes], argv: &[Bytes]) -> mlua::Result<Frame> {
        let known = self.compiled.borrow().get(script).cloned();
        let function = match known {
            Some(function) => function,
            None => {
                let function =
                    self.lua.load(&script[..]).set_name("@user_script").into_function()?;
                self.compiled.borrow_mut().insert(script.clone(), function.clone());
                function
            }
        };
        let (keys, argv) = (self.list(keys)?, self.list(argv)?);
        let reply: Value = self.run.call((function, keys, argv))?;
        to_frame(&reply)
    }

    fn list(&self, words: &[Bytes]) -> mlua::Result<Table> {
        let words = words.iter().map(|word| self.lua.create_string(word));
        self.lua.create_sequence_from(words.collect::<mlua::Result<Vec<_>>>()?)
    }
}

/// As scripts see a reply: nil is false.
fn to_lua(lua: &Lua, reply: &Frame) -> mlua::Result<Value> {
    Ok(match reply {
        Frame::Integer(number) =>
        {
            #[expect(clippy::cast_precision_loss, reason = "as in Redis")]
            Value::Number(*number as f64)
        }
        Frame::Bulk(text) => Value::String(lua.create_string(text)?),
        Frame::Simple(text) => of_one_field(lua, "ok", text)?,
        Frame::Error(text) => of_one_field(lua, "err", text)?,
        Frame::Array(items) => {
            let items = items.iter().map(|item| to_lua(lua, item));
            Value::Table(lua.create_sequence_from(items.collect::<mlua::Result<Vec<_>>>()?)?)
        }
        _ => Value::Boolean(false),
    })
}

fn of_one_field(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

/// As clients see what a script returns: numbers lose their fraction, a list ends at its first nil.
fn to_frame(value: &Value) -> mlua::Result<Frame> {
    let text = |text: &mlua::String| Bytes::copy_from_slice(&text.as_bytes());
    Ok(match value {
        Value::Integer(number) => Frame::Integer(*number),
        #[expect(clippy::cast_possible_truncation, reason = "as in Redis")]
        Value::Number(number) => Frame::Integer(*number as i64),
        Value::String(string) => Frame::Bulk(text(string)),
        Value::Boolean(true) => Frame::Integer(1),
        Value::Table(table) => {
            if let Some(err) = table.raw_get::<Option<mlua::String>>("err")? {
                return Ok(Frame::Error(text(&err)));
            }
            if let Some(ok) = table.raw_get::<Option<mlua::String>>("ok")? {
                return Ok(Frame::Simple(text(&ok)));
            }
            let items = table.sequence_values::<Value>();
            Frame::Array(items.map(|item| to_frame(&item?)).collect::<mlua::Result<_>>()?)
        }
        _ => Frame::Null,
    })
}
