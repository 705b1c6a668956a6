//! The end of a locker: nobody is let in, and all that is held is given back.

use std::sync::{Arc, Mutex, PoisonError};
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
pub(crate) async fn shut_down(core: &Arc<Core>, within: Duration) -> Shutdown {
    core.close();
    let held: Vec<Arc<Hold>> = core.keeper().all();
    for hold in &held {
        // What could take the lock again is not sent any more.
        *hold.given_back() = true;
        hold.lose(Loss::ShutDown);
    }
    let votes = Mutex::new(vec![Vote::default(); held.len()]);
    let answers = timeout(within, release_all(core, &held, &votes)).await;
    let why = match answers {
        Ok(()) => "too few servers answered",
        Err(_) => "too few servers answered in time",
    };
    let mut report = Shutdown::default();
    let votes = votes.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (hold, vote) in held.iter().zip(votes) {
        if core.quorum().verdict(vote.free, 0) == Verdict::Won {
            report.released.push(hold.title());
        } else {
            // Should the guard outlive this, nobody waits for the server's word any more.
            give_back(hold, |_| true);
            let reason = vote.failure.unwrap_or_else(|| why.to_owned());
            report.unreleased.push((hold.title(), reason));
        }
    }
    report
}

#[derive(Clone, Default)]
struct Vote {
    free: usize,
    failure: Option<String>,
}

/// All releases to one server go in one write, and no server is waited for before another.
async fn release_all(core: &Core, held: &[Arc<Hold>], votes: &Mutex<Vec<Vote>>) {
    let counts: Vec<Decimal> =
        held.iter().map(|hold| Decimal::new(hold.names.len() as u64)).collect();
    let parameters: Vec<Parameters<'_>> =
        held.iter().zip(&counts).map(|(hold, count)| release(hold, count)).collect();
    let mut asked = Vec::new();
    for server in 0..core.nodes().len() {
        for (connection, members) in by_connection(core, held, server) {
            asked.push(release_on(connection, members, &parameters, votes));
        }
    }
    all(asked).await;
}

async fn release_on(
    connection: Arc<Connection>,
    members: Vec<usize>,
    parameters: &[Parameters<'_>],
    votes: &Mutex<Vec<Vote>>,
) {
    let vote = |member: usize, answer: Result<bool, String>| {
        let vote = &mut votes.lock().unwrap_or_else(PoisonError::into_inner)[member];
        match answer {
            Ok(is_free) => vote.free += usize::from(is_free),
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
        Err(failure) => members.iter().for_each(|member| vote(*member, Err(failure.to_string()))),
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
