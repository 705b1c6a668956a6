//! A scheduled job that every process asks to run, and one of them runs (`scripts/once.lua`).
//!
//! At most once, there is only a claim: nothing is held while the job runs, or after it. At least once, the run
//! has a lease, and a slot whose lease ended before its run did is claimed again. Several servers agree on the
//! last slot (`slots.rs`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_resp::{Decimal, Frame};

use super::agreement::Agreement;
use super::asking::Purpose;
use super::site::Site;
use super::slots::{self, Claim, Schedule};
use super::stint::Stint;
use crate::clock;
use crate::error::Error;
use crate::machine::Script;
use crate::names::Key;
use crate::owner::{Mark, Owner};
use crate::policy::{Term, Units};
use crate::scripts::script;

static SCRIPT: Script = script!("once.lua");
pub(super) const SUFFIX: &[u8] = b":once";
/// A slot of this age is not run any more, and a job's last slot is remembered for as long, as in the
/// script.
const OPEN_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How far the clocks of several servers may be apart so that a forgotten slot is too old for all.
const APART_MAX: Duration = Duration::from_secs(60 * 60);

/// A slot of a schedule: when a job is to run.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::once::Slot;
///
/// let hourly = Slot::every(Duration::from_secs(3600)); // at the full hour, UTC
/// # let _ = hourly;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(When);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum When {
    At(SystemTime),
    Every(Duration),
}

impl Slot {
    /// The slot of this time, which is due from then on, by the server's clock, for seven days. Every process
    /// has to give the same time, to the millisecond.
    #[must_use]
    pub const fn at(time: SystemTime) -> Self {
        Self(When::At(time))
    }

    /// The latest slot of a grid that begins in 1970, by the server's clock, or with several servers by the clocks of a
    /// quorum; clients' clocks do not matter. The period is 1 ms to 7 days, in whole milliseconds. For a longer period,
    /// give each slot by [`Slot::at`].
    #[must_use]
    pub const fn every(period: Duration) -> Self {
        Self(When::Every(period))
    }

    /// The schedule for several servers, of a slot with valid arguments.
    fn schedule(self) -> Schedule {
        match self.0 {
            When::At(time) => {
                Schedule::At(whole_ms(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
            }
            When::Every(period) => Schedule::Every(whole_ms(period)),
        }
    }

    /// The arguments of the script: the slot, or nothing, and the period.
    fn arguments(self) -> Result<(String, String), String> {
        match self.0 {
            When::At(time) => match time.duration_since(UNIX_EPOCH) {
                Ok(since) if since.as_millis() < 1 << 52 => {
                    Ok((since.as_millis().to_string(), "0".to_owned()))
                }
                _ => Err("the time of a slot must be after 1970, and not far beyond".to_owned()),
            },
            When::Every(period) if period < Duration::from_millis(1) || period > OPEN_FOR => {
                let (longest, period) = (Units(OPEN_FOR), Units(period));
                let what = "the period of a schedule must be between 1 ms and";
                Err(format!("{what} {longest}, not {period}"))
            }
            When::Every(period) => Ok((String::new(), period.as_millis().to_string())),
        }
    }
}

/// A job that runs once in a slot, by [`Locker::once`](crate::Locker::once).
#[must_use = "the job runs only if it is asked to"]
pub struct Job {
    site: Site,
    slot: Slot,
    arguments: (String, String),
    /// The term of the run's lease, if an unfinished slot is run again.
    term: Option<Term>,
}

/// The outcome of a slot. Later versions may add others: a `match` needs a `_` for them, for jobs that did not
/// run here.
#[derive(Debug)]
#[non_exhaustive]
pub enum JobOutcome<T> {
    /// The job ran here, with this output.
    Ran {
        /// What the job returned.
        output: T,
        /// In what time the grid has its next slot.
        next_in: Option<Duration>,
    },
    /// The job ran here, with this output, and no server is known to have recorded its end: another caller runs the
    /// slot again once the TTL is over. Only for jobs that run at least once.
    Unkept {
        /// What the job returned.
        output: T,
        /// Why the end was not recorded. [`Lost`](crate::ErrorKind::Lost): another run has begun.
        error: Error,
    },
    /// The slot, or a later one, was claimed before; or the slot is seven days old.
    Taken {
        /// The last slot that was claimed, if it is known.
        last: Option<SystemTime>,
        /// In what time the grid has its next slot.
        next_in: Option<Duration>,
    },
    /// A run of the job is under way. Only for jobs that run at least once.
    Running {
        /// The slot of that run.
        slot: SystemTime,
        /// How much longer the run's lease lasts, unless it is renewed.
        left: Duration,
    },
    /// The slot is not due.
    Early {
        /// The time until it is due.
        due_in: Duration,
    },
}

/// The run of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// The slot.
    pub slot: SystemTime,
    /// How often the slot was claimed, this run included.
    pub attempt: u64,
    /// The last slot claimed before, if its run did not finish. Only for jobs that run at least once: only
    /// this run can still make up for it. It is missing if the first answer to the claim was lost.
    pub unfinished: Option<SystemTime>,
}

/// A server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Claimed { run: Run, next_in: Option<Duration> },
    Taken { last: Option<SystemTime>, next_in: Option<Duration> },
    Running { slot: SystemTime, left: Duration },
    Early { due_in: Duration },
}

impl Job {
    pub(crate) fn new(site: Site, slot: Slot) -> Self {
        let mut site = site;
        let arguments = slot.arguments().unwrap_or_else(|wrong| {
            site.refuse(wrong);
            Default::default()
        });
        Self { site, slot, arguments, term: None }
    }

    /// Has the slot run again, by the next caller, if its run does not finish: because it fails, its process
    /// ends, or it is cut off for longer than `ttl`. So the job may run twice, though never at the same time
    /// while servers and clocks keep their promises; runs for different slots of one job do not overlap either.
    /// The TTL is 10 ms to 24 h. Needs one server, a Cluster or a Sentinel service.
    pub fn at_least_once(mut self, ttl: Duration) -> Self {
        self.site.refuse_several_servers("whether a run has finished is not agreed on");
        self.term = Some(self.site.term(ttl));
        self
    }

    /// Runs `job` if the slot is due and nobody has claimed it or a later one. It does not wait.
    ///
    /// An `Err` of the job is an output like any other; but with at least once, another caller
    /// may repeat the slot at once. A job that ran is never an `Err` of this call: with at least once the server is
    /// asked to record the job's end until the lease is over, at most a TTL; without a confirmation the outcome is
    /// [`JobOutcome::Unkept`].
    ///
    /// # Errors
    ///
    /// As a request for a lock, if the server, or too many of several, gave no usable answer: the job did not run,
    /// and the slot may be claimed. At most once, nobody runs it then. At least once, it can be asked for again at
    /// once, and if the claim arrived, the outcome is [`JobOutcome::Running`] until `left` is over. With several
    /// servers also [`Contended`](crate::ErrorKind::Contended), if callers were in one another's way again and again:
    /// the job did not run here. For a job that runs at least once also [`Lost`](crate::ErrorKind::Lost) if its lease
    /// ended under way: the job was dropped, and has run in part; it can be asked for again at once.
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name, slot or TTL.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the slot may be claimed, and the job has run in part. If it runs at least
    /// once, the next caller can repeat it once the TTL is over.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::once::{JobOutcome, Slot};
    ///
    /// let nightly = locker.once("report", Slot::every(Duration::from_secs(86_400)));
    /// let turn = nightly.run(async |run| {
    ///     println!("the report of {:?}", run.slot);
    ///     Ok::<_, std::convert::Infallible>(())
    /// });
    /// if let JobOutcome::Taken { .. } = turn.await? {
    ///     println!("another host has run it");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T, E>(
        &self,
        job: impl AsyncFnOnce(&Run) -> Result<T, E>,
    ) -> Result<JobOutcome<Result<T, E>>, Error> {
        self.site.admit()?;
        let (owner, key) = (Owner::fresh(Mark::default()), self.site.key(SUFFIX));
        let asked_at = clock::now();
        let claimed = match self.site.servers() {
            1 => self.claim(&owner).await?,
            _ => self.claim_together(&owner, &key).await?,
        };
        let (run, next_in) = match claimed {
            Said::Claimed { run, next_in } => (run, next_in),
            Said::Taken { last, next_in } => return Ok(JobOutcome::Taken { last, next_in }),
            Said::Running { slot, left } => return Ok(JobOutcome::Running { slot, left }),
            Said::Early { due_in } => return Ok(JobOutcome::Early { due_in }),
        };
        let output = match self.term {
            None => job(&run).await,
            Some(term) => {
                let mut stint = Stint::begun(&self.site, &key, &owner, (term, OPEN_FOR), asked_at);
                let output = stint.carry(job(&run)).await?;
                if output.is_err() {
                    stint.give_up().await;
                } else if let Err(error) = stint.finish(b"", None).await {
                    return Ok(JobOutcome::Unkept { output, error });
                }
                output
            }
        };
        let next_in = next_in.map(|next_in| next_in.saturating_sub(clock::now().since(asked_at)));
        Ok(JobOutcome::Ran { output, next_in })
    }

    async fn claim(&self, owner: &Owner) -> Result<Said, Error> {
        let (asked_at, key) = (clock::now(), self.site.key(SUFFIX));
        let ttl = Decimal::new(self.term.map_or(0, Term::ttl_ms));
        let (slot, period) = (self.arguments.0.as_bytes(), self.arguments.1.as_bytes());
        let parameters = [b"1", &*key, owner.value(), slot, period, &*ttl];
        // A second delivery finds its own claim, with the same reply.
        let said = self.site.ask_twice(Purpose::Act, &SCRIPT, &parameters, Said::read).await;
        self.site.note(outcome_of(said.as_ref().ok()), asked_at);
        said.map_err(|reason| self.site.unserved([(0, reason)]))
    }

    async fn claim_together(&self, owner: &Owner, key: &Key) -> Result<Said, Error> {
        let asked_at = clock::now();
        let (site, keep) = (&self.site, OPEN_FOR + APART_MAX);
        let agreement = Agreement { site, key, owner, fingerprint: b"", ttl_ms: 0, keep };
        let claimed = slots::claim(agreement, self.slot.schedule(), whole_ms(OPEN_FOR)).await;
        let said = match claimed {
            Ok(claim) => claim.and_then(Said::of).ok_or_else(|| self.site.contended()),
            Err(failures) => Err(self.site.unserved(failures)),
        };
        self.site.note(outcome_of(said.as_ref().ok()), asked_at);
        said
    }
}

fn outcome_of(said: Option<&Said>) -> &'static str {
    match said {
        Some(Said::Claimed { .. }) => "claimed",
        Some(Said::Running { .. }) => "running",
        Some(Said::Early { .. }) => "early",
        Some(Said::Taken { .. }) => "taken",
        None => "failed",
    }
}

impl Said {
    /// The answer on which several servers have agreed.
    fn of(claim: Claim) -> Option<Self> {
        let time = |ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        let next_in = |ms: Option<u64>| ms.map(Duration::from_millis);
        Some(match claim {
            Claim::Claimed { slot, next_in: ms } => {
                let run = Run { slot: time(slot)?, attempt: 1, unfinished: None };
                Self::Claimed { run, next_in: next_in(ms) }
            }
            Claim::Taken { last, next_in: ms } => {
                Self::Taken { last: last.and_then(time), next_in: next_in(ms) }
            }
            Claim::Early { due_in } => Self::Early { due_in: Duration::from_millis(due_in) },
        })
    }

    /// Reads the reply of `once.lua`.
    fn read(reply: &Frame) -> Option<Self> {
        let Frame::Array(items) = reply else { return None };
        let (Frame::Bulk(word), numbers) = items.get(1..)?.split_first()? else { return None };
        let integer = |item: &Frame| match item {
            Frame::Integer(number) => Some(*number),
            _ => None,
        };
        let numbers = numbers.iter().map(integer).collect::<Option<Vec<_>>>()?;
        Some(match (&**word, &numbers[..]) {
            (b"claimed", &[slot, attempt @ (1..), unfinished @ (-1..), next_in @ (-1..)]) => {
                let (attempt, unfinished) = (u64::try_from(attempt).ok()?, time(unfinished));
                let run = Run { slot: time(slot)?, attempt, unfinished };
                Self::Claimed { run, next_in: millis(next_in) }
            }
            (b"taken", &[last @ (-1..), next_in @ (-1..)]) => {
                Self::Taken { last: time(last), next_in: millis(next_in) }
            }
            (b"running", &[left @ (1..), slot @ (0..)]) => {
                Self::Running { slot: time(slot)?, left: millis(left)? }
            }
            (b"early", &[due_in @ (1..)]) => Self::Early { due_in: millis(due_in)? },
            _ => return None,
        })
    }
}

/// In whole milliseconds.
fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn millis(number: i64) -> Option<Duration> {
    u64::try_from(number).ok().map(Duration::from_millis)
}

fn time(number: i64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(millis(number)?)
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("slot", &self.slot).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
