//! A lock of nobody's, on which rights are tried: its keys, the commands, and what replies mean.
//!
//! The keys are a lock's own, under the prefix that locks have, with a name that nobody else has.
//! They end by themselves after [`TTL_MS`], whatever becomes of us, and are deleted before.

use std::fmt::Write as _;

use leasehold_resp::Frame;

use super::facts::{TrialOutcome, Tried, shown};
use crate::clock;
use crate::error::Error;
use crate::lock::names::{Key, Names};
use crate::net::refusal::{Code, ServerError};

const NAME: &str = "leasehold-doctor:";
const TTL_MS: &[u8] = b"5000";
/// The script does nothing, and every user that may run scripts may run it.
const SCRIPT: &[u8] = b"return 1";
/// No script has it.
const NO_DIGEST: &[u8] = &[b'0'; 40];

/// A channel that nobody hears, and the pattern that a user's right to it has.
const CHANNEL: &[u8] = b"leasehold:doctor";
const CHANNELS: &str = "&leasehold:*";

/// The keys, and what a user's rights to them are for.
pub(crate) struct Scratch {
    names: Names,
    queue: Key,
    prefix: String,
    /// What is to be used beside locks, each with its own keys.
    uses: Vec<(&'static Needs, Vec<Key>)>,
}

/// One command that is tried.
pub(super) struct Trial<'a> {
    pub(super) words: Vec<&'a [u8]>,
    /// The right to the command, and the one to its key.
    right: &'static str,
    pattern: String,
    need: Need,
}

/// What is used beside locks, and needs rights of its own: see
/// [`Builder::examine_for`](crate::Builder::examine_for).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Use {
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

impl Use {
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
    of: Use,
    name: &'static str,
    /// What its keys end in.
    suffixes: &'static [&'static str],
    /// Each right, and what the command needs behind the key.
    rights: &'static [(&'static str, &'static [&'static [u8]])],
}

const OF_PARTIES: &[(&str, &[&[u8]])] =
    &[("+hset", &[b"#", b"1"]), ("+hget", &[b"#"]), ("+hlen", &[]), ("+unlink", &[])];
const OF_SHARES: &[(&str, &[&[u8]])] = &[
    ("+zadd", &[b"1", b"x"]),
    ("+zcard", &[]),
    ("+zcount", &[b"0", b"1"]),
    ("+zrangebyscore", &[b"0", b"1"]),
    ("+zrem", &[b"x"]),
    ("+zrevrange", &[b"0", b"0"]),
    ("+zscore", &[b"x"]),
    ("+unlink", &[]),
    ("+exists", &[]),
];

/// As the page `docs/acl.md` has them.
const NEEDS: [Needs; 7] = {
    const fn needs(
        of: Use,
        name: &'static str,
        suffixes: &'static [&'static str],
        rights: &'static [(&'static str, &'static [&'static [u8]])],
    ) -> Needs {
        Needs { of, name, suffixes, rights }
    }
    [
        needs(Use::Looking, "looking", &[], &[("+scan", &[]), ("+getrange", &[b"0", b"1"])]),
        needs(Use::Shares, "shares", &[":shares"], OF_SHARES),
        needs(Use::Limits, "limits", &[":limit"], &[]),
        needs(Use::Once, "once", &[":once"], &[]),
        needs(Use::Idempotency, "idempotency", &[":idempotent"], &[]),
        needs(Use::Latches, "latches", &[":latch", ":open"], OF_PARTIES),
        needs(Use::Barriers, "barriers", &[":barrier", ":passed"], OF_PARTIES),
    ]
};

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

impl Scratch {
    pub(crate) fn new(prefix: &[u8], uses: &[Use]) -> Result<Self, Error> {
        let mut name = NAME.to_owned();
        for byte in clock::random_id() {
            let _ = write!(name, "{byte:02x}");
        }
        let names = Names::new(prefix, name.as_bytes()).map_err(Error::misuse)?;
        let own = |needs: &'static Needs| {
            (needs, needs.suffixes.iter().map(|suffix| names.beside(suffix.as_bytes())).collect())
        };
        let uses = NEEDS.iter().filter(|needs| uses.contains(&needs.of)).map(own).collect();
        let prefix = String::from_utf8_lossy(prefix).into_owned();
        Ok(Self { queue: names.queue(), names, prefix, uses })
    }

    /// The pattern of the keys that end in this, as a user's right to them has it.
    fn pattern(&self, suffix: &str) -> String {
        let prefix = &self.prefix;
        let is_tagged = self.names.fence().starts_with(self.names.lock());
        match (&**prefix, suffix) {
            ("", _) => "~*".to_owned(),
            (_, "") => format!("~{prefix}*"),
            _ if is_tagged => format!("~{prefix}*"),
            _ => format!("~{{{prefix}*}}{suffix}"),
        }
    }

    /// What is tried, in this order; what is left of it is deleted last.
    pub(super) fn trials(&self, replicas: bool, in_cluster: bool) -> Vec<Trial<'_>> {
        let (lock, fence, queue) = (self.names.lock(), self.names.fence(), &self.queue[..]);
        let [of_lock, of_fence, of_queue] = ["", ":fence", ":queue"].map(|key| self.pattern(key));
        let [of_lock, of_fence, of_queue] = [&*of_lock, &*of_fence, &*of_queue];
        let trial = |need, right, pattern: &str, words: &[&'static [u8]]| Trial {
            words: words.to_vec(),
            right,
            pattern: pattern.to_owned(),
            need,
        };
        let on = |need,
                  right,
                  pattern: &str,
                  (verb, key): (&'static [u8], _),
                  rest: &[&'static [u8]]| {
            let words = [&[verb, key][..], rest].concat();
            Trial { words, right, pattern: pattern.to_owned(), need }
        };
        let with_ttl: [&[u8]; 4] = [b"1", b"NX", b"PX", TTL_MS];
        let mut trials = vec![
            on(Need::Success, "+set", of_lock, (b"SET", lock), &with_ttl),
            on(Need::Success, "+get", of_lock, (b"GET", lock), &[]),
            on(Need::Success, "+pttl", of_lock, (b"PTTL", lock), &[]),
            on(Need::Success, "+pexpire", of_lock, (b"PEXPIRE", lock), &[TTL_MS]),
            on(Need::Success, "+set", of_fence, (b"SET", fence), &with_ttl),
            on(Need::Success, "+hget", of_queue, (b"HGET", queue), &[b"first"]),
            on(Need::Success, "+hmget", of_queue, (b"HMGET", queue), &[b"first"]),
            on(Need::Success, "+hlen", of_queue, (b"HLEN", queue), &[]),
            on(Need::Success, "+hdel", of_queue, (b"HDEL", queue), &[b"first"]),
            // Of the lock, which is no hash: so nothing is written.
            on(Need::Right, "+hset", of_lock, (b"HSET", lock), &[b"first", b"1"]),
            on(Need::Success, "+append", of_lock, (b"APPEND", lock), &[b""]),
            on(Need::Convenience, "+incrby", of_fence, (b"INCRBY", fence), &[b"1"]),
            trial(Need::Convenience, "+publish", CHANNELS, &[b"PUBLISH", CHANNEL, b""]),
            trial(Need::Convenience, "+pubsub|numsub", "", &[b"PUBSUB", b"NUMSUB", CHANNEL]),
            trial(Need::Success, "+echo", "", &[b"ECHO", b"1"]),
            trial(Need::Success, "+time", "", &[b"TIME"]),
            trial(Need::Success, "+script|load", "", &[b"SCRIPT", b"LOAD", SCRIPT]),
            trial(Need::Right, "+evalsha", "", &[b"EVALSHA", NO_DIGEST, b"0"]),
            trial(Need::Success, "+eval", "", &[b"EVAL", SCRIPT, b"0"]),
            trial(Need::Convenience, "+client|tracking", "", &[b"CLIENT", b"TRACKING", b"OFF"]),
        ];
        for (needs, keys) in &self.uses {
            for (key, suffix) in keys.iter().zip(needs.suffixes) {
                let pattern = self.pattern(suffix);
                // They are not there: to read is one right, and to write another.
                trials.push(on(Need::Right, "+get", &pattern, (b"GET", key), &[]));
                trials.push(on(Need::Right, "+pexpire", &pattern, (b"PEXPIRE", key), &[TTL_MS]));
            }
            for (right, rest) in needs.rights {
                let verb = right.trim_start_matches('+').as_bytes();
                trials.push(match (*right, keys.first()) {
                    ("+scan", _) => trial(Need::Right, right, "", &[verb, b"0", b"COUNT", b"1"]),
                    ("+unlink" | "+exists", Some(key)) => {
                        let pattern = self.pattern(needs.suffixes[0]);
                        on(Need::Right, right, &pattern, (verb, &key[..]), rest)
                    }
                    // Of the lock, as above.
                    _ => on(Need::Right, right, of_lock, (verb, lock), rest),
                });
            }
        }
        trials.extend([
            on(Need::Success, "+del", of_lock, (b"DEL", lock), &[]),
            on(Need::Success, "+del", of_fence, (b"DEL", fence), &[]),
            on(Need::Success, "+del", of_queue, (b"DEL", queue), &[]),
        ]);
        if replicas {
            // For none of them, so that it returns at once.
            trials.push(trial(Need::Success, "+wait", "", &[b"WAIT", b"0", b"1"]));
        }
        if in_cluster {
            trials.push(trial(Need::Success, "+asking", "", &[b"ASKING"]));
        }
        trials
    }
}

/// Whether channels are denied to the user, whatever is to be done with them.
pub(super) fn are_channels_denied(trials: &[Tried]) -> bool {
    trials.iter().any(|tried| tried.outcome == TrialOutcome::Lacking(CHANNELS.to_owned()))
}

/// What became of hearing a channel, which is no [`Trial`]: a server replies to it only where it refuses.
pub(super) fn hearing(is_refused: bool) -> Tried {
    let outcome = match is_refused {
        true => TrialOutcome::Lacking("+subscribe".to_owned()),
        false => TrialOutcome::Allowed,
    };
    Tried { is_essential: false, outcome }
}

impl Trial<'_> {
    /// What the reply to it means.
    pub(super) fn judge(&self, reply: &Frame) -> Tried {
        let is_essential = self.need != Need::Convenience;
        let Some(text) = reply.error() else {
            return Tried { is_essential, outcome: TrialOutcome::Allowed };
        };
        let error = ServerError::new(text);
        let outcome = match error.code() {
            Code::Permission if error.is_about_keys() && !self.pattern.is_empty() => {
                TrialOutcome::Lacking(self.pattern.clone())
            }
            Code::Permission if error.is_about_channels() => {
                TrialOutcome::Lacking(CHANNELS.to_owned())
            }
            Code::Permission => TrialOutcome::Lacking(self.right.to_owned()),
            // The rights were looked at before the key's place was.
            Code::Elsewhere => TrialOutcome::Allowed,
            _ if self.need == Need::Success => TrialOutcome::Failed(shown(error.text())),
            _ => TrialOutcome::Allowed,
        };
        Tried { is_essential, outcome }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn outcome(trial: &Trial<'_>, text: &'static str) -> TrialOutcome {
        trial.judge(&Frame::Error(Bytes::from_static(text.as_bytes()))).outcome
    }

    fn lacking(right: &str) -> TrialOutcome {
        TrialOutcome::Lacking(right.to_owned())
    }

    #[test]
    fn the_keys_are_a_locks_own_and_nobody_elses() {
        let (one, other) =
            (Scratch::new(b"app:", &[]).unwrap(), Scratch::new(b"app:", &[]).unwrap());
        assert_ne!(one.names.lock(), other.names.lock());
        let lock = String::from_utf8(one.names.lock().to_vec()).unwrap();
        assert!(lock.starts_with("app:leasehold-doctor:"), "{lock}");
        assert_eq!(one.queue[..], *format!("{{{lock}}}:queue").as_bytes());
        let patterns = |prefix: &[u8]| {
            let scratch = Scratch::new(prefix, &[]).unwrap();
            ["", ":fence", ":queue"].map(|suffix| scratch.pattern(suffix))
        };
        assert_eq!(patterns(b"app:"), ["~app:*", "~{app:*}:fence", "~{app:*}:queue"]);
        assert_eq!(patterns(b"{app}:"), ["~{app}:*"; 3]);
        assert_eq!(patterns(b""), ["~*"; 3]);
        assert!(Scratch::new(b"}", &[]).is_err());
    }

    /// Whatever is refused, no key is left for ever: what makes one says when it ends.
    #[test]
    fn whatever_is_written_ends_by_itself() {
        let scratch = Scratch::new(b"", &Use::ALL).unwrap();
        let own: Vec<_> = scratch.uses.iter().flat_map(|(_, keys)| keys).collect();
        for trial in scratch.trials(true, true) {
            let name = trial.words[0];
            if own.iter().any(|key| trial.words.contains(&&key[..])) {
                let harmless: [&[u8]; 4] = [b"GET", b"PEXPIRE", b"unlink", b"exists"];
                assert!(harmless.contains(&name), "what is not there is not made");
            }
            if name == b"SET" {
                assert!(trial.words.ends_with(&[b"PX", TTL_MS]));
            }
        }
    }

    #[test]
    fn a_missing_right_is_the_commands_or_its_keys() {
        let scratch = Scratch::new(b"app:", &[]).unwrap();
        let trials = scratch.trials(false, false);
        let trial = |verb: &[u8]| trials.iter().find(|trial| trial.words[0] == verb).unwrap();
        let command = "NOPERM this user has no permissions to run the 'x' command";
        let key = "NOPERM this user has no permissions to access one of the keys used as arguments";
        assert_eq!(outcome(trial(b"SET"), command), lacking("+set"));
        assert_eq!(outcome(trial(b"SET"), key), lacking("~app:*"));
        assert_eq!(outcome(trial(b"HGET"), key), lacking("~{app:*}:queue"));
        assert_eq!(outcome(trial(b"SCRIPT"), command), lacking("+script|load"));
        let channel =
            "NOPERM this user has no permissions to access one of the channels used as arguments";
        assert_eq!(outcome(trial(b"PUBLISH"), command), lacking("+publish"));
        assert_eq!(outcome(trial(b"PUBLISH"), channel), lacking("&leasehold:*"));
        assert_eq!(
            outcome(trial(b"PUBLISH"), "NOPERM No permissions to access a channel"),
            lacking("&leasehold:*")
        );
        assert!(!trial(b"CLIENT").judge(&Frame::Null).is_essential);
    }

    #[test]
    fn what_is_refused_for_another_reason_is_allowed_or_does_not_work() {
        let scratch = Scratch::new(b"app:", &[]).unwrap();
        let trials = scratch.trials(false, true);
        let trial = |verb: &[u8]| trials.iter().find(|trial| trial.words[0] == verb).unwrap();
        assert_eq!(outcome(trial(b"SET"), "MOVED 1 h:1"), TrialOutcome::Allowed);
        let full = "OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(outcome(trial(b"SET"), full), TrialOutcome::Failed(full.to_owned()));
        assert_eq!(outcome(trial(b"EVALSHA"), "NOSCRIPT x"), TrialOutcome::Allowed);
        assert_eq!(outcome(trial(b"HSET"), "WRONGTYPE x"), TrialOutcome::Allowed);
        assert_eq!(outcome(trial(b"CLIENT"), "ERR unknown subcommand"), TrialOutcome::Allowed);
    }
}
