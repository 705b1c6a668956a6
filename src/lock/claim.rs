//! What an owner may hold on the servers, and the promise to give it back.
//!
//! A claim exists from before the first byte of an acquire is sent. Whatever ends it (a refusal, a
//! cancelled future, a dropped guard) queues a release on every server that may have been asked,
//! also on those that refused, failed or timed out, each over the connection that the claim began
//! on; unless something proves that nothing is left to give back.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

use leasehold_resp::Decimal;

use super::answer::Answer;
use super::core::Core;
use super::direct;
use super::fanout::ask_all;
use super::held::Held;
use super::hold::Hold;
use super::names::{Key, Names};
use super::one_or_many::OneOrMany;
use super::order::Order;
use super::owner::Owner;
use super::parameters::Parameters;
use super::participant::{Lanes, Participant};
use super::parting::{Parting, count};
use super::question::{Apart, Question, scripted};
use super::rare::Vacate;
use super::round::Round;
use super::row::Sharing;
use super::scripts;
use super::sharing::{self, Wanted};
use crate::clock;
use crate::policy::{Moment, Redelivery, Relay};
use crate::server::command::Command;

/// How late a server may carry out an acquire that it had received when it froze. A release that
/// comes a TTL after that would find nothing.
pub(super) const FROZEN_MAX: Duration = Duration::from_secs(60);

pub(super) struct Claim {
    hold: Held,
    settled: bool,
}

impl Claim {
    /// A claim of nothing yet, with a lane on each server.
    pub(super) fn new(
        core: &Arc<Core>,
        names: OneOrMany<Names>,
        order: &Order,
        lanes: Lanes,
    ) -> Self {
        Self::with(core, names, order, lanes, &[])
    }

    /// The same of one that has some of the locks already, as other owners: as `parts`.
    pub(super) fn with(
        core: &Arc<Core>,
        names: OneOrMany<Names>,
        order: &Order,
        lanes: Lanes,
        parts: &[&[u8]],
    ) -> Self {
        let lanes = if order.replicas.is_some() { Lanes::Synced } else { lanes };
        let participants = Participant::of(core, &names, lanes);
        let owner = Owner::fresh(order.mark(core.fingerprint()));
        let mut hold = Hold::new(Arc::clone(core), names, owner, participants, order);
        parts.iter().for_each(|part| hold.include(part));
        Self { hold: Held::new(hold), settled: false }
    }

    /// A claim that takes over from `held`, whose claim it answers for from here on: with it, what
    /// `held` has on any server is given back too.
    pub(super) fn successor(
        held: &Hold,
        order: &Order,
        relay: Relay,
        line: Arc<dyn Vacate>,
    ) -> Self {
        let participants = held.participants.iter().map(Participant::successor).collect();
        let owner = Owner::fresh(order.mark(held.core.fingerprint()));
        let (core, names) = (Arc::clone(&held.core), held.names.clone());
        let mut hold = Hold::new(core, names, owner, participants, order);
        hold.succeed(held, relay, line);
        Self { hold: Held::new(hold), settled: false }
    }

    /// A claim of one lock of which `held` has something already, by which this one is to have something
    /// else, on the same connections.
    pub(super) fn turned(held: &Hold, sharing: Sharing) -> Self {
        let participants = held.participants.iter().map(Participant::successor).collect();
        let (core, names) = (Arc::clone(&held.core), held.names.clone());
        let order = held.turned(sharing);
        let hold = Hold::new(core, names, held.owner.another(), participants, &order);
        Self { hold: Held::new(hold), settled: false }
    }

    pub(super) fn hold(&self) -> &Held {
        &self.hold
    }

    /// A claim of one lock, whose owner waits in the queue of the lock at one server.
    pub(super) fn queued(core: &Arc<Core>, names: OneOrMany<Names>, order: &Order) -> Self {
        let participants = Participant::of(core, &names, Lanes::Watching);
        let owner = Owner::fresh(order.mark(core.fingerprint()));
        let mut hold = Hold::new(Arc::clone(core), names, owner, participants, order);
        hold.enter_queue();
        Self { hold: Held::new(hold), settled: false }
    }

    /// Asks for another TTL from now.
    pub(super) async fn extend(&self) -> Round {
        if let Some(wanted) = Wanted::of(&self.hold) {
            return Box::pin(sharing::extend(&self.hold, &wanted)).await;
        }
        let owner = &self.hold.owner;
        let ttl = self.hold.key_ms();
        let keys = self.counts();
        let shares = self.hold.shares().zip(keys.iter());
        let parameters: OneOrMany<Parameters<'_>> =
            shares.map(|(names, keys)| extension(names, keys, owner.value(), &ttl)).collect();
        let commands = scripted(scripts::extend(), &parameters);
        let awaits = self.hold.replicas();
        let question =
            Question { awaits, ..Question::own(&commands, Answer::of_extend, Apart::Extend) };
        ask_all(&self.hold, &question, Round::new(&self.hold)).await
    }

    /// Gives the locks back, and waits for what the servers say to it.
    pub(super) async fn release(&self) -> Round {
        match direct::free(&self.hold).await {
            Some(round) => round,
            // On the heap, so that a release of a lock without waiters does not carry the room for it.
            None => Box::pin(self.release_by_script()).await,
        }
    }

    async fn release_by_script(&self) -> Round {
        if self.hold.may_be_awaited() {
            let connections = self.hold.participants.iter().map(|it| it.binding().connection());
            connections.flatten().for_each(|connection| connection.let_others_first());
        }
        let parting = Parting::of(&self.hold);
        let keys: OneOrMany<Decimal> =
            self.hold.shares().map(|names| parting.count(names)).collect();
        let beside: OneOrMany<OneOrMany<Key>> =
            self.hold.shares().map(|names| parting.beside(names)).collect();
        let shares = self.hold.shares().zip(beside.iter()).zip(keys.iter());
        let parameters: OneOrMany<Parameters<'_>> =
            shares.map(|((names, beside), keys)| parting.parameters(names, beside, keys)).collect();
        let commands = scripted(parting.script(), &parameters);
        let question = Question {
            owed_until: Some(pointless_at),
            apart: self.hold.row().is_by_lock.then_some(Apart::Release),
            ..Question::own(&commands, Answer::of_owned, Apart::Release)
        };
        ask_all(&self.hold, &question, Round::new(&self.hold)).await
    }

    /// How many locks each share has.
    fn counts(&self) -> OneOrMany<Decimal> {
        self.hold.shares().map(|names| count(names.len())).collect()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Nothing is left to give back.
    pub(super) fn settle(&mut self) {
        self.settled = true;
    }

    /// Queues the release now.
    pub(super) fn give_back(&mut self) {
        give_back(&self.hold, &|_| true);
        self.settled = true;
    }

    /// Nothing is left to give back but on servers that have not said so in `round`, the release's.
    pub(super) fn settle_after(&mut self, round: &Round) {
        let hold = &self.hold;
        give_back(hold, &|server| !round.is_free_on(server) && !hold.binding(server).is_released);
        self.settled = true;
    }
}

/// What an extension of these locks of one owner says.
pub(super) fn extension<'a>(
    names: &'a [Names],
    keys: &'a [u8],
    owner: &'a [u8],
    ttl: &'a [u8],
) -> Parameters<'a> {
    let mut parameters = Parameters::of_keys(keys);
    parameters.extend(names.iter().map(Names::lock));
    parameters.extend(names.iter().flat_map(|_| [owner, ttl]));
    parameters
}

/// From when on there is nothing left to release.
fn pointless_at(hold: &Hold) -> Moment {
    pointless_after(hold.key_life())
}

fn pointless_after(key_life: Duration) -> Moment {
    clock::now().after(key_life + FROZEN_MAX)
}

/// Queues the release on servers that may have been asked and are owed it, and where an acquire may
/// still arrive behind the release that was answered.
pub(super) fn give_back(hold: &Hold, is_owed: &dyn Fn(usize) -> bool) {
    if hold.is_left_to_expire() {
        return;
    }
    free(hold, is_owed, &Parting::of(hold), hold.key_life());
}

/// The same of what the one before it had.
pub(super) fn give_back_predecessor(hold: &Hold, is_owed: &dyn Fn(usize) -> bool) {
    let parting = Parting::of_owners([None, hold.predecessor()], None, false);
    free(hold, is_owed, &parting, hold.key_life());
}

/// Queues a parting of keys that live for this long at most.
pub(super) fn free(
    hold: &Hold,
    is_owed: &dyn Fn(usize) -> bool,
    parting: &Parting<'_>,
    key_life: Duration,
) {
    // The clock is not read where nothing is owed.
    let pointless_at = LazyCell::new(|| pointless_after(key_life));
    for (server, participant) in hold.participants.iter().enumerate() {
        let is_owed = is_owed(server);
        let mut binding = participant.binding();
        let is_doubtful = binding.is_doubtful();
        if !is_owed && !is_doubtful {
            continue;
        }
        let began_on = binding.connection.clone();
        // A lease that was granted, or the one before it, may have left the connection that it was
        // on, and have no other.
        let was_held = hold.was_granted() || hold.predecessor().is_some();
        if began_on.is_none() && !was_held {
            continue;
        }
        let again = Redelivery::new(*pointless_at, binding.is_unanswered || is_doubtful);
        let is_moved = binding.follow(hold.place_of(participant), participant.slot);
        let (node, lane) = (Arc::clone(&binding.node), binding.lane());
        drop(binding);
        let names = hold.names_at(server);
        let beside = parting.beside(names);
        let keys = parting.count(names);
        let parameters = parting.parameters(names, &beside, &keys);
        let release = Command::Script(parting.script(), parameters.words());
        let began_on = began_on.as_deref().filter(|_| !is_moved && !is_doubtful);
        began_on.filter(|_| hold.may_be_awaited()).inspect(|on| on.let_others_first());
        node.owe(lane, began_on, participant.slot, release, again);
    }
}

/// Queues the release; neither blocks nor panics, and needs no runtime.
impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled {
            self.hold.withdraw();
            self.give_back();
        }
        self.hold.vacate();
    }
}
