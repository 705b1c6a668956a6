//! A scratch lock on which rights are tried: its keys, the commands, and what replies mean.
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

/// The pattern that a user's right to the channels of locks has.
const CHANNELS: &str = "&leasehold:*";

/// The name of the keys, and what a user's rights to them are for.
pub(crate) struct Scratch {
    names: Names,
    prefix: Box<[u8]>,
    /// Each kind of key, and the one of that kind.
    keys: Vec<(&'static str, Key)>,
    /// What is to be used beside locks, each with its own keys.
    uses: Vec<&'static Needs>,
    /// Locks are taken without scripts.
    is_scriptless: bool,
}

/// One command that is tried.
pub(super) struct Trial<'a> {
    pub(super) words: Vec<&'a [u8]>,
    /// The right to its key, if it has one.
    pattern: String,
    need: Need,
    is_dispensable: bool,
}

/// What is used beside locks, and needs rights of its own: see
/// [`Builder::examine_for`](crate::Builder::examine_for).
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
    /// All of them.
    pub const ALL: [Self; NEEDS.len()] = {
        let mut all = [Self::Looking; NEEDS.len()];
        let mut place = 0;
        while place < NEEDS.len() {
            all[place] = NEEDS[place].of;
            place += 1;
        }
        all
    };

    /// One word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        NEEDS.iter().find(|needs| needs.of == self).map_or("", |needs| needs.name)
    }
}

/// The rights that one use needs, beside those of locks.
struct Needs {
    of: Capability,
    name: &'static str,
    /// What its keys end in.
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

/// As the page `docs/acl.md` has them. The commands are tried on the use's first key, which is not there, or on
/// the lock, which is of another type: nothing is written.
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
    /// Without it there are no locks.
    Success,
    /// Nor without the right to it; the command itself is refused for another reason, so that it
    /// changes nothing.
    Right,
    /// It is less pleasant without the right.
    Convenience,
}

/// What locks need, in the order in which it is tried. `LOCK`, `FENCE`, `QUEUE` and `OWN` stand for keys, and `''`
/// for no text.
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
    // The lock is no hash: so nothing is written.
    (Need::Right, "HSET LOCK first 1"),
    (Need::Success, "APPEND LOCK ''"),
    (Need::Convenience, "PUBLISH leasehold:doctor ''"),
    (Need::Convenience, "PUBSUB NUMSUB leasehold:doctor"),
    (Need::Success, "ECHO 1"),
    (Need::Success, "TIME"),
    // The script does nothing, and every user that may run scripts may run it.
    (Need::Success, "SCRIPT LOAD return(1)"),
    // No script has this digest.
    (Need::Right, "EVALSHA 0000000000000000000000000000000000000000 0"),
    (Need::Success, "EVAL return(1) 0"),
    (Need::Right, IN_SCRIPT),
    (Need::Convenience, "CLIENT TRACKING OFF"),
    // Refused for another reason, where the right is there: nothing is tracked.
    (Need::Convenience, "CLIENT CACHING YES"),
];
/// Some servers let scripts call less than others may.
const IN_SCRIPT: &str = "EVAL return(redis.call('TIME')) 0";
/// What the library does without, as docs/managed.md says.
const DISPENSABLE: [&[u8]; 5] = [b"ECHO", b"EVAL", b"EVALSHA", b"SCRIPT", b"TIME"];
/// By what locks are taken without scripts. It changes nothing.
const COMPARING: &str = "SET LOCK 1 IFEQ 1 PX 5000";
/// What a server lacks that does not compare so.
pub(super) const COMPARISON: &str = "SET .. IFEQ";
/// The commands of locks that are taken without scripts.
const WITHOUT_SCRIPTS: [&[u8]; 5] = [b"SET", b"GET", b"ECHO", b"TIME", b"CLIENT"];
/// What is left is deleted last.
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

    /// Others, by other names: in a Cluster each in a slot of its own, unless the prefix has a hash tag.
    pub(super) fn others(&self, count: usize) -> Vec<Self> {
        let other = |_| Self::of(&self.prefix, self.uses.clone(), self.is_scriptless).ok();
        (0..count).filter_map(other).collect()
    }

    /// What is asked to find out whether a server serves its keys, and changes nothing.
    pub(super) fn probe(&self) -> [&[u8]; 2] {
        [b"GET", self.names.lock()]
    }

    /// The key that ends in this.
    fn key(&self, suffix: &str) -> &[u8] {
        let key = self.keys.iter().find(|(of, _)| *of == suffix);
        key.map_or(self.names.lock(), |(_, key)| key)
    }

    /// The pattern of the keys that end in this, as a user's right to them has it.
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

    /// What is tried, in this order.
    pub(super) fn trials(&self, in_cluster: bool) -> Vec<Trial<'_>> {
        let tried = |(need, command)| self.trial(need, command, "");
        let mut trials: Vec<_> = TRIALS.into_iter().map(tried).collect();
        for needs in &self.uses {
            for own in needs.suffixes {
                // They are not there: to read is one right, and to write another.
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

    /// `OWN` in a command stands for the key that ends in `own`.
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

/// Whether channels are denied to the user, whatever is to be done with them.
pub(super) fn are_channels_denied(trials: &[Tried]) -> bool {
    trials.iter().any(|tried| tried.outcome == TrialOutcome::Lacking(CHANNELS.to_owned()))
}

/// What became of hearing a channel, which is no [`Trial`]: a server replies to it only where it refuses.
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
    /// The command, as an ACL has it.
    fn name(&self) -> String {
        let has_subcommand = matches!(self.words[0], b"SCRIPT" | b"PUBSUB" | b"CLIENT");
        let name = self.words[..1 + usize::from(has_subcommand)].join(&b'|');
        String::from_utf8_lossy(&name).into_owned()
    }

    /// The right to it.
    fn right(&self) -> String {
        format!("+{}", self.name().to_lowercase())
    }

    /// What the reply to it means.
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
            // Of the command in it, which is tried by itself too.
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
            // The rights were looked at before the key's place was.
            Code::Elsewhere => TrialOutcome::Elsewhere,
            // Whatever it would say otherwise.
            Code::Later => TrialOutcome::Failed(shown(error.text())),
            _ if self.need == Need::Success => TrialOutcome::Failed(shown(error.text())),
            _ => TrialOutcome::Allowed,
        };
        Tried { is_essential, outcome }
    }
}

#[cfg(test)]
mod tests;
