//! The end of a locker: nobody is let in, and all that is held is given back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_resp::Decimal;
use tokio::time::timeout;

use super::answer::Answer;
use super::ask::reply_to;
use super::claim::{give_back, release};
use super::core::Core;
use super::hold::Hold;
use super::parameters::Parameters;
use super::renew::all;
use super::scripts;
use crate::net::connection::Connection;
use crate::policy::{Loss, Verdict};
use crate::server::call::{Command, begin_all};

/// What became of the leases that were held when a locker was shut down.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Shutdown {
    /// The locks that are free now, or were no longer held by us: their names.
    pub released: Vec<String>,
    /// The locks that may still be taken until their TTL is over, and why.
    pub unreleased: Vec<(String, String)>,
}

/// Ends the locker, and waits for the servers' word for at most `within`.
///
/// # Cancel safety
///
/// What no server has confirmed is given back when the future is dropped.
pub(crate) async fn shut_down(core: &Arc<Core>, within: Duration) -> Shutdown {
    core.close();
    let held: Vec<Arc<Hold>> = core.keeper().all();
    for hold in &held {
        // What could take the lock again is not sent any more.
        *hold.given_back() = true;
        hold.lose(Loss::ShutDown);
    }
    let votes = Mutex::new(vec![Vote::default(); held.len()]);
    let ending = Ending { core, held, votes };
    let why = match timeout(within, ending.release_all()).await {
        Ok(()) => "too few servers answered",
        Err(_) => "too few servers answered in time",
    };
    ending.report(why)
}

/// The leases that are given back, and what is known of that.
struct Ending<'a> {
    core: &'a Arc<Core>,
    held: Vec<Arc<Hold>>,
    votes: Mutex<Vec<Vote>>,
}

#[derive(Clone, Default)]
struct Vote {
    /// The servers on which the locks are free.
    free: Vec<usize>,
    failure: Option<String>,
}

impl Ending<'_> {
    fn votes(&self) -> MutexGuard<'_, Vec<Vote>> {
        self.votes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, why: &str) -> Shutdown {
        let mut report = Shutdown::default();
        for (hold, vote) in self.held.iter().zip(&*self.votes()) {
            if self.core.quorum().verdict(vote.free.len(), 0) == Verdict::Won {
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
        let counts: Vec<Decimal> =
            self.held.iter().map(|hold| Decimal::new(hold.names.len() as u64)).collect();
        let parameters: Vec<Parameters<'_>> =
            self.held.iter().zip(&counts).map(|(hold, count)| release(hold, count)).collect();
        let mut asked = Vec::new();
        for server in 0..self.core.nodes().len() {
            for (connection, members) in by_connection(self.core, &self.held, server) {
                asked.push(self.release_on(server, connection, members, &parameters));
            }
        }
        all(asked).await;
    }

    async fn release_on(
        &self,
        server: usize,
        connection: Arc<Connection>,
        members: Vec<usize>,
        parameters: &[Parameters<'_>],
    ) {
        let vote = |member: usize, answer: Result<bool, String>| {
            let vote = &mut self.votes()[member];
            match answer {
                Ok(true) => vote.free.push(server),
                Ok(false) => {}
                Err(failure) => vote.failure = Some(failure),
            }
        };
        let commands: Vec<Command<'_>> = members
            .iter()
            .map(|member| Command::Script(scripts::release(), parameters[*member].words()))
            .collect();
        match begin_all(&connection, &commands).await {
            Ok(calls) => {
                for (member, call) in members.into_iter().zip(calls) {
                    let reply = reply_to(call).await.map_err(|reason| reason.to_string());
                    vote(member, reply.map(|reply| Answer::of_owned(&reply).is_some()));
                }
            }
            Err(failure) => {
                members.iter().for_each(|member| vote(*member, Err(failure.to_string())));
            }
        }
    }
}

/// Should a guard outlive this, it gives back nothing any more: a release goes to every server, also
/// to one that was away or has not answered.
impl Drop for Ending<'_> {
    fn drop(&mut self) {
        for (hold, vote) in self.held.iter().zip(&*self.votes()) {
            give_back(hold, |server| !vote.free.contains(&server));
        }
    }
}

/// The leases that are on each connection to one server.
fn by_connection(
    core: &Core,
    held: &[Arc<Hold>],
    server: usize,
) -> Vec<(Arc<Connection>, Vec<usize>)> {
    let mut groups: Vec<(Arc<Connection>, Vec<usize>)> = Vec::new();
    for (member, hold) in held.iter().enumerate() {
        let seat = hold.seat(server);
        let known = seat.connection.clone().filter(|connection| connection.is_alive());
        let lane = seat.lane;
        drop(seat);
        let next = || core.nodes()[server].connection_now(lane).ok();
        let Some(connection) = known.or_else(next) else { continue };
        match groups.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &connection)) {
            Some((_, members)) => members.push(member),
            None => groups.push((connection, vec![member])),
        }
    }
    groups
}
