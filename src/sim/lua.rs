//! Scripts, run by a real Lua 5.1 on a model keyspace.
//!
//! One interpreter per thread: scripts leave nothing behind in it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use bytes::Bytes;
use leasehold_resp::Frame;
use mlua::{Either, Function, Lua, Table, Value, Variadic};

#[cfg(test)]
use super::bugs;
use super::keyspace::{Keyspace, error};
use crate::sha1;

/// The functions that Redis gives scripts, as far as ours use them; errors are tables, as in its `script_lua.c`.
const PRELUDE: &str = r#"
local ask = ...
local function call(...)
  local reply = ask(...)
  if type(reply) == 'table' and reply.err then
    error(reply)
  end
  return reply
end
local scope = {
  redis = {
    call = call,
    pcall = ask,
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
local function run(script, keys, argv)
  rawset(scope, 'KEYS', keys)
  rawset(scope, 'ARGV', argv)
  local ok, reply = pcall(script)
  if ok then
    return reply
  elseif type(reply) == 'table' and type(reply.err) == 'string' then
    return {err = reply.err}
  end
  return {err = 'ERR ' .. tostring(reply)}
end
return run, scope
"#;

/// Garbage is collected once memory has grown to this many percent of what is in use, which is a few scripts.
const GARBAGE_PERCENT: std::ffi::c_int = 1000;

struct Engine {
    lua: Lua,
    run: Function,
    /// The globals of scripts.
    scope: Table,
    /// Compiled scripts, by digest and bug.
    compiled: RefCell<HashMap<(Bytes, bugs::Bug), Function>>,
    keyspace: Rc<RefCell<Keyspace>>,
}

const NO_WORDS: &str = "ERR Please specify at least one argument for this redis.call() call";
const NO_WORD: &str = "ERR Lua redis lib command arguments must be strings or integers";

thread_local! {
    static ENGINE: Engine = Engine::new().expect("Lua starts");
}

/// A script as servers keep it.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) text: Bytes,
    pub(crate) digest: Bytes,
}

/// A script's text; scripts differ mostly in length already.
#[derive(PartialEq, Eq)]
struct Text(Bytes);

impl Hash for Text {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_usize(self.0.len());
        self.0.iter().step_by(64).for_each(|byte| hasher.write_u8(*byte));
    }
}

thread_local! {
    /// All scripts that any server of this thread got: each connection loads them again.
    static SCRIPTS: RefCell<HashMap<Text, Script>> = RefCell::default();
}

/// The script with this text.
pub(crate) fn script(text: Bytes) -> Script {
    let text = Text(text);
    SCRIPTS.with_borrow_mut(|all| match all.get(&text) {
        Some(script) => script.clone(),
        None => {
            // A copy, so that it keeps no buffer of a connection.
            let text = Bytes::copy_from_slice(&text.0);
            let digest = Bytes::from(sha1::digest(&text).to_vec());
            let script = Script { text: text.clone(), digest };
            all.insert(Text(text), script.clone());
            script
        }
    })
}

/// Runs `script` on `keyspace`.
pub(crate) fn run(
    keyspace: &mut Keyspace,
    script: &Script,
    keys: &[Bytes],
    argv: &[Bytes],
) -> Frame {
    ENGINE.with(|engine| {
        std::mem::swap(&mut *engine.keyspace.borrow_mut(), keyspace);
        let reply = engine.run(script, keys, argv);
        std::mem::swap(&mut *engine.keyspace.borrow_mut(), keyspace);
        reply.unwrap_or_else(|fault| error(&format!("ERR {fault}")))
    })
}

/// Only tests give scripts known bugs.
#[cfg(not(test))]
mod bugs {
    pub(super) type Bug = ();

    pub(super) fn present() -> Bug {}

    pub(super) fn mutated(script: &bytes::Bytes) -> &bytes::Bytes {
        script
    }
}

impl Engine {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new();
        lua.gc_set_pause(GARBAGE_PERCENT);
        let keyspace = Rc::new(RefCell::new(Keyspace::default()));
        let asked = Rc::clone(&keyspace);
        let ask = lua.create_function(move |lua, words: Variadic<Value>| {
            let words = words.iter().map(|word| spelled(lua, word));
            let reply = match words.collect::<mlua::Result<Option<Vec<_>>>>()? {
                Some(words) if words.is_empty() => error(NO_WORDS),
                Some(words) => asked.borrow_mut().run(&words),
                None => error(NO_WORD),
            };
            to_lua(lua, &reply)
        })?;
        let (run, scope) = lua.load(PRELUDE).set_name("prelude").call(ask)?;
        Ok(Self { lua, run, scope, compiled: RefCell::default(), keyspace })
    }

    fn run(&self, script: &Script, keys: &[Bytes], argv: &[Bytes]) -> mlua::Result<Frame> {
        let (keys, argv) = (self.list(keys)?, self.list(argv)?);
        let reply: Value = self.run.call((self.compiled(script)?, keys, argv))?;
        to_frame(&reply)
    }

    fn compiled(&self, script: &Script) -> mlua::Result<Function> {
        let which = (script.digest.clone(), bugs::present());
        if let Some(function) = self.compiled.borrow().get(&which) {
            return Ok(function.clone());
        }
        let text = bugs::mutated(&script.text);
        let chunk = self.lua.load(&text[..]).set_name("@user_script");
        let function = chunk.set_environment(self.scope.clone()).into_function()?;
        self.compiled.borrow_mut().insert(which, function.clone());
        Ok(function)
    }

    fn list(&self, words: &[Bytes]) -> mlua::Result<Table> {
        // Text is put into the list directly, without a handle.
        let words = words.iter().map(|word| match std::str::from_utf8(word) {
            Ok(text) => Ok(Either::Left(text)),
            Err(_) => self.lua.create_string(word).map(Either::Right),
        });
        self.lua.create_sequence_from(words.collect::<mlua::Result<Vec<_>>>()?)
    }
}

/// A word of a script's command, with numbers formatted as by Redis; none for other types.
fn spelled(lua: &Lua, word: &Value) -> mlua::Result<Option<Bytes>> {
    Ok(match word {
        Value::String(text) => Some(Bytes::copy_from_slice(&text.as_bytes())),
        Value::Integer(number) if number.unsigned_abs() < 1 << 53 => {
            Some(number.to_string().into())
        }
        Value::Integer(_) | Value::Number(_) => {
            let format: Function = lua.globals().get::<Table>("string")?.get("format")?;
            Some(format.call::<String>(("%.17g", word))?.into())
        }
        _ => None,
    })
}

/// A reply as scripts see it: nil is false.
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

/// A script's result as clients see it: numbers lose their fraction, a list ends at its first nil.
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
