//! A lease that was granted: kept, given back, or handed to the next one in this process.

mod passing;
mod replicated;
#[cfg(any(test, feature = "takeover"))]
mod ticketing;
#[cfg(any(test, feature = "sharing"))]
mod turning;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::acquire_mode::Taking;
use super::attempt::{Attempting, Bid, Granted};
use super::claim::{Claim, give_back_predecessor};
use super::engine::Engine;
use super::granted_by::GrantedBy;
use super::hold::Hold;
use super::likely::Fact;
use super::lines::HandOver;
use super::names::Names;
use super::participant::Participant;
use super::round::Round;
use crate::clock;
use crate::error::{Error, Kind, Report};
use crate::policy::{
    Backoff, End, LeaseState, Loss, Moment, Relay, Setback, Tick, TimerKey, Verdict,
};
use crate::race::{First, race};
use crate::spans::Step;

/// A caller that waits longer than this for a loss is told of it by a server. Most leases are given
/// back sooner, and cost the server nothing.
const ARMING: Backoff =
    Backoff { first: Duration::from_millis(40), longest: Duration::from_millis(640) };
/// Maximum looks at whether the servers watch the lease.
const ARMING_TRIES: u32 = 8;

pub(crate) struct Lease {
    engine: Arc<Engine>,
    claim: Claim,
    /// Its place with the keeper.
    entry: TimerKey,
    granted_by: GrantedBy,
}

impl Lease {
    /// From here on the lease is kept.
    pub(super) fn begin(engine: &Arc<Engine>, granted: Granted) -> Self {
        let Granted { claim, round, asked_at } = granted;
        let hold = claim.hold();
        let ends_at = hold.ends_at().unwrap_or(asked_at);
        let due = match hold.is_renewed {
            false => ends_at,
            // What was granted by a server whose place another has taken is asked for there.
            true if hold.has_moved() => asked_at,
            true => hold.renew_at(asked_at),
        };
        let entry = engine.keeper().keep(hold.clone(), due);
        Self { engine: Arc::clone(engine), claim, entry, granted_by: GrantedBy::new(round) }
    }

    pub(super) fn hold(&self) -> &Hold {
        self.claim.hold()
    }

    pub(super) fn granted_at(&self) -> Moment {
        self.hold().granted_at()
    }

    pub(crate) fn report(&self) -> Report {
        self.granted_by.report(self.hold())
    }

    /// Its holder knows of it.
    pub(crate) fn begin_rest(&self) {
        self.hold().begin_rest();
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.hold().token()
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.hold().name()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.hold().names.iter().map(Names::lock)
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.hold().remaining()
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.hold().loss()
    }

    pub(crate) async fn lost(&self) -> Loss {
        match race(pin!(self.hold().lost()), pin!(self.arm())).await {
            First::One(loss) => loss,
            First::Other(()) => self.hold().lost().await,
        }
    }

    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        match race(pin!(self.lost()), pin!(work)).await {
            First::One(loss) => Err(self.lost_by(loss)),
            // What ended in the last poll of the work has been told by nobody yet.
            First::Other(output) => match self.loss() {
                None => Ok(output),
                Some(loss) => Err(self.lost_by(loss)),
            },
        }
    }

    /// Sees to it that a server tells of the loss: what is renewed over a connection on which it
    /// does, it watches.
    async fn arm(&self) {
        let hold = self.hold();
        if !hold.is_renewed || !hold.row().is_by_lock {
            return;
        }
        for tried in 0..ARMING_TRIES {
            tokio::time::sleep(ARMING.delay(tried, u64::MAX)).await;
            let unarmed: Vec<bool> =
                hold.participants.iter().filter_map(Participant::unarmed).collect();
            if unarmed.is_empty() {
                hold.listen(self.entry);
                return;
            }
            if unarmed.contains(&true) {
                self.engine.keeper().hasten(self.entry);
            }
        }
    }

    pub(crate) async fn extend(&self) -> Result<(), Error> {
        if let Some(loss) = self.loss() {
            return Err(self.lost_by(loss));
        }
        let mut step = self.hold().span.renew();
        let round = self.claim.extend().await;
        let hold = self.hold();
        if round.proves_lost(hold) {
            hold.lose(hold.core.gone());
        } else if let (Verdict::Won, Some(asked_at)) = (round.verdict, round.asked_at()) {
            hold.prolong(hold.term.deadline(asked_at));
        } else if hold.loss().is_none() {
            step.end("failed");
            return Err(self.failed(&round));
        }
        let loss = hold.loss();
        step.end(if loss.is_some() { "lost" } else { "renewed" });
        loss.map_or(Ok(()), |loss| Err(self.lost_by(loss)))
    }

    pub(crate) async fn release(mut self) -> Result<(), Error> {
        let mut step = self.hold().span.release();
        let now = clock::now();
        let until = self.hold().ends_at();
        let state = match self.end(now) {
            state @ LeaseState::Lost(why)
                if why == Loss::ShutDown || self.hold().is_left_to_expire() =>
            {
                self.claim.settle();
                state
            }
            LeaseState::Releasing if self.hand_over(until, now) => {
                step.end("handed_over");
                self.hold().state()
            }
            _ => {
                let round = self.claim.release(now).await;
                self.conclude(&round, step)?
            }
        };
        state.loss().map_or(Ok(()), |loss| Err(self.lost_by(loss)))
    }

    /// What the servers' word on the release comes to: how the lease stands then.
    fn conclude(&mut self, round: &Round, mut step: Step) -> Result<LeaseState, Error> {
        let was_held = round.verdict == Verdict::Won;
        if !was_held && !round.proves_lost(self.hold()) {
            // The claim is dropped unsettled: the release is queued once more.
            step.end("unconfirmed");
            self.hold().conclude(End::Unconfirmed);
            return Err(self.failed(round));
        }
        self.claim.settle_after(round);
        let hold = self.hold();
        self.engine.lines().free(hold);
        let end = if was_held { End::Released } else { End::Lost(hold.core.gone()) };
        let state = hold.conclude_at(end, round.answered_at());
        step.end(if state.is_given_back() { "released" } else { "lost" });
        Ok(state)
    }

    /// The release is queued where the lease is dropped.
    pub(crate) fn release_later(self) -> Result<(), Error> {
        self.loss().map_or(Ok(()), |loss| Err(self.lost_by(loss)))
    }

    /// Gives back what nobody was told of, wherever it still is its owner's.
    pub(super) fn withdraw(mut self) {
        self.end(clock::now());
        self.hold().conclude(End::Withdrawn);
        self.claim.give_back();
    }

    /// It is kept no longer, and held no longer: how it stands.
    fn end(&self, now: Moment) -> LeaseState {
        self.engine.keeper().forget(self.entry);
        self.hold().leave(now)
    }

    /// Hands the lock to the next one in this process, if there is one and it is its turn: with the lease that
    /// ends at `until`, or else by a server.
    ///
    /// Then its acquire is sent from here, in the place of the release, and its claim answers from here
    /// on for what this one has; what is left to do is to await the replies, which it does itself.
    fn hand_over(&mut self, until: Option<Moment>, now: Moment) -> bool {
        if self.engine.lines().are_none() {
            return false;
        }
        let hold = self.claim.hold().clone();
        let core = &hold.core;
        let [names] = &hold.names[..] else { return false };
        if core.is_shut_down() || !hold.is_connected() || hold.rest().is_some() || hold.leads() {
            return false;
        }
        if !hold.row().is_by_lock || is_due_elsewhere(&hold, names, now) {
            return false;
        }
        if self.pass_on(until, now) {
            return true;
        }
        if Handle::try_current().is_err() {
            return false;
        }
        let lines = self.engine.lines();
        // What is awaited may need a timer, which the runtime of the releasing task may not have.
        let _timers = core.runtime().enter();
        let (relay, taking) = match hold.relay().next(now) {
            Some(relay) => (relay, Taking::Take),
            // Goes on if nobody waits elsewhere: a single server knows.
            None if core.is_single() => (Relay::begin(), Taking::Turn),
            None => return false,
        };
        let Some(place) = lines.next(names, |_| true) else { return false };
        let successor = Claim::successor(&hold, &place.order, relay, lines.clone());
        lines.occupy(names, successor.hold(), &place);
        // What the one before this left where this one was not let in, or may not have been, the next knows
        // nothing of.
        give_back_predecessor(&hold, &|server| !hold.binding(server).is_granted);
        self.claim.settle();
        hold.conclude_at(End::HandedOver, now);
        let (is_fenced, limit) = (place.order.is_fenced, place.limit);
        let begun_at = now;
        let bid =
            Bid { is_fenced, is_fair: false, taking, lead: None, turn: None, limit, begun_at };
        let mut lock: HandOver = Box::pin(Attempting::new(successor, bid));
        // The first poll sends; the task that is handed the rest polls it again.
        if let Poll::Ready(done) = lock.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            lock = Box::pin(std::future::ready(done));
        }
        // Where nobody is there to take it any more, it goes back with what is dropped here.
        drop(place.hand(lock));
        true
    }

    /// Queues its release.
    fn give_back(&mut self) {
        self.hold().conclude(End::Released);
        self.claim.give_back();
        self.engine.lines().free(self.hold());
    }

    fn lost_by(&self, loss: Loss) -> Error {
        Error::new(Kind::Lost(loss), self.hold().title(), Report::default())
    }

    fn failed(&self, round: &Round) -> Error {
        let hold = self.hold();
        let is_final = round.setback(hold) == Setback::Hopeless;
        let kind = Kind::NoQuorum { waited: None, is_final };
        Error::new(kind, hold.title(), round.report(hold))
    }
}

/// Whether others were in the queue of the lock a moment ago, and a hand-over by the server costs little beside the
/// hold.
fn is_due_elsewhere(hold: &Hold, names: &Names, now: Moment) -> bool {
    let tick = Tick::of(now);
    let was_queued = |tick| hold.core.likely().has(names.lock(), Fact::Queued(tick));
    let is_short = Relay::is_short(now.since(hold.granted_at()));
    !is_short && hold.core.is_single() && (was_queued(tick) || was_queued(tick.before()))
}

/// Hands the lock over or queues its release; neither blocks nor panics, and needs no runtime.
impl Drop for Lease {
    fn drop(&mut self) {
        if self.claim.is_settled() {
            return;
        }
        // A release whose reply is not known, or was not waited for, is queued once more.
        if let LeaseState::Releasing | LeaseState::Released = self.hold().state() {
            return self.give_back();
        }
        let mut step = self.hold().span.release();
        let now = clock::now();
        let until = self.hold().ends_at();
        match self.end(now) {
            LeaseState::Lost(Loss::ShutDown) => self.claim.settle(),
            LeaseState::Releasing if self.hand_over(until, now) => step.end("handed_over"),
            _ => {
                step.end("queued");
                self.give_back();
            }
        }
    }
}
