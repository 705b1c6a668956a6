//! The end of a locker: nobody is let in, and all that is held is given back.

use std::fmt;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::answer::{Answer, Reason};
use super::apart::ask_apart;
use super::batch::{Group, Share, grouped, replied};
use super::claim::give_back;
use super::engine::Engine;
use super::held::Held;
use super::parameters::Parameters;
use super::parting::{Parting, ReleaseCall};
use super::question::Apart;
use crate::mutex::lock;
use crate::net::refusal::Code;
use crate::policy::{Loss, Verdict};
use crate::race::{all, timeout};
use crate::server::call::{Call, begin_all};
use crate::server::command::Command;

/// What [`Locker::shutdown`](crate::Locker::shutdown) released, and what it could not.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Shutdown {
    /// Names of the locks that are free now, stay locked until their
    /// [`hold_at_least`](crate::LockRequest::hold_at_least) is over, or were no longer held by this locker.
    pub released: Vec<String>,
    /// Names of the locks that may stay locked until their TTL is over, each with the reason.
    pub unreleased: Vec<(String, String)>,
}

/// In one line, for a log: `released 2 locks; job may stay locked until its TTL is over: ..`.
impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.released.len();
        write!(f, "released {count} lock{}", if count == 1 { "" } else { "s" })?;
        let each =
            |(name, reason)| write!(f, "; {name} may stay locked until its TTL is over: {reason}");
        self.unreleased.iter().map(|(name, reason)| (name, reason)).try_for_each(each)
    }
}

/// Ends the locker, and waits for the servers' word for at most `within`.
///
/// # Cancel safety
///
/// What no server has confirmed is given back when the future is dropped.
pub(crate) async fn shut_down(engine: &Engine, within: Duration) -> Shutdown {
    engine.close();
    let mut held: Vec<Held> = engine.keeper().all();
    for hold in &held {
        hold.lose(Loss::ShutDown);
    }
    held.retain(|hold| !hold.is_left_to_expire());
    let votes = Mutex::new(vec![Vote::default(); held.len()]);
    let ending = Ending { held, votes };
    let why = match timeout(within, pin!(ending.release_all())).await {
        Ok(()) => "fewer servers than its quorum answered",
        Err(_) => "fewer servers than its quorum answered in time",
    };
    ending.report(why)
}

/// The leases that are given back, and what is known of that.
struct Ending {
    held: Vec<Held>,
    votes: Mutex<Vec<Vote>>,
}

#[derive(Clone, Default)]
struct Vote {
    /// The servers on which the locks are free.
    free: Vec<usize>,
    failure: Option<String>,
}

impl Ending {
    fn votes(&self) -> MutexGuard<'_, Vec<Vote>> {
        lock(&self.votes)
    }

    fn report(&self, why: &str) -> Shutdown {
        let mut report = Shutdown::default();
        for (hold, vote) in self.held.iter().zip(&*self.votes()) {
            if hold.quorum().verdict(vote.free.len(), 0) == Verdict::Won {
                report.released.push(hold.title());
            } else {
                let reason = vote.failure.clone().unwrap_or_else(|| why.to_owned());
                report.unreleased.push((hold.title(), reason));
            }
        }
        report
    }

    /// All releases to one server go in one write, and no server is waited for before another.
    async fn release_all(&self) {
        let shares = self.held.iter().enumerate().flat_map(|(member, hold)| {
            let participants = hold.participants.iter().enumerate();
            participants.map(move |(server, participant)| {
                let binding = participant.binding().clone();
                let next = || binding.node.connection_now(binding.lane()).ok();
                (Share { member, server }, binding.connection().or_else(next))
            })
        });
        let (groups, _unreachable) = grouped(shares);
        all(groups.into_iter().map(|group| self.release_on(group))).await;
    }

    async fn release_on(&self, Group { connection, shares }: Group) {
        let names = |share: &Share| self.held[share.member].names_at(share.server);
        let partings: Vec<Parting<'_>> =
            shares.iter().map(|share| Parting::of(&self.held[share.member])).collect();
        let releases: Vec<ReleaseCall<'_>> = partings
            .iter()
            .zip(&shares)
            .map(|(parting, share)| parting.from(names(share)))
            .collect();
        let parameters: Vec<Parameters<'_>> =
            releases.iter().map(ReleaseCall::parameters).collect();
        let commands: Vec<Command<'_>> = partings
            .iter()
            .zip(&parameters)
            .map(|(parting, parameters)| Command::Script(parting.script(), parameters.words()))
            .collect();
        match begin_all(&connection, &commands).await {
            Ok(calls) => {
                for ((share, command), call) in shares.iter().zip(commands).zip(calls) {
                    self.take(*share, command, call).await;
                }
            }
            Err(failure) => {
                for Share { member, .. } in shares {
                    self.votes()[member].failure = Some(failure.to_string());
                }
            }
        }
    }

    /// Reads one reply.
    async fn take(&self, Share { member, server }: Share, command: Command<'_>, call: Call<'_>) {
        let hold = &self.held[member];
        let answer = match replied(hold, server, command, call).await {
            Err(Reason::Refused(error)) if error.code() == Code::Apart => {
                let apart = Apart::Release;
                ask_apart(hold, server, apart, None, Duration::ZERO).await.0
            }
            reply => reply.and_then(|reply| reply.read(Answer::of_owned)),
        };
        let vote = &mut self.votes()[member];
        match answer {
            Ok(_) => vote.free.push(server),
            Err(failure) => vote.failure = Some(failure.to_string()),
        }
    }
}

/// Should a guard outlive this, it gives back nothing any more: a release goes to every server, also
/// to one that was away or has not answered.
impl Drop for Ending {
    fn drop(&mut self) {
        for (hold, vote) in self.held.iter().zip(&*self.votes()) {
            give_back(hold, &|server| !vote.free.contains(&server));
        }
    }
}
