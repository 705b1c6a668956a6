//! One go at renewing leases: all that are due, in a few commands to each server.
//!
//! Each lease is decided as soon as enough servers have answered; the go is over when all have, or
//! were given up. Servers that lost a lease are given it back then (quorum repair): only while it
//! is provably held, which it is until its deadline once a quorum has extended it (`policy/model`
//! searches that), and only where they may vote.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use leasehold_resp::{Decimal, Frame};

use super::answer::{Answer, Reason};
use super::ask::{note, reply_to};
use super::core::Core;
use super::hold::Hold;
use super::names::Names;
use super::parameters::Parameters;
use super::scripts;
use crate::clock;
use crate::net::connection::Connection;
use crate::policy::{Entry, Moment, Verdict, renew_at, retry_at};
use crate::server::call::{Call, Command, begin_all, send_whole};
use crate::server::node::Node;

/// So many locks are extended by one command: it saves most of a command's cost, and keeps a
/// server for some tens of microseconds.
const LOCKS_PER_COMMAND: usize = 16;

/// A lease, and its place with the keeper.
pub(super) struct Kept {
    pub(super) entry: Entry,
    pub(super) hold: Arc<Hold>,
}

/// What is known so far of one lease's renewal.
#[derive(Clone, Default)]
struct Tally {
    extended: usize,
    gone: usize,
    failed: usize,
    /// The servers that have lost it.
    missing: Vec<usize>,
    is_decided: bool,
    is_extended: bool,
}

struct Go {
    core: Arc<Core>,
    kept: Vec<Kept>,
    /// Before the first byte was sent to any server (safety rule 6: a time of its own).
    asked_at: Moment,
    tallies: Mutex<Vec<Tally>>,
}

/// Renews these leases; whatever comes of it, each has a next look with the keeper after it.
pub(super) async fn renew(core: Arc<Core>, kept: Vec<Kept>) {
    let tallies = Mutex::new(vec![Tally::default(); kept.len()]);
    let go = Go { core, kept, asked_at: clock::now(), tallies };
    let servers = 0..go.core.nodes().len();
    let asked: Vec<_> = servers.map(|server| go.ask(server)).collect();
    all(asked).await;
    go.conclude();
    go.repair().await;
}

/// Runs futures together, in this task, until all are done.
pub(super) async fn all<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        running.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Leases that are on one connection.
struct Group {
    connection: Arc<Connection>,
    members: Vec<usize>,
}

impl Go {
    /// Asks one server for all leases.
    async fn ask(&self, server: usize) {
        let node = &self.core.nodes()[server];
        let (groups, unreachable) = self.seat_all(server, node);
        for member in unreachable {
            self.count(server, member, None);
        }
        let ttls: Vec<Decimal> =
            self.kept.iter().map(|kept| Decimal::new(kept.hold.term.ttl_ms())).collect();
        let groups: Vec<(Arc<Connection>, Vec<&[usize]>)> = groups
            .iter()
            .map(|group| (Arc::clone(&group.connection), self.portions(&group.members)))
            .collect();
        let counts: Vec<Vec<Decimal>> = groups
            .iter()
            .map(|(_, portions)| {
                portions.iter().map(|members| Decimal::new(self.locks(members) as u64)).collect()
            })
            .collect();
        let parameters: Vec<Vec<Parameters<'_>>> = groups
            .iter()
            .zip(&counts)
            .map(|((_, portions), counts)| {
                let spelled = portions.iter().zip(counts);
                spelled.map(|(members, count)| self.spell(members, count, &ttls)).collect()
            })
            .collect();
        let mut begun = Vec::with_capacity(groups.len());
        for ((connection, portions), parameters) in groups.iter().zip(&parameters) {
            let commands: Vec<Command<'_>> = parameters
                .iter()
                .map(|parameters| Command::Script(scripts::extend(), parameters.words()))
                .collect();
            begun.push((portions, begin_all(connection, &commands).await));
        }
        for (portions, calls) in begun {
            match calls {
                Ok(calls) => {
                    for (members, call) in portions.iter().zip(calls) {
                        self.take(server, members, call).await;
                    }
                }
                Err(_) => portions.iter().copied().flatten().for_each(|member| {
                    self.count(server, *member, None);
                }),
            }
        }
    }

    /// The connections that the leases are on, and those leases for which there is none now.
    ///
    /// A lease of which the server has told that it granted it goes over to a connection on which
    /// the server tells of its end: nothing of it is under way that could be overtaken.
    fn seat_all(&self, server: usize, node: &Node) -> (Vec<Group>, Vec<usize>) {
        node.want(node.watch_lane());
        let is_watching = node.is_watching();
        let mut groups: Vec<Group> = Vec::new();
        let mut unreachable = Vec::new();
        for (member, Kept { entry, hold }) in self.kept.iter().enumerate() {
            let mut seat = hold.seat(server);
            let is_on_watch = seat.lane == node.watch_lane();
            if is_watching && !is_on_watch && seat.is_granted {
                (seat.lane, seat.connection) = (node.watch_lane(), None);
                hold.watch.get_or_init(|| {
                    let waker = self.core.keeper().stirrer(*entry);
                    let watch = |names: &Names| {
                        self.core.watchers().watch_with(names.lock(), waker.clone())
                    };
                    hold.names.iter().map(watch).collect()
                });
            } else if is_on_watch && !is_watching {
                (seat.lane, seat.connection) = (node.pick_lane(), None);
            }
            let known = seat.connection.clone().filter(|connection| connection.is_alive());
            let Some(connection) = known.or_else(|| node.connection_now(seat.lane).ok()) else {
                unreachable.push(member);
                continue;
            };
            seat.connection = Some(Arc::clone(&connection));
            drop(seat);
            match groups.iter_mut().find(|group| Arc::ptr_eq(&group.connection, &connection)) {
                Some(group) => group.members.push(member),
                None => groups.push(Group { connection, members: vec![member] }),
            }
        }
        (groups, unreachable)
    }

    fn locks(&self, members: &[usize]) -> usize {
        members.iter().map(|member| self.kept[*member].hold.names.len()).sum()
    }

    /// The leases of each command.
    fn portions<'a>(&self, members: &'a [usize]) -> Vec<&'a [usize]> {
        let mut portions = Vec::new();
        let mut rest = members;
        while !rest.is_empty() {
            let mut taken = 1;
            while taken < rest.len() && self.locks(&rest[..=taken]) <= LOCKS_PER_COMMAND {
                taken += 1;
            }
            let (portion, others) = rest.split_at(taken);
            portions.push(portion);
            rest = others;
        }
        portions
    }

    fn spell<'a>(
        &'a self,
        members: &[usize],
        count: &'a [u8],
        ttls: &'a [Decimal],
    ) -> Parameters<'a> {
        let mut parameters = Parameters::of_keys(count);
        for &member in members {
            parameters.extend(self.kept[member].hold.names.iter().map(Names::lock));
        }
        for &member in members {
            let hold = &self.kept[member].hold;
            for _ in 0..hold.names.len() {
                parameters.extend([hold.owner.value(), &ttls[member]]);
            }
        }
        parameters
    }

    /// Reads one command's reply.
    async fn take(&self, server: usize, members: &[usize], call: Call<'_>) {
        let connection = Arc::clone(call.connection());
        let reply = reply_to(call).await;
        if let Err(Reason::Refused(error)) = &reply {
            connection.note_refused(error.clone());
        }
        if !self.core.is_single() {
            note(&self.core.nodes()[server], reply.as_ref().err(), clock::now());
        }
        let kept = match &reply {
            Ok(Frame::Array(kept)) if kept.len() == self.locks(members) => &kept[..],
            _ => &[],
        };
        let mut locks = kept.iter();
        for &member in members {
            let of_member: Vec<_> =
                locks.by_ref().take(self.kept[member].hold.names.len()).cloned().collect();
            let answer = Answer::of_extend(&Frame::Array(of_member));
            self.count(server, member, answer.as_ref());
        }
    }

    /// Counts one server's word on one lease, and acts as soon as it decides.
    fn count(&self, server: usize, member: usize, answer: Option<&Answer>) {
        let Kept { entry, hold } = &self.kept[member];
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = &mut tallies[member];
        match answer {
            Some(Answer::Granted(_)) => {
                tally.extended += 1;
                // So its acquire, which was sent before, has been carried out too.
                hold.seat(server).is_granted = true;
            }
            Some(Answer::NotOwned) => {
                tally.gone += 1;
                tally.missing.push(server);
            }
            _ => tally.failed += 1,
        }
        let quorum = self.core.quorum();
        if tally.is_decided {
            return;
        }
        let is_extended = quorum.verdict(tally.extended, tally.gone) == Verdict::Won;
        let is_lost = quorum.verdict(0, tally.gone) == Verdict::Lost;
        (tally.is_decided, tally.is_extended) = (is_extended || is_lost, is_extended);
        drop(tallies);
        if *hold.given_back() {
            // Its locks are gone because they were given back.
        } else if is_extended {
            if hold.prolong(hold.term.deadline(self.asked_at)).is_none() {
                hold.note_renewed(clock::now().since(self.asked_at));
                self.core.keeper().schedule(*entry, renew_at(self.asked_at, hold.term.ttl()));
            }
        } else if is_lost {
            hold.lose(self.core.gone());
        }
    }

    /// All have answered, or will not: what is not decided is tried again while there is time.
    fn conclude(&self) {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        for (Kept { entry, hold }, tally) in self.kept.iter().zip(&*tallies) {
            if tally.is_decided || *hold.given_back() {
                continue;
            }
            let (Some(ends_at), failed) = (hold.ends_at(), hold.note_renewal_failed()) else {
                continue;
            };
            let (now, random) = (clock::now(), clock::random_bits());
            let again = retry_at(now, failed, hold.term.ttl(), ends_at, random);
            self.core.keeper().schedule(*entry, again.unwrap_or(ends_at));
        }
    }

    /// Gives leases that were extended back to servers that had lost them.
    async fn repair(&self) {
        let tallies =
            std::mem::take(&mut *self.tallies.lock().unwrap_or_else(PoisonError::into_inner));
        for (Kept { hold, .. }, tally) in self.kept.iter().zip(tallies) {
            if tally.is_extended {
                for server in tally.missing {
                    self.repair_at(server, hold).await;
                }
            }
        }
    }

    /// The answer is no vote; whether the server has the lease again, the next renewal finds out.
    async fn repair_at(&self, server: usize, hold: &Hold) {
        let node = &self.core.nodes()[server];
        let (lane, connection) = {
            let seat = hold.seat(server);
            (seat.lane, seat.connection.clone())
        };
        let Some(connection) = connection else { return };
        if node.check(lane).is_err() {
            return;
        }
        let keys = Decimal::new(2 * hold.names.len() as u64);
        let (ttl, token) =
            (Decimal::new(hold.term.ttl_ms()), Decimal::new(hold.token().unwrap_or(0)));
        let mut parameters = Parameters::of_keys(&keys);
        parameters.extend(hold.names.iter().flat_map(|names| [names.lock(), names.fence()]));
        parameters.extend([hold.owner.value(), &ttl, &token]);
        let command = Command::Script(scripts::repair(), parameters.words());
        // Sent before a release or not at all: what came behind one would take the lock again.
        let begun = {
            let given_back = hold.given_back();
            // Only looked at: a loss is told where no lock is held.
            if *given_back || hold.ends_at().is_none_or(|ends_at| ends_at <= clock::now()) {
                return;
            }
            send_whole(&connection, command)
        };
        let Ok(reply) = begun else { return };
        let Ok(reply) = reply.await else { return };
        if let Some(text) = reply.error() {
            connection.note_refused(command.refusal(text));
        }
        if let Some(Answer::Granted(_)) = Answer::of_owned(&reply) {
            self.core.meter().note_repaired();
        }
    }
}
