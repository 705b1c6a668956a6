//! A scratch lock for trying rights: its keys, the commands, and the meaning of replies.
//!
//! The keys are those of a lock under the locks' prefix, with a unique name.
//! They are deleted, and expire after 5 s in any case.

use std::fmt::Write as _;

use leasehold_resp::Frame;

use super::facts::{TrialOutcome, Tried, shown};
use crate::clock;
use crate::error::Error;
use crate::names::{InvalidName, Key, Names};
use crate::net::refusal::{Code, ServerError};

const NAME: &str = "leasehold-doctor:";

/// The pattern for the right to locks' channels.
const CHANNELS: &str = "&leasehold:*";

/// The keys, and the uses for which rights are tried.
pub(crate) struct Scratch {
    names: Names,
    prefix: Box<[u8]>,
    /// Each suffix, and the key with it.
    keys: Vec<(&'static str, Key)>,
    /// The uses beside locks, each with its own keys.
    uses: Vec<&'static Needs>,
    /// Whether locks do without scripts.
    is_scriptless: bool,
}

/// One command to try.
pub(super) struct Trial<'a> {
    pub(super) words: Vec<&'a [u8]>,
    /// The pattern for the right to its key, if it has one.
    pattern: String,
    need: Need,
    is_dispensable: bool,
}

/// A use beside locks, with rights of its own: see [`Builder::examine_for`](crate::Builder::examine_for).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// `Locker::inspect`, `list` and `watch`.
    Looking,
    /// `Locker::read`, `write` and `semaphore`.
    Shares,
    /// `Locker::limit`.
    Limits,
    /// `Locker::once`.
    Once,
    /// `Locker::idempotent`.
    Idempotency,
    /// `Locker::latch`.
    Latches,
    /// `Locker::barrier`.
    Barriers,
}

impl Capability {
    /// All uses.
    pub const ALL: [Self; NEEDS.len()] = {
        let mut all = [Self::Looking; NEEDS.len()];
        let mut place = 0;
        while place < NEEDS.len() {
            all[place] = NEEDS[place].of;
            place += 1;
        }
        all
    };

    /// Its name, in one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        NEEDS.iter().find(|needs| needs.of == self).map_or("", |needs| needs.name)
    }
}

/// The rights of one use, beside those of locks.
struct Needs {
    of: Capability,
    name: &'static str,
    /// The suffixes of its keys.
    suffixes: &'static [&'static str],
    tried: &'static [&'static str],
}

const PARTIES: &[&str] = &["HSET LOCK # 1", "HGET LOCK #", "HLEN LOCK", "UNLINK OWN"];
const SHARES: &[&str] = &[
    "ZADD LOCK 1 x",
    "ZCARD LOCK",
    "ZCOUNT LOCK 0 1",
    "ZRANGEBYSCORE LOCK 0 1",
    "ZREM LOCK x",
    "ZREVRANGE LOCK 0 0",
    "ZSCORE LOCK x",
    "UNLINK OWN",
    "EXISTS OWN",
];

/// The rights in `docs/acl.md`. The commands are tried on the use's first key, which does not exist, or on the lock,
/// which is of another type, so that nothing is written.
const NEEDS: [Needs; 7] = [
    Needs {
        of: Capability::Looking,
        name: "looking",
        suffixes: &[],
        tried: &["SCAN 0 COUNT 1", "GETRANGE LOCK 0 1"],
    },
    Needs { of: Capability::Shares, name: "shares", suffixes: &[":shares"], tried: SHARES },
    Needs { of: Capability::Limits, name: "limits", suffixes: &[":limit"], tried: &[] },
    Needs { of: Capability::Once, name: "once", suffixes: &[":once"], tried: &[] },
    Needs {
        of: Capability::Idempotency,
        name: "idempotency",
        suffixes: &[":idempotent"],
        tried: &[],
    },
    Needs {
        of: Capability::Latches,
        name: "latches",
        suffixes: &[":latch", ":open"],
        tried: PARTIES,
    },
    Needs {
        of: Capability::Barriers,
        name: "barriers",
        suffixes: &[":barrier", ":passed"],
        tried: PARTIES,
    },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Locks need the command to succeed.
    Success,
    /// The right is needed. The command itself may fail for another reason, so that it changes nothing.
    Right,
    /// Locks work less well without the right.
    Convenience,
}

/// The commands of locks, in the order of the trial. `LOCK`, `FENCE`, `QUEUE` and `OWN` stand for keys, and `''` for an
/// empty text.
const TRIALS: [(Need, &str); 21] = [
    (Need::Success, "SET LOCK 1 NX PX 5000"),
    (Need::Success, "GET LOCK"),
    (Need::Success, "PTTL LOCK"),
    (Need::Success, "PEXPIRE LOCK 5000"),
    (Need::Success, "SET FENCE 1 NX PX 5000"),
    (Need::Success, "HGET QUEUE first"),
    (Need::Success, "HMGET QUEUE first"),
    (Need::Success, "HLEN QUEUE"),
    (Need::Success, "HDEL QUEUE first"),
    // Fails because the lock is no hash, so nothing is written.
    (Need::Right, "HSET LOCK first 1"),
    (Need::Success, "APPEND LOCK ''"),
    (Need::Convenience, "PUBLISH leasehold:doctor ''"),
    (Need::Convenience, "PUBSUB NUMSUB leasehold:doctor"),
    (Need::Success, "ECHO 1"),
    (Need::Success, "TIME"),
    // The script does nothing; every user with the right to scripts may run it.
    (Need::Success, "SCRIPT LOAD return(1)"),
    // No script has this digest.
    (Need::Right, "EVALSHA 0000000000000000000000000000000000000000 0"),
    (Need::Success, "EVAL return(1) 0"),
    (Need::Right, IN_SCRIPT),
    (Need::Convenience, "CLIENT TRACKING OFF"),
    // Fails for another reason if the user has the right: nothing is tracked.
    (Need::Convenience, "CLIENT CACHING YES"),
];
/// Some servers refuse scripts commands that users may call.
const IN_SCRIPT: &str = "EVAL return(redis.call('TIME')) 0";
/// Commands that the library can do without, by docs/managed.md.
const DISPENSABLE: [&[u8]; 5] = [b"ECHO", b"EVAL", b"EVALSHA", b"SCRIPT", b"TIME"];
/// The command that takes locks without scripts; changes nothing here.
const COMPARING: &str = "SET LOCK 1 IFEQ 1 PX 5000";
/// The name of what a server lacks that refuses this.
pub(super) const COMPARISON: &str = "SET .. IFEQ";
/// The commands of locks without scripts.
const WITHOUT_SCRIPTS: [&[u8]; 5] = [b"SET", b"GET", b"ECHO", b"TIME", b"CLIENT"];
/// At the end the scratch keys are deleted.
const DELETIONS: [(Need, &str); 3] =
    [(Need::Success, "DEL LOCK"), (Need::Success, "DEL FENCE"), (Need::Success, "DEL QUEUE")];

impl Scratch {
    pub(crate) fn new(
        prefix: &[u8],
        uses: &[Capability],
        is_scriptless: bool,
    ) -> Result<Self, Error> {
        let uses = NEEDS.iter().filter(|needs| uses.contains(&needs.of)).collect();
        Self::of(prefix, uses, is_scriptless).map_err(Error::misuse)
    }

    fn of(
        prefix: &[u8],
        uses: Vec<&'static Needs>,
        is_scriptless: bool,
    ) -> Result<Self, InvalidName> {
        let mut name = NAME.to_owned();
        for byte in clock::random_id() {
            let _ = write!(name, "{byte:02x}");
        }
        let names = Names::new(prefix, name.as_bytes())?;
        let own = uses.iter().flat_map(|needs| needs.suffixes);
        let suffixes = [":fence", ":queue"].iter().chain(own);
        let keys = suffixes.map(|suffix| (*suffix, names.beside(suffix.as_bytes()))).collect();
        Ok(Self { names, prefix: prefix.into(), keys, uses, is_scriptless })
    }

    /// Scratch locks of other names: in a Cluster each in a random slot, unless the prefix has a hash tag.
    pub(super) fn others(&self, count: usize) -> Vec<Self> {
        let other = |_| Self::of(&self.prefix, self.uses.clone(), self.is_scriptless).ok();
        (0..count).filter_map(other).collect()
    }

    /// A command that shows whether a server serves the keys, and changes nothing.
    pub(super) fn probe(&self) -> [&[u8]; 2] {
        [b"GET", self.names.lock()]
    }

    /// The key with this suffix.
    fn key(&self, suffix: &str) -> &[u8] {
        let key = self.keys.iter().find(|(of, _)| *of == suffix);
        key.map_or(self.names.lock(), |(_, key)| key)
    }

    /// The pattern for the right to keys with this suffix.
    fn pattern(&self, suffix: &str) -> String {
        let prefix = String::from_utf8_lossy(&self.prefix);
        let is_tagged = self.names.fence().starts_with(self.names.lock());
        match (&*prefix, suffix) {
            ("", _) => "~*".to_owned(),
            (_, "") => format!("~{prefix}*"),
            _ if is_tagged => format!("~{prefix}*"),
            _ => format!("~{{{prefix}*}}{suffix}"),
        }
    }

    /// The commands to try, in this order.
    pub(super) fn trials(&self, in_cluster: bool) -> Vec<Trial<'_>> {
        let tried = |(need, command)| self.trial(need, command, "");
        let mut trials: Vec<_> = TRIALS.into_iter().map(tried).collect();
        for needs in &self.uses {
            for own in needs.suffixes {
                // On missing keys: one needs the right to read, the other to write.
                let both = ["GET OWN", "PEXPIRE OWN 5000"];
                trials.extend(both.map(|command| self.trial(Need::Right, command, own)));
            }
            let own = needs.suffixes.first().copied().unwrap_or_default();
            let commands = needs.tried.iter();
            trials.extend(commands.map(|command| self.trial(Need::Right, command, own)));
        }
        let need = if self.is_scriptless { Need::Success } else { Need::Convenience };
        trials.push(tried((need, COMPARING)));
        let asking = in_cluster.then_some((Need::Success, "ASKING"));
        trials.extend(DELETIONS.into_iter().chain(asking).map(tried));
        trials.retain(|it| !self.is_scriptless || WITHOUT_SCRIPTS.contains(&it.words[0]));
        trials
    }

    /// A command to try; `OWN` in it stands for the key with the suffix `own`.
    fn trial(&self, need: Need, command: &'static str, own: &str) -> Trial<'_> {
        let mut pattern = String::new();
        let words = command.split(' ').map(|word| {
            let suffix = match word {
                "LOCK" => "",
                "FENCE" => ":fence",
                "QUEUE" => ":queue",
                "OWN" => own,
                "''" => return &b""[..],
                _ => return word.as_bytes(),
            };
            pattern = self.pattern(suffix);
            self.key(suffix)
        });
        let words: Vec<&[u8]> = words.collect();
        let is_needed = self.is_scriptless && words[0] == b"TIME";
        let is_dispensable = DISPENSABLE.contains(&words[0]) && !is_needed;
        Trial { words, pattern, need, is_dispensable }
    }
}

/// Whether the user lacks the right to channels, for any command.
pub(super) fn are_channels_denied(trials: &[Tried]) -> bool {
    trials.iter().any(|tried| tried.outcome == TrialOutcome::Lacking(CHANNELS.to_owned()))
}

/// The outcome of a subscription, which is no [`Trial`]: its only reply is a refusal.
pub(super) fn hearing(refusal: Option<&ServerError>) -> Tried {
    let outcome = match refusal.map(|error| (error, error.code())) {
        None => TrialOutcome::Allowed,
        Some((error, Code::Permission)) if error.is_about_channels() => {
            TrialOutcome::Lacking(CHANNELS.to_owned())
        }
        Some((_, Code::Permission)) => TrialOutcome::Lacking("+subscribe".to_owned()),
        Some((error, Code::Later)) => TrialOutcome::Failed(shown(error.text())),
        Some(_) => TrialOutcome::Missing("SUBSCRIBE".to_owned()),
    };
    Tried { is_essential: false, outcome }
}

impl Trial<'_> {
    /// The command's name in an ACL.
    fn name(&self) -> String {
        let has_subcommand = matches!(self.words[0], b"SCRIPT" | b"PUBSUB" | b"CLIENT");
        let name = self.words[..1 + usize::from(has_subcommand)].join(&b'|');
        String::from_utf8_lossy(&name).into_owned()
    }

    /// The right to the command.
    fn right(&self) -> String {
        format!("+{}", self.name().to_lowercase())
    }

    /// The outcome by this reply.
    pub(super) fn judge(&self, reply: &Frame) -> Tried {
        let is_essential = self.need != Need::Convenience;
        let is_missed = is_essential && !self.is_dispensable;
        let Some(text) = reply.error() else {
            return Tried { is_essential, outcome: TrialOutcome::Allowed };
        };
        let error = ServerError::new(text);
        let compares = self.words.contains(&&b"IFEQ"[..]);
        let outcome = match error.code() {
            Code::Unsupported | Code::Other if compares => {
                TrialOutcome::Missing(COMPARISON.to_owned())
            }
            Code::Permission if error.is_about_keys() && !self.pattern.is_empty() => {
                TrialOutcome::Lacking(self.pattern.clone())
            }
            Code::Permission if error.is_about_channels() => {
                TrialOutcome::Lacking(CHANNELS.to_owned())
            }
            // An error about the script's command, which has a trial of its own.
            Code::Permission if error.text().contains("the script") => TrialOutcome::Allowed,
            Code::Permission if error.text().contains("in script") => TrialOutcome::Allowed,
            Code::Permission => TrialOutcome::Lacking(self.right()),
            Code::Unsupported => {
                let outcome = TrialOutcome::Missing(self.name());
                return Tried { is_essential: is_missed, outcome };
            }
            Code::Unscripted => {
                let outcome = TrialOutcome::Missing("TIME in scripts".to_owned());
                return Tried { is_essential: false, outcome };
            }
            // Servers check rights before the key's slot.
            Code::Elsewhere => TrialOutcome::Elsewhere,
            // The command did not run.
            Code::Later => TrialOutcome::Failed(shown(error.text())),
            _ if self.need == Need::Success => TrialOutcome::Failed(shown(error.text())),
            _ => TrialOutcome::Allowed,
        };
        Tried { is_essential, outcome }
    }
}

#[cfg(test)]
mod tests;
