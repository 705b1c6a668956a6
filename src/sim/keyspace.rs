//! The data of a server, and the commands of scripts and clients on it, as in Redis 7.0.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use leasehold_resp::Frame;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NO_INTEGER: &str = "ERR value is not an integer or out of range";
const OVERFLOW: &str = "ERR increment or decrement would overflow";
const SYNTAX: &str = "ERR syntax error";
#[cfg(test)]
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Text(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
    /// A sorted set's members with their scores.
    Sorted(BTreeMap<Bytes, i64>),
    /// A list, by its length: for a value that is no string.
    List(i64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    value: Value,
    /// When the key expires, by the server's wall clock in milliseconds.
    expires_at: Option<i64>,
}

/// What a command did to a key, for client tracking.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Touch {
    Read(Bytes),
    Changed(Bytes),
    /// All keys are gone.
    Flushed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Keyspace {
    entries: BTreeMap<Bytes, Entry>,
    /// The server's wall clock; it stands still while a command runs.
    now_micros: i64,
    touched: Vec<Touch>,
    /// The connections that subscribe to each channel.
    channels: BTreeMap<Bytes, BTreeSet<u64>>,
    published: Vec<(u64, Bytes, Bytes)>,
    /// The server's number, its run, and the number of its promotions.
    pub(super) identity: (usize, u64, u64),
    /// The server refuses writes.
    #[cfg(test)]
    pub(super) is_replica: bool,
}

mod hash;
mod sorted;

type Reply = Result<Frame, String>;

/// The id of this server's run.
pub(super) fn run_id(server: usize, run: u64) -> String {
    format!("{run:038x}{server:02x}")
}

impl Keyspace {
    pub(crate) fn set_now(&mut self, micros: i64) {
        self.now_micros = micros;
    }

    /// The keys touched since the last call.
    pub(crate) fn take_touched(&mut self) -> Vec<Touch> {
        std::mem::take(&mut self.touched)
    }

    /// The value under a key, without touching it.
    #[cfg(test)]
    pub(crate) fn peek(&self, key: &[u8]) -> Option<Bytes> {
        let now = self.now_ms();
        match self.entries.get(key) {
            Some(Entry { value: Value::Text(text), expires_at })
                if expires_at.is_none_or(|at| now <= at) =>
            {
                Some(text.clone())
            }
            _ => None,
        }
    }

    /// Whether a key exists, without touching it.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let now = self.now_ms();
        self.entries.get(key).is_some_and(|entry| entry.expires_at.is_none_or(|at| now <= at))
    }

    /// Deletes all expired keys.
    pub(crate) fn expire_all(&mut self) {
        let now = self.now_ms();
        let is_over = |entry: &Entry| entry.expires_at.is_some_and(|at| now > at);
        let over = self.entries.iter().filter(|(_, entry)| is_over(entry));
        for key in over.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.live(&key);
        }
    }

    /// A key's remaining time in milliseconds, if it has an end.
    pub(crate) fn ends_in_ms(&self, key: &[u8]) -> Option<u64> {
        let at = self.entries.get(key)?.expires_at?;
        Some(u64::try_from(at - self.now_ms()).unwrap_or(0))
    }

    /// Runs one command; an error is a reply like any other.
    pub(crate) fn run(&mut self, words: &[Bytes]) -> Frame {
        let Some((verb, arguments)) = words.split_first() else {
            return error("ERR no command");
        };
        let verb = String::from_utf8_lossy(verb).to_ascii_uppercase();
        #[cfg(test)]
        if self.is_replica && is_write(&verb) {
            return error(READ_ONLY);
        }
        let reply = match (&*verb, arguments) {
            ("GET", [key]) => self.get(key),
            ("GETRANGE", [key, from, to]) => self.range(key, from, to),
            ("SET", [key, value, options @ ..]) => self.set(key, value, options),
            ("DEL" | "UNLINK", [_, ..]) => {
                Ok(count(arguments.iter().filter(|key| self.delete(key)).count()))
            }
            ("DELEX", [key, condition, value]) if condition.eq_ignore_ascii_case(b"IFEQ") => {
                self.delete_if_equal(key, value)
            }
            ("EXISTS", [_, ..]) => {
                Ok(count(arguments.iter().filter(|key| self.read(key).is_some()).count()))
            }
            ("PTTL", [key]) => Ok(self.ttl_of(key)),
            ("PEXPIRE", [key, millis, options @ ..]) => self.expire(key, millis, options),
            ("INCRBY", [key, number]) => self.increase(key, number),
            ("RPUSH", [key, ..]) => self.push(key, arguments.len() - 1),
            ("HGET", [key, field]) => self.field(key, field),
            ("HMGET", [key, fields @ ..]) if !fields.is_empty() => self.several(key, fields),
            ("HLEN", [key]) => self.fields(key),
            ("HKEYS", [key]) => self.names(key),
            ("HSET", [key, fields @ ..]) if !fields.is_empty() && fields.len() % 2 == 0 => {
                self.set_fields(key, fields)
            }
            ("HDEL", [key, fields @ ..]) if !fields.is_empty() => self.delete_fields(key, fields),
            ("APPEND", [key, more]) => self.append(key, more),
            ("ZADD", [key, scored @ ..]) if !scored.is_empty() => self.add_members(key, scored),
            ("ZSCORE", [key, member]) => self.score_of(key, member),
            ("ZCARD", [key]) => self.members(key).map(|members| count(members.len())),
            ("ZCOUNT", [key, from, to]) => self.count_members(key, [from, to]),
            ("ZRANGEBYSCORE", [key, from, to, options @ ..]) => {
                self.members_between(key, [from, to], options)
            }
            ("ZREVRANGE", [key, _, _, _withscores]) => self.last_member(key),
            ("ZREM", [key, gone @ ..]) if !gone.is_empty() => self.remove_members(key, gone),
            ("PUBLISH", [channel, text]) => Ok(self.publish(channel, text)),
            ("PUBSUB", [_numsub, channel]) => Ok(self.heard_by(channel)),
            ("TIME", []) => Ok(self.time()),
            ("INFO", [section]) => Ok(Frame::Bulk(self.info(section).into())),
            ("FLUSHALL", []) => {
                self.entries.clear();
                self.touched.push(Touch::Flushed);
                Ok(Frame::Simple("OK".into()))
            }
            (
                "GET" | "SET" | "DEL" | "UNLINK" | "DELEX" | "EXISTS" | "PTTL" | "PEXPIRE"
                | "INCRBY" | "RPUSH" | "TIME" | "HGET" | "HMGET" | "HLEN" | "HSET" | "HDEL"
                | "APPEND" | "PUBLISH",
                _,
            ) => Err(format!(
                "ERR wrong number of arguments for '{}' command",
                verb.to_ascii_lowercase()
            )),
            _ => Err(format!("ERR unknown command '{verb}'")),
        };
        reply.unwrap_or_else(|text| error(&text))
    }

    /// The INFO of the server for scripts.
    fn info(&self, section: &[u8]) -> String {
        let (number, run, promoted) = self.identity;
        #[cfg(test)]
        let role = if self.is_replica { "slave" } else { "master" };
        #[cfg(not(test))]
        let role = "master";
        match section {
            b"server" => format!("# Server\r\nrun_id:{}\r\n", run_id(number, run)),
            b"replication" => format!(
                "# Replication\r\nrole:{role}\r\nmaster_replid:{number:02x}{run:019x}{promoted:019x}\r\n"
            ),
            _ => String::new(),
        }
    }

    /// Replaces all keys by those of another moment; subscriptions stay.
    #[cfg(test)]
    pub(super) fn take_over(&mut self, older: &Self) {
        self.entries.clone_from(&older.entries);
        self.touched.push(Touch::Flushed);
    }

    /// Moves a key to another server, with its remaining time, as `MIGRATE` does.
    #[cfg(test)]
    pub(super) fn hand(&mut self, key: &Bytes, to: &mut Self) {
        let Some(Entry { value, expires_at }) = self.live(key).cloned() else { return };
        let expires_at = expires_at.map(|at| at - self.now_ms() + to.now_ms());
        self.delete(key);
        to.entries.insert(key.clone(), Entry { value, expires_at });
        to.change(key);
    }

    fn now_ms(&self) -> i64 {
        self.now_micros.div_euclid(1000)
    }

    fn change(&mut self, key: &Bytes) {
        self.touched.push(Touch::Changed(key.clone()));
    }

    /// The entry, if it has not expired; an expired one is deleted.
    fn live(&mut self, key: &Bytes) -> Option<&Entry> {
        let now = self.now_ms();
        let entry = self.entries.get(key)?;
        if entry.expires_at.is_some_and(|at| now > at) {
            self.entries.remove(key);
            self.change(key);
            return None;
        }
        self.entries.get(key)
    }

    fn read(&mut self, key: &Bytes) -> Option<&Entry> {
        self.live(key);
        self.touched.push(Touch::Read(key.clone()));
        self.entries.get(key)
    }

    fn get(&mut self, key: &Bytes) -> Reply {
        match self.read(key).map(|entry| &entry.value) {
            None => Ok(Frame::Null),
            Some(Value::Text(text)) => Ok(Frame::Bulk(text.clone())),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    /// The bytes from one index to another, inclusive; both count from the front.
    fn range(&mut self, key: &Bytes, from: &Bytes, to: &Bytes) -> Reply {
        let [from, to] = [from, to].map(|at| integer(at).and_then(|at| usize::try_from(at).ok()));
        let [Some(from), Some(to)] = [from, to] else {
            return Err(NO_INTEGER.into());
        };
        Ok(match self.get(key)? {
            Frame::Bulk(text) => {
                let end = text.len().min(to.saturating_add(1));
                Frame::Bulk(text.slice(from.min(end)..end))
            }
            _ => Frame::Bulk(Bytes::new()),
        })
    }

    fn delete(&mut self, key: &Bytes) -> bool {
        let is_there = self.live(key).is_some();
        if is_there {
            self.entries.remove(key);
            self.change(key);
        }
        is_there
    }

    fn delete_if_equal(&mut self, key: &Bytes, value: &Bytes) -> Reply {
        match self.live(key).map(|entry| &entry.value) {
            Some(Value::Text(text)) if text == value => Ok(count(usize::from(self.delete(key)))),
            Some(Value::List(_)) => {
                Err("ERR Key should be of string type if conditions are specified".into())
            }
            _ => Ok(count(0)),
        }
    }

    fn ttl_of(&mut self, key: &Bytes) -> Frame {
        let now = self.now_ms();
        Frame::Integer(match self.read(key) {
            None => -2,
            Some(Entry { expires_at: None, .. }) => -1,
            Some(Entry { expires_at: Some(at), .. }) => (at - now).max(0),
        })
    }

    fn set(&mut self, key: &Bytes, value: &Bytes, options: &[Bytes]) -> Reply {
        let (mut if_absent, mut if_present, mut keeps_ttl, mut gives_old) =
            (false, false, false, false);
        let (mut millis, mut ends_at, mut if_equal) = (None, None, None);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match &*String::from_utf8_lossy(option).to_ascii_uppercase() {
                "NX" if !if_present => if_absent = true,
                "XX" if !if_absent => if_present = true,
                "KEEPTTL" if millis.is_none() => keeps_ttl = true,
                "GET" => gives_old = true,
                "PX" if millis.is_none() && !keeps_ttl => {
                    millis = Some(options.next().ok_or(SYNTAX)?);
                }
                "PXAT" if ends_at.is_none() => ends_at = Some(options.next().ok_or(SYNTAX)?),
                "IFEQ" if !if_absent && !if_present => {
                    if_equal = Some(options.next().ok_or(SYNTAX)?);
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        let invalid = || "ERR invalid expire time in 'set' command".to_owned();
        let millis = millis.map(|text| integer(text).ok_or(NO_INTEGER)).transpose()?;
        if millis.is_some_and(|millis| millis <= 0) {
            return Err(invalid());
        }
        let expires_at =
            millis.map(|ms| self.now_ms().checked_add(ms).ok_or_else(invalid)).transpose()?;
        let ends_at = ends_at.map(|text| integer(text).ok_or(NO_INTEGER)).transpose()?;
        let expires_at = ends_at.or(expires_at);
        if let Some(value) = if_equal {
            match self.live(key).map(|entry| &entry.value) {
                Some(Value::Text(text)) if text == value => {}
                Some(Value::Text(_)) | None => return Ok(Frame::Null),
                Some(_) => return Err(WRONG_TYPE.into()),
            }
        }
        let old = if gives_old {
            // Client tracking does not count the read of SET.
            match self.live(key).map(|entry| &entry.value) {
                None => Some(Frame::Null),
                Some(Value::Text(text)) => Some(Frame::Bulk(text.clone())),
                Some(_) => return Err(WRONG_TYPE.into()),
            }
        } else {
            None
        };
        let present = self.live(key).map(|entry| entry.expires_at);
        if (if_absent && present.is_some()) || (if_present && present.is_none()) {
            return Ok(old.unwrap_or(Frame::Null));
        }
        let expires_at = if keeps_ttl { present.flatten() } else { expires_at };
        self.entries.insert(key.clone(), Entry { value: Value::Text(value.clone()), expires_at });
        self.change(key);
        Ok(old.unwrap_or(Frame::Simple("OK".into())))
    }

    fn expire(&mut self, key: &Bytes, millis: &Bytes, options: &[Bytes]) -> Reply {
        let millis = integer(millis).ok_or(NO_INTEGER)?;
        let now = self.now_ms();
        let invalid = || "ERR invalid expire time in 'pexpire' command".to_owned();
        let at = now.checked_add(millis).ok_or_else(invalid)?;
        let option = match options {
            [] => String::new(),
            [option] => String::from_utf8_lossy(option).to_ascii_uppercase(),
            _ => return Err(SYNTAX.into()),
        };
        let Some(entry) = self.live(key) else { return Ok(count(0)) };
        let before = entry.expires_at;
        let applies = match &*option {
            "" => true,
            "NX" => before.is_none(),
            "XX" => before.is_some(),
            "GT" => before.is_some_and(|before| at > before),
            "LT" => before.is_none_or(|before| at < before),
            _ => return Err(format!("ERR Unsupported option {option}")),
        };
        if !applies {
            return Ok(count(0));
        }
        if at <= now {
            self.delete(key);
        } else {
            self.entries.get_mut(key).expect("it is live").expires_at = Some(at);
            self.change(key);
        }
        Ok(count(1))
    }

    fn increase(&mut self, key: &Bytes, number: &Bytes) -> Reply {
        let by = integer(number).ok_or(NO_INTEGER)?;
        let (before, expires_at) = match self.live(key) {
            None => (0, None),
            Some(Entry { value: Value::Text(text), expires_at }) => {
                (integer(text).ok_or(NO_INTEGER)?, *expires_at)
            }
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        let after = before.checked_add(by).ok_or(OVERFLOW)?;
        let value = Value::Text(after.to_string().into());
        self.entries.insert(key.clone(), Entry { value, expires_at });
        self.change(key);
        Ok(Frame::Integer(after))
    }

    fn push(&mut self, key: &Bytes, added: usize) -> Reply {
        if added == 0 {
            return Err("ERR wrong number of arguments for 'rpush' command".into());
        }
        let (before, expires_at) = match self.live(key) {
            None => (0, None),
            Some(Entry { value: Value::List(length), expires_at }) => (*length, *expires_at),
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        let length = before + i64::try_from(added).expect("a count fits");
        self.entries.insert(key.clone(), Entry { value: Value::List(length), expires_at });
        self.change(key);
        Ok(Frame::Integer(length))
    }

    fn time(&self) -> Frame {
        let (secs, micros) =
            (self.now_micros.div_euclid(1_000_000), self.now_micros.rem_euclid(1_000_000));
        Frame::Array(
            [Frame::Bulk(secs.to_string().into()), Frame::Bulk(micros.to_string().into())].into(),
        )
    }
}

#[cfg(test)]
fn is_write(verb: &str) -> bool {
    let writes = [
        "SET", "DEL", "UNLINK", "DELEX", "PEXPIRE", "INCRBY", "RPUSH", "HSET", "HDEL", "APPEND",
        "ZADD", "ZREM", "FLUSHALL",
    ];
    writes.contains(&verb)
}

pub(crate) fn error(text: &str) -> Frame {
    Frame::Error(text.to_owned().into())
}

fn count(number: usize) -> Frame {
    Frame::Integer(i64::try_from(number).expect("a count fits"))
}

/// As strict as Redis: no sign but a minus, no leading zeros, no blanks.
fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}
