//! One go at renewing leases: all that are due, in a few commands to each server.
//!
//! Each lease is decided as soon as enough servers have answered; the go is over when all have, or
//! were given up. Servers that lost a lease are given it back then (quorum repair): only while it
//! is provably held, which it is until its deadline once a quorum has extended it (`policy/model`
//! searches that), and only where they may vote.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_resp::Decimal;

use super::answer::{Answer, Extended, Reason};
use super::apart::ask_apart;
use super::ask::note;
use super::batch::{Group, Share, grouped, replied};
use super::engine::Engine;
use super::extend_call::ExtendCall;
use super::hold::Hold;
use super::keeper::Kept;
use super::parameters::Parameters;
use super::participant::Participant;
use super::parting::count;
use super::question::Apart;
use super::scripts;
use super::sharing::{Shares, Wanted};
use crate::clock;
use crate::mutex::lock;
use crate::net::connection::Connection;
use crate::net::refusal::{Code, ServerError};
use crate::policy::{Extension, Moment, TimerKey, extension, retry_at};
use crate::race::all;
use crate::server::call::{Call, begin_all, send_whole};
use crate::server::command::Command;
use crate::server::node::{LEASES, WATCH};
use crate::spans::Step;

mod portions;

/// What is known so far of one lease's renewal.
#[derive(Default)]
struct Tally {
    extended: usize,
    gone: usize,
    failed: usize,
    /// The servers that have lost it.
    missing: Vec<usize>,
    is_decided: bool,
    is_extended: bool,
    step: Step,
}

struct Go {
    engine: Arc<Engine>,
    kept: Vec<Kept>,
    /// Before the first byte was sent to any server (safety rule 6: a time of its own).
    asked_at: Moment,
    tallies: Mutex<Vec<Tally>>,
}

/// Renews these leases; whatever comes of it, each has a next look with the keeper after it.
pub(super) async fn renew(engine: Arc<Engine>, kept: Vec<Kept>) {
    let begun = |kept: &Kept| Tally { step: kept.hold.span.renew(), ..Tally::default() };
    let tallies = Mutex::new(kept.iter().map(begun).collect());
    let go = Go { engine, kept, asked_at: clock::now(), tallies };
    let places = 0..go.engine.places().len();
    all(places.map(|place| go.ask(place))).await;
    go.conclude();
    go.repair().await;
}

impl Go {
    /// Asks the servers of one place for all leases.
    async fn ask(&self, place: usize) {
        let (groups, unreachable) = self.bind_all(place);
        unreachable.into_iter().for_each(|share| self.count(share, None));
        all(groups.iter().map(|group| self.ask_on(group))).await;
    }

    async fn ask_on(&self, Group { connection, shares }: &Group) {
        let portions = self.portions(shares);
        let at = |share: &Share| (&*self.kept[share.member].hold, share.server);
        let extend_calls: Vec<ExtendCall<'_>> =
            portions.iter().map(|shares| ExtendCall::of(shares.iter().map(at))).collect();
        let parameters: Vec<Parameters<'_>> =
            extend_calls.iter().map(ExtendCall::parameters).collect();
        let commands: Vec<Command<'_>> = parameters
            .iter()
            .zip(&portions)
            .map(|(parameters, shares)| {
                Command::Script((self.row(shares[0]).extend)(), parameters.words())
            })
            .collect();
        let Ok(calls) = begin_all(connection, &commands).await else {
            return shares.iter().for_each(|share| self.count(*share, None));
        };
        for ((shares, command), call) in portions.iter().zip(&commands).zip(calls) {
            self.take(shares, *command, call).await;
        }
    }

    /// The connections that the leases are on, and those leases for which there is none now.
    ///
    /// A lease of which the server has told that it granted it goes over to a connection on which
    /// the server tells of its end: nothing of it is under way that could be overtaken.
    fn bind_all(&self, place: usize) -> (Vec<Group>, Vec<Share>) {
        let kept = self.kept.iter().enumerate();
        grouped(kept.flat_map(|(member, Kept { entry, hold })| {
            let participants = hold.participants.iter().enumerate();
            let there = participants.filter(move |(_, participant)| participant.place() == place);
            there.map(move |(server, participant)| {
                (Share { member, server }, self.binding(*entry, hold, participant))
            })
        }))
    }

    fn binding(
        &self,
        entry: TimerKey,
        hold: &Hold,
        participant: &Participant,
    ) -> Option<Arc<Connection>> {
        let mut binding = participant.binding();
        let place = hold.place_of(participant);
        binding.follow(place, participant.slot);
        let node = Arc::clone(&binding.node);
        node.want(WATCH);
        let is_watching = node.is_watching();
        // On another connection, what is asked now could overtake an acquire that is unanswered.
        let may_change = binding.lane() == WATCH || !binding.is_unanswered;
        if !hold.row().is_by_lock {
            // Its lock changes with the shares of others.
        } else if is_watching && binding.is_granted && may_change {
            if binding.lane() != WATCH {
                binding.change_to(WATCH);
            }
            hold.listen(entry);
        } else if binding.lane() == WATCH && !is_watching {
            binding.change_to(LEASES);
        }
        let connection = binding.connection().or_else(|| node.connection_now(binding.lane()).ok());
        let Some(connection) = connection else {
            place.look_again();
            return None;
        };
        binding.take(Arc::clone(&connection));
        Some(connection)
    }

    /// Reads one command's reply.
    async fn take(&self, shares: &[Share], command: Command<'_>, call: Call<'_>) {
        let Share { member, server } = shares[0];
        let hold = &self.kept[member].hold;
        let reply = replied(hold, server, command, call).await;
        if !self.engine.is_single() {
            let node = Arc::clone(&hold.binding(server).node);
            note(&node, reply.as_ref().err(), clock::now());
        }
        let is_apart = |error: &ServerError| error.code() == Code::Apart;
        let is_apart = matches!(&reply, Err(Reason::Refused(error)) if is_apart(error));
        if is_apart && self.row(shares[0]).is_by_lock {
            return self.take_apart(shares).await;
        }
        let extended = reply.and_then(|reply| {
            reply.read(|reply| Extended::of(reply).filter(|it| it.is_of(self.locks(shares))))
        });
        let mut first = 0;
        for share in shares {
            let locks = first..first + self.names(share).len();
            first = locks.end;
            let answer = extended.as_ref().ok().map(|extended| extended.answer(locks));
            self.count(*share, answer.as_ref());
        }
    }

    /// Extends the locks of one command one by one.
    async fn take_apart(&self, shares: &[Share]) {
        for &share in shares {
            let (hold, wait) = (&self.kept[share.member].hold, Duration::ZERO);
            let asked = ask_apart(hold, share.server, Apart::Extend, wait);
            self.count(share, asked.await.0.ok().as_ref());
        }
    }

    /// Counts one server's word on one lease, and acts as soon as it decides.
    fn count(&self, Share { member, server }: Share, answer: Option<&Answer>) {
        let Kept { entry, hold } = &self.kept[member];
        let mut tallies = lock(&self.tallies);
        let tally = &mut tallies[member];
        match answer {
            Some(Answer::Granted(_)) => {
                tally.extended += 1;
                // So its acquire, which was sent before, has been carried out too.
                let mut binding = hold.binding(server);
                (binding.is_granted, binding.is_unanswered) = (true, false);
            }
            Some(Answer::NotOwned) => {
                tally.gone += 1;
                tally.missing.push(server);
            }
            _ => tally.failed += 1,
        }
        let quorum = hold.quorum();
        if tally.is_decided {
            return;
        }
        let came_to = extension(quorum, tally.extended, tally.gone);
        let is_extended = came_to == Extension::Extended;
        (tally.is_decided, tally.is_extended) = (came_to != Extension::Open, is_extended);
        if tally.is_decided {
            tally.step.end(if is_extended { "renewed" } else { "lost" });
        }
        drop(tallies);
        if is_extended {
            if hold.prolong(hold.term.deadline(self.asked_at)) {
                let now = clock::now();
                hold.note_renewed(now.since(self.asked_at));
                let again = hold.renew_at(self.asked_at);
                self.engine.keeper().schedule(*entry, hold.due(again, now));
            }
        } else if came_to == Extension::Lost {
            hold.lose(self.engine.gone());
        }
    }

    /// All have answered, or will not: what is not decided is tried again while there is time.
    fn conclude(&self) {
        let mut tallies = lock(&self.tallies);
        for (Kept { entry, hold }, tally) in self.kept.iter().zip(&mut *tallies) {
            if tally.is_decided || hold.state().is_given_back() {
                continue;
            }
            tally.step.end("failed");
            let failed = hold.note_renewal_failed();
            let Some(ends_at) = hold.ends_at() else { continue };
            let (now, random) = (clock::now(), clock::random_bits());
            let again = retry_at(now, failed, hold.term.ttl(), ends_at, random);
            self.engine.keeper().schedule(*entry, hold.due(again.unwrap_or(ends_at), now));
        }
    }

    /// Gives leases that were extended back to servers that had lost them.
    async fn repair(&self) {
        let tallies = std::mem::take(&mut *lock(&self.tallies));
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
        let binding = hold.binding(server).clone();
        let Some(connection) = &binding.connection else { return };
        if binding.node.check(binding.lane()).is_err() {
            return;
        }
        let token = hold.token().map_or(0, |token| hold.relay().last_aside(token));
        let wanted = Wanted::of(hold);
        let taking = wanted.as_ref().map(|wanted| Shares::new(hold, wanted, token));
        let keys = count(2 * hold.names.len());
        let (ttl, token) = (hold.key_ms(), Decimal::new(token));
        let mut parameters = Parameters::of_keys(&keys);
        parameters.extend(hold.names.iter().flat_map(|names| [names.lock(), names.fence()]));
        parameters.extend([hold.owner.value(), &ttl, &token]);
        // One more share keeps writers out, and nobody else.
        let (script, parameters) = match &taking {
            Some(taking) => ((hold.row().take)(), taking.parameters(b"mend")),
            None => (scripts::repair(), parameters),
        };
        let command = Command::Script(script, parameters.words());
        // Sent before a release or not at all: what came behind one would take the lock again.
        // If the connection ends first, it may be carried out behind the release.
        hold.binding(server).ask(true);
        let Some(Ok(reply)) = hold.while_held(|| send_whole(connection, command)) else {
            hold.binding(server).is_unanswered = binding.is_unanswered;
            return;
        };
        let Ok(reply) = reply.await else { return };
        hold.binding(server).is_unanswered = false;
        if let Some(text) = reply.error() {
            connection.note_refused(command.refusal(text));
        }
        if let Some(Answer::Granted(_)) =
            Answer::of_owned(&reply).or_else(|| Answer::of_share(&reply))
        {
            self.engine.meter().note_repaired();
        }
    }
}
