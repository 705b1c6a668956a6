//! One owner's hold on its locks: what a claim, its lease, and the keeper of leases share.

mod kept;
mod origin;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;

use super::bell::Bell;
use super::core::Core;
use super::ended::Ended;
use super::life::Life;
use super::names::{Names, title};
use super::one_or_many::OneOrMany;
use super::order::Order;
use super::owner::Owner;
use super::participant::{Binding, Participant};
use super::rare::Rare;
use crate::clock;
use crate::policy::{
    Bounds, End, LeaseEvent, LeaseState, Loss, Moment, Quorum, Term, TimerKey, look_at, renew_at,
};
use crate::race::timeout;
use crate::server::place::Place;
use crate::spans::HoldSpan;

pub(crate) struct Hold {
    pub(super) core: Arc<Core>,
    /// The locks: one, nearly always.
    pub(super) names: OneOrMany<Names>,
    pub(super) owner: Owner,
    pub(super) term: Term,
    /// Where it is with each server.
    pub(super) participants: OneOrMany<Participant>,
    /// Whether it is renewed until it is given back.
    pub(super) is_renewed: bool,
    /// Its lease goes on with another holder.
    is_passed_on: AtomicBool,
    rare: Option<Box<Rare>>,
    life: Life,
    /// The fencing token; 0 where there is none.
    token: AtomicU64,
    granted_at: AtomicU64,
    /// When it was, or will be, looked after because a server told that something happened to it.
    looked_at: AtomicU64,
    /// Renewals in a row that came to nothing.
    failed_renewals: AtomicU32,
    /// Rung at its loss.
    bell: Bell,
    /// Its entry with the keeper, once servers tell of changes to its keys.
    pub(super) told_as: OnceLock<TimerKey>,
    pub(super) span: HoldSpan,
}

impl Hold {
    pub(super) fn new(
        core: Arc<Core>,
        names: OneOrMany<Names>,
        owner: Owner,
        participants: OneOrMany<Participant>,
        order: &Order,
    ) -> Self {
        let Order { term, is_renewed, bounds, ref seize, sharing, is_part, .. } = *order;
        let leads = order.priority.is_some();
        let is_asked_for = seize.is_some() || sharing.is_some();
        let is_rare = is_asked_for || !bounds.are_none() || leads || is_part;
        let seize = || seize.clone();
        let rare = || Rare { bounds, seize: seize(), sharing, leads, is_part, ..Rare::default() };
        Self {
            core,
            names,
            owner,
            term,
            participants,
            is_renewed,
            is_passed_on: AtomicBool::new(false),
            rare: is_rare.then(|| Box::new(rare())),
            life: Life::new(),
            token: AtomicU64::new(0),
            granted_at: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            failed_renewals: AtomicU32::new(0),
            bell: Bell::default(),
            told_as: OnceLock::new(),
            span: HoldSpan::default(),
        }
    }

    /// See [`Order::is_part`].
    pub(super) fn is_part(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_part)
    }

    /// It was granted, with a token if one was asked for.
    pub(super) fn begin(&self, until: Moment, token: Option<u64>, now: Moment) {
        self.token.store(token.unwrap_or(0), Ordering::Relaxed);
        self.granted_at.store(now.as_nanos(), Ordering::Relaxed);
        self.happens(LeaseEvent::Granted { until: self.bounds().cut(now, until) }, now);
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.rare.as_ref().map_or_else(Bounds::default, |rare| rare.bounds)
    }

    /// When to renew it that was last asked for at `asked_at`: not before its end, where it may last
    /// no longer.
    pub(super) fn renew_at(&self, asked_at: Moment) -> Moment {
        let last = |until: &Moment| self.bounds().are_reached(self.granted_at(), *until);
        let ends_at = if self.bounds().are_none() { None } else { self.ends_at() };
        ends_at.filter(last).unwrap_or_else(|| renew_at(asked_at, self.term.ttl()))
    }

    pub(super) fn token(&self) -> Option<u64> {
        Some(self.token.load(Ordering::Relaxed)).filter(|token| *token != 0)
    }

    pub(super) fn granted_at(&self) -> Moment {
        Moment::from_nanos(self.granted_at.load(Ordering::Relaxed))
    }

    pub(super) fn held_for(&self, now: Moment) -> Duration {
        now.since(self.granted_at())
    }

    /// The lock's name, or the first of several; as events show it.
    pub(super) fn name(&self) -> &[u8] {
        self.names[0].lock()
    }

    /// The locks, for errors.
    pub(super) fn title(&self) -> String {
        title(&self.names)
    }

    /// A server tells at `now` that something happened to it: when to look after it, unless that is
    /// planned.
    pub(super) fn note_told(&self, now: Moment) -> Option<Moment> {
        let due = look_at(now, self.looked_at(), self.term.ttl())?;
        self.looked_at.store(due.as_nanos(), Ordering::Relaxed);
        Some(due)
    }

    /// When something is due that was to be at `due`: no later than a look that is planned.
    pub(super) fn due(&self, due: Moment, now: Moment) -> Moment {
        Some(self.looked_at()).filter(|look| *look > now).map_or(due, |look| look.min(due))
    }

    fn looked_at(&self) -> Moment {
        Moment::from_nanos(self.looked_at.load(Ordering::Relaxed))
    }

    /// How long it is to its end; once zero, it is lost.
    pub(super) fn remaining(&self) -> Duration {
        let now = clock::now();
        let until = self.happens(LeaseEvent::Passed, now).until();
        until.map_or(Duration::ZERO, |until| until.since(now))
    }

    /// When it ends, as far as is known; none where it is not held.
    pub(super) fn ends_at(&self) -> Option<Moment> {
        self.life.state().until()
    }

    pub(super) fn state(&self) -> LeaseState {
        self.life.state()
    }

    /// Why it is lost, if it is.
    pub(super) fn loss(&self) -> Option<Loss> {
        self.happens(LeaseEvent::Passed, clock::now()).loss()
    }

    /// Moves its end to `until`, if that is later and it is held; whether it is.
    pub(super) fn prolong(&self, until: Moment) -> bool {
        let until = self.bounds().cut(self.granted_at(), until);
        self.happens(LeaseEvent::Extended { until }, clock::now()).is_held()
    }

    /// It is lost, if it is held.
    pub(super) fn lose(&self, why: Loss) {
        self.happens(LeaseEvent::Lost(why), clock::now());
    }

    /// Its holder gives it back, if it is held; how it stands then.
    pub(super) fn leave(&self, now: Moment) -> LeaseState {
        self.happens(LeaseEvent::Release, now)
    }

    /// Servers gave its holder nothing in its place: it is held on.
    pub(super) fn stay(&self, until: Moment) {
        self.happens(LeaseEvent::Stays { until }, clock::now());
    }

    /// What became of giving it back; how it stands then.
    pub(super) fn conclude(&self, end: End) -> LeaseState {
        self.conclude_at(end, clock::now())
    }

    /// The same, known at `now`.
    pub(super) fn conclude_at(&self, end: End, now: Moment) -> LeaseState {
        self.happens(LeaseEvent::Ended(end), now)
    }

    /// Its lease goes on with another holder from here on: nothing of it is this one's to give back.
    pub(super) fn note_passed_on(&self, now: Moment) {
        self.is_passed_on.store(true, Ordering::Relaxed);
        self.conclude_at(End::HandedOver, now);
    }

    /// It is given back by a request that told nobody of it.
    pub(super) fn withdraw(&self) {
        let now = clock::now();
        self.happens(LeaseEvent::Release, now);
        self.happens(LeaseEvent::Ended(End::Withdrawn), now);
    }

    /// Sends what may be sent only while it is held: see [`Life::while_held`].
    pub(super) fn while_held<T>(&self, send: impl FnOnce() -> T) -> Option<T> {
        self.life.while_held(clock::now(), send)
    }

    /// The one way of its state: makes the transition, and tells of what is new.
    fn happens(&self, event: LeaseEvent, now: Moment) -> LeaseState {
        let overdue = |until| match self.bounds().are_reached(self.granted_at(), until) {
            true => Loss::HeldLongest,
            false => self.core.why_ended(now),
        };
        let (before, after) = self.life.happens(event, now, overdue);
        match (before.is_held(), after.next.is_held()) {
            (false, true) => self.core.meter().note_lease_began(),
            (true, false) => self.core.meter().note_lease_ended(),
            _ => {}
        }
        if let Some(end) = after.end {
            self.tell(end, now);
        }
        after.next
    }

    fn tell(&self, end: End, now: Moment) {
        let meter = self.core.meter();
        match end {
            End::Lost(why) => {
                self.bell.ring();
                meter.note_lost(self.name(), why);
                self.vacate();
            }
            End::HandedOver => meter.note_handed_over(self.name()),
            End::Ticketed => meter.note_ticketed(self.name()),
            End::Released | End::Unconfirmed | End::Withdrawn => {}
        }
        self.span.ends(&self.names, end);
        if !matches!(end, End::Lost(_) | End::Withdrawn) {
            meter.note_released(self.name(), self.held_for(now));
        }
    }

    /// Waits for its loss.
    ///
    /// The timer here needs no reply and nobody else; it is there for a locker whose runtime is
    /// gone. The keeper of leases notices a machine that was suspended.
    pub(super) async fn lost(&self) -> Loss {
        let bell = self.bell.heard();
        loop {
            let mut told = std::pin::pin!(bell.notified());
            told.as_mut().enable();
            if let Some(loss) = self.loss() {
                return loss;
            }
            let _ = timeout(self.remaining(), told).await;
        }
    }

    pub(super) fn note_renewed(&self, round_trip: Duration) {
        self.failed_renewals.store(0, Ordering::Relaxed);
        self.core.meter().note_renewed(self.name(), round_trip);
    }

    /// How many renewals in a row had come to nothing before this one.
    pub(super) fn note_renewal_failed(&self) -> u32 {
        self.core.meter().note_renewal_failed(self.name());
        self.failed_renewals.fetch_add(1, Ordering::Relaxed)
    }

    /// From here on the keeper looks after it, as `entry`, once a server tells of its locks.
    pub(super) fn listen(&self, entry: TimerKey) {
        self.told_as.get_or_init(|| {
            self.names
                .iter()
                .for_each(|names| self.core.watchers().kept().add(names.lock(), entry));
            entry
        });
    }

    /// Whether a server has said that it let the owner in, to all locks that are with it or to some.
    pub(super) fn is_let_in(&self) -> bool {
        self.participants.iter().any(|participant| participant.binding().is_granted)
    }

    /// Whether every server that it is with can be told something right now.
    pub(super) fn is_connected(&self) -> bool {
        (0..self.participants.len()).all(|server| {
            self.binding(server).connection.as_ref().is_none_or(|connection| connection.is_alive())
        })
    }

    /// Whether a server that it is with does not serve its keys any more.
    pub(super) fn has_moved(&self) -> bool {
        self.participants
            .iter()
            .any(|participant| participant.has_moved(self.place_of(participant)))
    }

    pub(super) fn binding(&self, server: usize) -> MutexGuard<'_, Binding> {
        self.participants[server].binding()
    }

    /// How many of its servers have to agree: where its locks are spread over several, all.
    pub(super) fn quorum(&self) -> Quorum {
        if self.is_spread() { Quorum::all(self.participants.len()) } else { self.core.quorum() }
    }

    /// Whether each server has only some of its locks.
    pub(super) fn is_spread(&self) -> bool {
        self.participants.len() > self.core.places().len()
    }

    /// Whether one server decides about its locks alone.
    pub(super) fn is_alone(&self) -> bool {
        self.core.is_single() && !self.is_spread()
    }

    /// The locks that are with one server.
    pub(super) fn names_at(&self, server: usize) -> &[Names] {
        let names = &self.names[..];
        if names.len() == 1 || !self.is_spread() {
            return names;
        }
        let end = self.participants.get(server + 1).map_or(names.len(), Participant::first_name);
        &names[self.participants[server].first_name()..end]
    }

    /// Where the server of a participant is to be found.
    pub(super) fn place_of(&self, participant: &Participant) -> &Place {
        &self.core.places()[participant.place()]
    }

    /// The locks of each server that has its own; of one of them where all have the same.
    pub(super) fn shares(&self) -> impl Iterator<Item = &[Names]> {
        let shares = if self.is_spread() { self.participants.len() } else { 1 };
        (0..shares).map(|server| self.names_at(server))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // No server has to tell of it any more.
        if let Some(entry) = self.told_as.get() {
            let kept = self.core.watchers().kept();
            self.names.iter().for_each(|names| kept.remove(names.lock(), *entry));
        }
        let Some(recently_ended) = self.core.recently_ended() else { return };
        // What was refused everywhere left nothing to give back.
        let is_over = self.state() != LeaseState::Acquiring && !self.is_left_to_expire();
        if is_over && !*self.is_passed_on.get_mut() {
            recently_ended.add(Ended {
                owner: std::mem::replace(&mut self.owner, Owner::NOBODY),
                names: std::mem::replace(&mut self.names, OneOrMany::Many(Vec::new())),
                key_life: self.key_life(),
                sharing: self.sharing(),
                rest: self.rare.take().and_then(|rare| rare.rest.into_inner()),
                at: clock::now(),
            });
        }
    }
}
