//! What an owner may hold on the servers, and the promise to give it back.
//!
//! A claim exists from before the first byte of an acquire is sent. Whatever ends it (a refusal, a
//! cancelled future, a dropped guard) queues a release on every server that may have been asked,
//! also on those that refused, failed or timed out, each over the connection that the claim began
//! on; unless something proves that nothing is left to give back.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use super::core::Core;
use super::direct;
use super::extend_call::ExtendCall;
use super::fanout::ask_all;
use super::held::Held;
use super::hold::Hold;
use super::names::Names;
use super::one_or_many::OneOrMany;
use super::order::Order;
use super::owner::Owner;
use super::parameters::Parameters;
use super::participant::{Lanes, Participant};
use super::parting::{Parting, ReleaseCall};
use super::question::{Apart, Question, scripted};
use super::rare::Vacate;
use super::round::Round;
use super::row::Sharing;
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

    /// A claim that goes on with the lease of `held`, and answers for it from here on.
    pub(super) fn heir(held: &Hold, order: &Order, relay: Relay, line: Arc<dyn Vacate>) -> Self {
        let participants = held.participants.iter().map(Participant::heir).collect();
        let (core, names) = (Arc::clone(&held.core), held.names.clone());
        let mut hold = Hold::new(core, names, held.owner.clone(), participants, order);
        hold.inherit(held, relay, line);
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
        let hold = &*self.hold;
        let calls: OneOrMany<ExtendCall<'_>> = hold
            .shares()
            .enumerate()
            .map(|(server, _)| ExtendCall::of(std::iter::once((hold, server))))
            .collect();
        let parameters: OneOrMany<Parameters<'_>> =
            calls.iter().map(ExtendCall::parameters).collect();
        let commands = scripted((hold.row().extend)(), &parameters);
        let question = Question::own(hold, &commands, Answer::of_extend, Apart::Extend);
        ask_all(hold, &question, Round::new(hold)).await
    }

    /// Gives the locks back at `now`, and waits for what the servers say to it.
    pub(super) async fn release(&self, now: Moment) -> Round {
        match direct::free(&self.hold, now).await {
            Some(round) => round,
            // On the heap, so that a release of a lock without waiters does not carry the room for it.
            None => Box::pin(self.release_by_script()).await,
        }
    }

    async fn release_by_script(&self) -> Round {
        let hold = &*self.hold;
        if hold.may_be_awaited() {
            let connections = hold.participants.iter().map(|it| it.binding().connection());
            connections.flatten().for_each(|connection| connection.let_others_first());
        }
        let parting = Parting::of(hold);
        let calls: OneOrMany<ReleaseCall<'_>> =
            hold.shares().map(|names| parting.from(names)).collect();
        let parameters: OneOrMany<Parameters<'_>> =
            calls.iter().map(ReleaseCall::parameters).collect();
        let commands = scripted(parting.script(), &parameters);
        let question = Question {
            owed_until: Some(pointless_at),
            ..Question::own(hold, &commands, Answer::of_owned, Apart::Release)
        };
        ask_all(hold, &question, Round::new(hold)).await
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

/// The same of what the one before it had, if there was one.
pub(super) fn give_back_predecessor(hold: &Hold, is_owed: &dyn Fn(usize) -> bool) {
    if hold.predecessor().is_none() {
        return;
    }
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
        if !binding.is_exposed() {
            continue;
        }
        let began_on = binding.connection.clone();
        let again = Redelivery::new(*pointless_at, binding.is_unanswered || is_doubtful);
        let is_moved = binding.follow(hold.place_of(participant), participant.slot);
        let (node, lane) = (Arc::clone(&binding.node), binding.lane());
        drop(binding);
        let release = parting.from(hold.names_at(server));
        let parameters = release.parameters();
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
