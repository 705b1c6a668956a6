//! Facts about one server, without judgement.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_resp::Frame;

use crate::net::refusal::ServerError;
use crate::policy::fitness::MODE_FIELDS;

/// Maximum characters of a server's text shown to people.
const SHOWN_MAX: usize = 300;

/// The replies of one server.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) is_resp3: bool,
    pub(super) round_trips: Vec<Duration>,
    /// The reply to HELLO, which needs no right.
    pub(super) hello: Fields,
    pub(super) server: Reading<Fields>,
    pub(super) memory: Reading<Fields>,
    pub(super) persistence: Reading<Fields>,
    pub(super) replication: Reading<Fields>,
    pub(super) settings: Reading<Fields>,
    /// The run id on another connection.
    pub(super) other_run: Option<String>,
    pub(super) clock: Reading<ClockReading>,
    /// The commands tried on the scratch key; none on a replica.
    pub(super) trials: Vec<Tried>,
    /// The replies on its reign; none without a grace, and on a replica.
    pub(super) signs: Option<Signs>,
    /// Why not every command was sent.
    pub(super) broken_off: Option<String>,
}

/// The reply to one command.
#[derive(Debug, Default)]
pub(super) enum Reading<T> {
    Known(T),
    /// The server's error reply.
    Refused(ServerError),
    #[default]
    Unasked,
}

/// How far a server's wall clock is ahead of ours, and the uncertainty of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockReading {
    pub(super) ahead_micros: i64,
    pub(super) within: Duration,
}

/// The outcome of one command on the scratch key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tried {
    /// Whether locks need the right to it.
    pub(super) is_essential: bool,
    pub(super) outcome: TrialOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrialOutcome {
    Allowed,
    /// The user has the right. Another node has the key's slot, so the command did not run.
    Elsewhere,
    /// The right that the user lacks, in an ACL's words.
    Lacking(String),
    /// The user has the right, but the command fails: the server's text.
    Failed(String),
    /// The server has no such command.
    Missing(String),
}

/// The replies on a server's reign.
#[derive(Debug)]
pub(super) struct Signs {
    /// None if there is no marker, or none of those read is this server's.
    pub(super) marker: Reading<Option<String>>,
    /// Whether the marker may be written.
    pub(super) writing: Reading<()>,
    /// INFO on replication, as scripts see it.
    pub(super) in_script: Reading<Fields>,
    /// Its clock, in microseconds.
    pub(super) clock: Option<u64>,
}

/// Named texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// The lines of INFO.
    pub(super) fn of_info(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// The texts of a map, or of an array of pairs as in RESP2.
    pub(super) fn of_pairs(frame: &Frame) -> Self {
        let text = |frame: &Frame| {
            frame.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let pair = |(name, value): (&Frame, &Frame)| Some((text(name)?, text(value)?));
        match frame.value() {
            Frame::Map(pairs) => {
                Self(pairs.iter().filter_map(|(name, value)| pair((name, value))).collect())
            }
            Frame::Array(items) => {
                let pairs = items.chunks_exact(2).map(|both| (&both[0], &both[1]));
                Self(pairs.filter_map(pair).collect())
            }
            _ => Self::default(),
        }
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }
}

impl<T> Reading<T> {
    pub(super) fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Refused(_) | Self::Unasked => None,
        }
    }

    pub(super) fn refusal(&self) -> Option<&ServerError> {
        match self {
            Self::Refused(error) => Some(error),
            Self::Known(_) | Self::Unasked => None,
        }
    }
}

impl Facts {
    /// `master`, or another word; none if neither INFO nor HELLO says.
    pub(super) fn role(&self) -> Option<&str> {
        self.of_info_or_hello(&self.replication, "role", "role")
    }

    /// `standalone`, `cluster` or `sentinel`.
    pub(super) fn mode(&self) -> Option<&str> {
        self.mode_in_info().or_else(|| self.hello.get("mode"))
    }

    /// Changes at each start of a server.
    pub(super) fn run_id(&self) -> Option<&str> {
        self.server.known()?.get("run_id")
    }

    /// Whether it is one of KeyDB's masters that replicate each other.
    pub(super) fn is_active_replica(&self) -> bool {
        self.role() == Some("active-replica")
    }

    /// The mode by INFO alone, as locks read it.
    pub(super) fn mode_in_info(&self) -> Option<&str> {
        let server = self.server.known()?;
        MODE_FIELDS.into_iter().find_map(|name| server.get(name))
    }

    /// The `redis_version`, which says what commands it has.
    pub(super) fn version(&self) -> Option<&str> {
        self.of_info_or_hello(&self.server, "redis_version", "version")
    }

    /// The server's name and version, for people.
    pub(super) fn software(&self) -> Option<String> {
        let in_info = |name| self.server.known().and_then(|fields| fields.get(name));
        // KeyDB reports Redis's version field, and has no field for its own name.
        let is_keydb = in_info("executable").is_some_and(|path| path.ends_with("keydb-server"));
        let (name, version) = match in_info("valkey_version") {
            Some(version) => ("Valkey", version),
            None if self.hello.is("server", "valkey") => ("Valkey", self.version()?),
            None if is_keydb => ("KeyDB", self.version()?),
            None => ("Redis", self.version()?),
        };
        Some(format!("{name} {}", shown(version)))
    }

    /// The median.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        let mut sorted = self.round_trips.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    fn of_info_or_hello<'a>(
        &'a self,
        section: &'a Reading<Fields>,
        in_info: &str,
        in_hello: &str,
    ) -> Option<&'a str> {
        section.known().and_then(|fields| fields.get(in_info)).or_else(|| self.hello.get(in_hello))
    }
}

/// A server's text, escaped for a terminal and cut.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.trim().chars().take(SHOWN_MAX) {
        match character {
            // Harmless characters, which would else be escaped twice.
            '\'' | '"' | '\\' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    if text.trim().chars().nth(SHOWN_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

/// The reply of TIME, in microseconds since 1970.
pub(super) fn time(reply: &Frame) -> Option<i64> {
    let Frame::Array(items) = reply.value() else { return None };
    let number = |frame: &Frame| std::str::from_utf8(frame.as_bytes()?).ok()?.parse::<i64>().ok();
    let [seconds, micros] = &items[..] else { return None };
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

#[cfg(test)]
mod tests;
