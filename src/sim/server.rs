//! A simulated server: a keyspace, a wall clock of its own, and its clients' sessions.

#[cfg(test)]
pub(crate) mod seen;
#[cfg(test)]
pub(crate) mod slot;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::keyspace::{Keyspace, Touch, error, run_id};
use super::lua::{self, Script};

/// The INFO of Redis 7.0.15, as far as clients read it.
const INFO: &str = include_str!("info.txt");
/// How long servers have run when a simulation begins: too long for a restart quarantine.
const UPTIME_MICROS: i64 = 30 * 24 * 3600 * 1_000_000;

const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

const NOT_OPTED_IN: &str = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";

pub(crate) struct Server {
    number: usize,
    keyspace: Keyspace,
    /// A right wall clock, in microseconds, and its time when this server was made.
    true_wall: fn() -> i64,
    made_at: i64,
    drift_ppm: i64,
    wall_ahead_micros: i64,
    /// When it started, by its own wall clock.
    started_at: i64,
    pub(crate) run: u64,
    promoted: u64,
    scripts: BTreeMap<Bytes, Script>,
    /// For each key, the sessions that track it.
    trackers: BTreeMap<Bytes, BTreeSet<u64>>,
    pub(crate) is_frozen: bool,
    /// Whether it refuses scripts.
    pub(crate) is_busy: bool,
    /// Whether it compares and deletes without a script.
    deletes_if_equal: bool,
    /// Set while it does not run: whether it will start with its memory.
    down: Option<bool>,
    /// When it lost its memory, in true time since it was made.
    #[cfg(test)]
    pub(crate) forgot_at: Option<Duration>,
    /// The saved state, if any, and whether it starts with that.
    #[cfg(test)]
    saved: Option<Keyspace>,
    #[cfg(test)]
    begins_older: bool,
}

/// A server's state of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) link: u64,
    pub(crate) is_tracking: bool,
    /// Whether only keys are tracked that a command after `CLIENT CACHING YES` reads.
    opts_in: bool,
    is_caching: bool,
    /// The lock that the session took last without a script, and its owner.
    #[cfg(test)]
    pub(crate) taken: Option<(Bytes, Bytes)>,
}

impl Session {
    pub(crate) fn new(link: u64) -> Self {
        Self {
            link,
            is_tracking: false,
            opts_in: false,
            is_caching: false,
            #[cfg(test)]
            taken: None,
        }
    }

    /// `CLIENT`; names and the like are ignored.
    fn client(&mut self, what: &[u8], words: &[Bytes]) -> Frame {
        let has = |word: &str| words.iter().any(|it| it.eq_ignore_ascii_case(word.as_bytes()));
        if what.eq_ignore_ascii_case(b"TRACKING") {
            (self.is_tracking, self.opts_in) = (has("ON"), has("OPTIN"));
        } else if what.eq_ignore_ascii_case(b"CACHING") {
            if !self.opts_in {
                return error(NOT_OPTED_IN);
            }
            self.is_caching = has("YES");
        }
        Frame::Simple("OK".into())
    }

    /// Whether the keys that the session reads now are tracked.
    fn follows(&self) -> bool {
        self.is_tracking && (self.is_caching || !self.opts_in)
    }
}

/// A push, and its connection.
pub(crate) type Told = (u64, Frame);

/// The key that changed; none for all keys.
fn invalidated(key: Option<Bytes>) -> Frame {
    let keys = key.map_or(Frame::Null, |key| Frame::Array([Frame::Bulk(key)].into()));
    Frame::Push([Frame::Bulk("invalidate".into()), keys].into())
}

impl Server {
    pub(crate) fn new(
        number: usize,
        true_wall: fn() -> i64,
        drift_ppm: i64,
        deletes_if_equal: bool,
    ) -> Self {
        let mut server = Self {
            number,
            keyspace: Keyspace::default(),
            true_wall,
            made_at: true_wall(),
            drift_ppm,
            wall_ahead_micros: 0,
            started_at: 0,
            run: 0,
            promoted: 0,
            scripts: BTreeMap::new(),
            trackers: BTreeMap::new(),
            is_frozen: false,
            is_busy: false,
            deletes_if_equal,
            down: None,
            #[cfg(test)]
            forgot_at: None,
            #[cfg(test)]
            saved: None,
            #[cfg(test)]
            begins_older: false,
        };
        server.started_at = server.wall() - UPTIME_MICROS;
        server
    }

    /// The server's wall clock, in microseconds.
    pub(crate) fn wall(&self) -> i64 {
        let now = (self.true_wall)();
        let span = now - self.made_at;
        now + self.wall_ahead_micros
            + span / 1_000_000 * self.drift_ppm
            + span % 1_000_000 * self.drift_ppm / 1_000_000
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.is_some()
    }

    pub(crate) fn stop(&mut self, remembers: bool) {
        self.down = Some(remembers);
    }

    /// Starts the server, if it is down; returns whether it was.
    pub(crate) fn start(&mut self) -> bool {
        let Some(remembers) = self.down.take() else { return false };
        self.run += 1;
        self.started_at = self.wall();
        self.scripts.clear();
        self.trackers.clear();
        self.is_frozen = false;
        self.is_busy = false;
        if !remembers {
            self.keyspace = Keyspace::default();
            #[cfg(test)]
            self.note_forgotten();
        }
        #[cfg(test)]
        self.promote();
        self.keyspace.unsubscribe_all();
        true
    }

    pub(crate) fn forget_link(&mut self, link: u64) {
        self.keyspace.unsubscribe(link);
        for readers in self.trackers.values_mut() {
            readers.remove(&link);
        }
    }

    fn catch_up(&mut self) {
        let now = self.wall();
        self.keyspace.set_now(now);
    }

    /// The value under a key now, without touching it.
    #[cfg(test)]
    pub(crate) fn peek(&mut self, key: &[u8]) -> Option<Bytes> {
        self.catch_up();
        self.keyspace.peek(key)
    }

    /// Whether a key exists now, without touching it.
    pub(crate) fn has(&mut self, key: &[u8]) -> bool {
        self.catch_up();
        self.keyspace.has(key)
    }

    /// Deletes expired keys; returns the pushes, and the time until the next tracked key ends.
    pub(crate) fn expire(&mut self) -> (Vec<Told>, Option<Duration>) {
        self.catch_up();
        self.keyspace.expire_all();
        let told = self.tell(None);
        let awaited = self.trackers.iter().filter(|(_, readers)| !readers.is_empty());
        let ends = awaited.filter_map(|(key, _)| self.keyspace.ends_in_ms(key));
        (told, ends.min().map(|ms| Duration::from_millis(ms + 1)))
    }

    /// Loses a key.
    pub(crate) fn lose(&mut self, key: &[u8]) -> Vec<Told> {
        self.catch_up();
        self.keyspace.run(&[Bytes::from_static(b"DEL"), Bytes::copy_from_slice(key)]);
        self.tell(None)
    }

    /// Runs a command of a client's.
    pub(crate) fn run(&mut self, session: &mut Session, words: &[Bytes]) -> (Frame, Vec<Told>) {
        self.catch_up();
        let verb = words.first().map(|verb| verb.to_ascii_uppercase()).unwrap_or_default();
        let ok = || Frame::Simple("OK".into());
        let reply = match (&verb[..], &words[1..]) {
            (b"HELLO", _) => self.hello(),
            (b"SELECT", [index]) if index == "0" => ok(),
            (b"SELECT", [_]) => error("ERR DB index is out of range"),
            (b"ECHO" | b"PING", [text]) => Frame::Bulk(text.clone()),
            (b"CLIENT", [what, words @ ..]) => session.client(what, words),
            (b"SUBSCRIBE", [channel]) => {
                self.keyspace.subscribe(session.link, channel);
                let word = Frame::Bulk("subscribe".into());
                Frame::Push([word, Frame::Bulk(channel.clone()), Frame::Integer(1)].into())
            }
            (b"INFO", [section]) => Frame::Bulk(self.info(section).into()),
            (b"SCRIPT", [_, text]) => Frame::Bulk(self.load(text).digest),
            (b"EVAL" | b"EVALSHA" | b"SET" | b"GET" | b"HLEN" | b"INCRBY" | b"DELEX", _)
                if self.is_busy =>
            {
                error(BUSY)
            }
            (b"DELEX", _) if !self.deletes_if_equal => error("ERR unknown command 'DELEX'"),
            (b"EVAL", [text, rest @ ..]) => {
                let script = self.load(text);
                self.eval(&script, rest)
            }
            (b"EVALSHA", [digest, rest @ ..]) => match self.scripts.get(digest).cloned() {
                Some(script) => self.eval(&script, rest),
                None => error("NOSCRIPT No matching script. Please use EVAL."),
            },
            _ => self.keyspace.run(words),
        };
        let told = self.tell(Some(session));
        session.is_caching &= verb == b"CLIENT";
        (reply, told)
    }

    fn hello(&self) -> Frame {
        let version = if self.deletes_if_equal { "8.4.0" } else { "7.0.15" };
        let fields = [("server", "redis"), ("version", version)];
        let fields =
            fields.map(|(name, text)| (Frame::Bulk(name.into()), Frame::Bulk(text.into())));
        Frame::Map(
            [&fields[..], &[(Frame::Bulk("proto".into()), Frame::Integer(3))]].concat().into(),
        )
    }

    fn eval(&mut self, script: &Script, words: &[Bytes]) -> Frame {
        let count = words.first().and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
        match count {
            Some(count) if words.len() > count => {
                self.keyspace.identity = (self.number, self.run, self.promoted);
                lua::run(&mut self.keyspace, script, &words[1..=count], &words[count + 1..])
            }
            _ => error("ERR Number of keys can't be greater than number of args"),
        }
    }

    fn load(&mut self, text: &Bytes) -> Script {
        let script = lua::script(text.clone());
        self.scripts.insert(script.digest.clone(), script.clone());
        script
    }

    fn info(&self, section: &[u8]) -> String {
        let name = String::from_utf8_lossy(section);
        let is_it = |section: &&str| {
            section.lines().next().is_some_and(|title| title.eq_ignore_ascii_case(&name))
        };
        let Some(section) = INFO.split("# ").find(is_it) else { return String::new() };
        let run_id = run_id(self.number, self.run);
        // The difference of whole seconds may be a second too long.
        let uptime = self.wall().div_euclid(1_000_000) - self.started_at.div_euclid(1_000_000);
        let lines = section.lines().map(|line| match line.split_once(':') {
            Some(("run_id", _)) => format!("run_id:{run_id}\r\n"),
            #[cfg(test)]
            Some(("role", _)) if self.keyspace.is_replica => "role:slave\r\n".to_owned(),
            Some(("uptime_in_seconds", _)) => format!("uptime_in_seconds:{uptime}\r\n"),
            _ => format!("{line}\r\n"),
        });
        ["# "].into_iter().map(str::to_owned).chain(lines).collect()
    }

    /// The pushes for the keys that were touched; a session gets none for its own changes.
    fn tell(&mut self, by: Option<&Session>) -> Vec<Told> {
        let message = |(link, channel, text)| {
            let words = [Bytes::from_static(b"message"), channel, text];
            (link, Frame::Push(words.into_iter().map(Frame::Bulk).collect()))
        };
        let mut told: Vec<Told> = self.keyspace.take_published().into_iter().map(message).collect();
        for touch in self.keyspace.take_touched() {
            match touch {
                Touch::Read(key) => {
                    if let Some(by) = by.filter(|by| by.follows()) {
                        self.trackers.entry(key).or_default().insert(by.link);
                    }
                }
                Touch::Changed(key) => {
                    let readers = self.trackers.remove(&key).unwrap_or_default();
                    let others =
                        readers.into_iter().filter(|link| by.is_none_or(|by| by.link != *link));
                    told.extend(others.map(|link| (link, invalidated(Some(key.clone())))));
                }
                Touch::Flushed => {
                    let readers = std::mem::take(&mut self.trackers).into_values().flatten();
                    told.extend(readers.map(|link| (link, invalidated(None))));
                }
            }
        }
        told
    }
}
