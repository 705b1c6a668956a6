//! A value on which several servers agree: an attempt proposes a token to all of them, learns what they had
//! accepted, and has a value accepted (`policy/register.rs` has the rules, `scripts/promise.lua` and
//! `scripts/accept.lua` are the two commands).

use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::{Decimal, Frame};

use super::asking::{Purpose, is_stamp};
use super::site::{Failures, Site, in_millis};
use crate::clock;
use crate::machine::Script;
use crate::names::Key;
use crate::owner::Owner;
use crate::policy::{Backoff, Ballot, Moment, Quorum, Reading, Verdict};
use crate::scripts::script;

pub(crate) static PROMISE: Script = script!("promise.lua");
pub(crate) static ACCEPT: Script = script!("accept.lua");
/// Maximum proposals of one attempt: attempts that outbid or split each other pause ever longer.
pub(super) const PROPOSALS_MAX: u32 = 12;
const PAUSE: Backoff =
    Backoff { first: Duration::from_millis(2), longest: Duration::from_millis(200) };

/// One owner's attempts at the value of one key.
#[derive(Clone, Copy)]
pub(super) struct Agreement<'a> {
    pub(super) site: &'a Site,
    pub(super) key: &'a Key,
    pub(super) owner: &'a Owner,
    pub(super) fingerprint: &'a [u8],
    /// The TTL of the lease that keeps others from doing the same work, in milliseconds; 0 for none.
    pub(super) ttl_ms: u64,
    /// How long the key is kept.
    pub(super) keep: Duration,
}

/// A value that was agreed on, or may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) fingerprint: Bytes,
    pub(super) text: Bytes,
}

/// The result of proposals.
#[derive(Debug)]
pub(super) enum Proposed {
    Promised(Promised),
    /// Other attempts have the lease, for this long, or were in the way again and again.
    Running {
        left: Duration,
        /// All of them with another fingerprint.
        is_other: bool,
    },
}

/// The promise of a quorum.
#[derive(Debug)]
pub(super) struct Promised {
    pub(super) token: u64,
    pub(super) reading: Reading<Value>,
    /// How often a server has promised a token: the largest number of any server.
    pub(super) starts: u64,
    /// The time that the clocks of a quorum have reached, in milliseconds since 1970.
    pub(super) clock_ms: u64,
    /// When the promise was asked for.
    pub(super) asked_at: Moment,
}

/// One server's answer to a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Promised { starts: u64, accepted: Option<(u64, Value)>, clock_ms: u64 },
    Running { is_other: bool, left: Duration, token: u64 },
    Stale(u64),
    Ahead(u64),
}

impl Agreement<'_> {
    /// Reads what a quorum has accepted, without a promise: the reading is final only if it is decided.
    ///
    /// # Errors
    ///
    /// Why too few servers answer.
    pub(super) async fn look(&self, purpose: Purpose<'_>) -> Result<Proposed, Failures> {
        let asked_at = clock::now();
        let mut round = self.ask(purpose, None).await?;
        let promised = round.promised(self.site.quorum(), 0, asked_at);
        Ok(promised.map_or_else(|| round.running(), Proposed::Promised))
    }

    /// Proposes tokens until a quorum has promised one, or other attempts are in the way.
    ///
    /// # Errors
    ///
    /// Why too few servers answer.
    pub(super) async fn propose(&self, purpose: Purpose<'_>) -> Result<Proposed, Failures> {
        let quorum = self.site.quorum();
        let mut ballot = Ballot::new(clock::wall_micros());
        let mut turn = 0;
        loop {
            let asked_at = clock::now();
            let mut round = self.ask(purpose, Some(ballot)).await?;
            if let Some(promised) = round.promised(quorum, ballot.proposal(), asked_at) {
                return Ok(Proposed::Promised(promised));
            }
            turn += 1;
            let is_theirs = round.is_of_another(quorum);
            if round.promises > 0 && (is_theirs || round.outbid(quorum, ballot).is_none()) {
                // Promises of a minority are no lease.
                let _ = self.accept(ballot.proposal(), "fail", b"", b"").await;
            }
            if is_theirs || turn == PROPOSALS_MAX {
                return Ok(round.running());
            }
            ballot = match round.outbid(quorum, ballot) {
                Some(next) if turn == 1 => next,
                next => {
                    self.site.sleep(PAUSE.delay(turn, clock::random_bits())).await;
                    next.unwrap_or_else(|| {
                        Ballot::new(clock::wall_micros()).above(ballot.proposal())
                    })
                }
            };
        }
    }

    async fn ask(&self, purpose: Purpose<'_>, ballot: Option<Ballot>) -> Result<Round, Failures> {
        let token = ballot.map_or(0, Ballot::proposal);
        let [ttl, token] = [self.ttl_ms, token].map(Decimal::new);
        let keep = self.keep();
        let led: &[u8] = if ballot.is_some_and(Ballot::is_outbid) { b"outbid" } else { b"vote" };
        let read = if ballot.is_some() { Said::of_proposal } else { Said::of_look };
        let owner = self.owner.value();
        let parameters = [b"1", &**self.key, owner, self.fingerprint, &ttl, &keep, &token, led];
        let quorum = self.site.quorum();
        let is_over = |said: &mut dyn Iterator<Item = Option<&Said>>| {
            let (mut promised, mut refused, mut failed) = (0, 0, 0);
            for said in said {
                match said {
                    Some(Said::Promised { .. }) => promised += 1,
                    Some(_) => refused += 1,
                    None => failed += 1,
                }
            }
            let open = self.site.servers() - promised - refused - failed;
            quorum.verdict(promised, refused + failed) != Verdict::Pending
                && !quorum.leaves_open_why(refused, failed, open)
        };
        let answers = self.site.ask_all(purpose, &PROMISE, &parameters, read, is_over).await;
        let mut round = Round::default();
        let mut failures = Failures::new();
        for (server, answer) in answers {
            match answer {
                Ok(said) => round.count(said),
                Err(reason) => failures.push((server, reason)),
            }
        }
        match quorum.verdict(0, failures.len()) {
            Verdict::Lost => Err(failures),
            _ => Ok(round),
        }
    }

    /// Whether a quorum has accepted this value under the token, or extended or ended the attempt's lease; false
    /// if too many servers refuse.
    ///
    /// # Errors
    ///
    /// If too few servers answer: a value that a minority has accepted may be agreed on later.
    pub(super) async fn accept(
        &self,
        token: u64,
        how: &str,
        fingerprint: &[u8],
        text: &[u8],
    ) -> Result<bool, Failures> {
        let [ttl, token] = [self.ttl_ms, token].map(Decimal::new);
        let (keep, owner, how) = (self.keep(), self.owner.value(), how.as_bytes());
        let parameters = [b"1", &**self.key, owner, how, &ttl, &keep, &token, fingerprint, text];
        let quorum = self.site.quorum();
        let is_over = |said: &mut dyn Iterator<Item = Option<&bool>>| {
            let (accepted, denied): (Vec<_>, Vec<_>) = said.partition(|said| *said == Some(&true));
            quorum.verdict(accepted.len(), denied.len()) != Verdict::Pending
        };
        let answers =
            self.site.ask_all(Purpose::Act, &ACCEPT, &parameters, is_accepted, is_over).await;
        let accepted = answers.iter().filter(|(_, answer)| matches!(answer, Ok(true))).count();
        let refused = answers.iter().filter(|(_, answer)| matches!(answer, Ok(false))).count();
        if quorum.verdict(accepted, refused) != Verdict::Pending {
            return Ok(quorum.verdict(accepted, refused) == Verdict::Won);
        }
        let failed = |(server, answer): (usize, Result<bool, _>)| Some((server, answer.err()?));
        Err(answers.into_iter().filter_map(failed).collect())
    }

    /// Whether a quorum accepts this value under a larger token, if too few accept it under the promised one, because
    /// servers were away then, or have promised a larger one since. It gives way to any other value.
    ///
    /// # Errors
    ///
    /// As [`Agreement::accept`].
    pub(super) async fn insist(&self, text: &[u8]) -> Result<bool, Failures> {
        let Proposed::Promised(promised) = self.propose(Purpose::Act).await? else {
            return Ok(false);
        };
        let is_own = |value: &Value| value.text == text && value.fingerprint == self.fingerprint;
        match promised.reading {
            Reading::Decided(value) => Ok(is_own(&value)),
            Reading::Open(value) if !is_own(&value) => Ok(false),
            _ => self.accept(promised.token, "finish", self.fingerprint, text).await,
        }
    }

    fn keep(&self) -> Decimal {
        in_millis(self.keep)
    }
}

/// The answers to one proposal.
#[derive(Default)]
struct Round {
    promises: usize,
    starts: u64,
    accepted: Vec<Option<(u64, Value)>>,
    clocks: Vec<u64>,
    /// Leases of attempts: for how long, the token, and whether for another request.
    running: Vec<(Duration, u64, bool)>,
    stale: Vec<u64>,
    ahead: Vec<u64>,
}

impl Round {
    fn count(&mut self, said: Said) {
        match said {
            Said::Promised { starts, accepted, clock_ms } => {
                self.promises += 1;
                self.starts = self.starts.max(starts);
                self.accepted.push(accepted);
                self.clocks.push(clock_ms);
            }
            Said::Running { left, token, is_other } => self.running.push((left, token, is_other)),
            Said::Stale(token) => self.stale.push(token),
            Said::Ahead(clock) => self.ahead.push(clock),
        }
    }

    fn promised(&mut self, quorum: Quorum, token: u64, asked_at: Moment) -> Option<Promised> {
        let reading = Reading::of(quorum, std::mem::take(&mut self.accepted))?;
        self.clocks.sort_unstable();
        let clock_ms = self.clocks[self.clocks.len() - quorum.needed()];
        Some(Promised { token, reading, starts: self.starts, clock_ms, asked_at })
    }

    /// Whether another owner's attempt has the lease, and has not only split the promises with this one.
    fn is_of_another(&self, quorum: Quorum) -> bool {
        let with = |token: u64| self.running.iter().filter(|(_, its, _)| *its == token).count();
        let has_quorum =
            |&(_, token, _): &(Duration, u64, bool)| quorum.verdict(with(token), 0) == Verdict::Won;
        !self.running.is_empty() && (self.promises == 0 || self.running.iter().any(has_quorum))
    }

    /// The next proposal, if only tokens were in the way.
    fn outbid(&self, quorum: Quorum, ballot: Ballot) -> Option<Ballot> {
        let is_token = self.stale.len() + self.ahead.len() > 0;
        if !is_token || quorum.verdict(0, self.running.len()) == Verdict::Lost {
            return None;
        }
        let bounded = self.ahead.iter().max().map_or(ballot, |clock| ballot.within(*clock));
        Some(self.stale.iter().max().map_or(bounded, |token| bounded.above(*token)))
    }

    fn running(&self) -> Proposed {
        let left = self.running.iter().map(|(left, ..)| *left).max();
        let is_other = left.is_some() && self.running.iter().all(|(.., is_other)| *is_other);
        Proposed::Running { left: left.unwrap_or(PAUSE.longest), is_other }
    }
}

impl Said {
    /// Reads the reply of `promise.lua` to a proposal.
    fn of_proposal(reply: &Frame) -> Option<Self> {
        Self::read(reply, b"promised")
    }

    /// Reads its reply to a look.
    fn of_look(reply: &Frame) -> Option<Self> {
        Self::read(reply, b"seen")
    }

    fn read(reply: &Frame, seen: &[u8]) -> Option<Self> {
        let Frame::Array(items) = reply else { return None };
        let (Frame::Bulk(word), rest) = items.get(1..)?.split_first()? else { return None };
        Some(match (&**word, rest) {
            (
                word,
                [
                    Frame::Integer(starts @ 0..),
                    Frame::Bulk(token),
                    Frame::Bulk(fingerprint),
                    Frame::Bulk(text),
                    Frame::Integer(clock @ 0..),
                ],
            ) if word == seen => {
                let value = Value { fingerprint: fingerprint.clone(), text: text.clone() };
                let accepted = match number(token)? {
                    0 if fingerprint.is_empty() && text.is_empty() => None,
                    0 => return None,
                    token => Some((token, value)),
                };
                let (starts, clock_ms) =
                    (u64::try_from(*starts).ok()?, u64::try_from(*clock).ok()?);
                Self::Promised { starts, accepted, clock_ms }
            }
            (b"running" | b"other", [Frame::Integer(left @ 1..), Frame::Bulk(token)]) => {
                let left = Duration::from_millis(u64::try_from(*left).ok()?);
                Self::Running { is_other: word == "other", left, token: number(token)? }
            }
            (b"stale", [Frame::Bulk(token)]) => Self::Stale(number(token)?),
            (b"ahead", [Frame::Bulk(clock)]) => Self::Ahead(number(clock)?),
            _ => return None,
        })
    }
}

fn number(text: &Bytes) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads the reply of `accept.lua`, and of `settle.lua`.
pub(super) fn is_accepted(reply: &Frame) -> Option<bool> {
    match reply {
        stamp if is_stamp(stamp) => Some(true),
        Frame::Array(items) if items.get(1..)? == [Frame::Integer(0)] => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
