//! A held lease, as its holder uses it.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
#[cfg(feature = "tokio-util")]
use tokio::task::AbortHandle;

use super::locker::Locker;
use super::outcome;
use crate::clock;
use crate::driver::Shared;
use crate::error::{Error, Report, ServerReport, Vote};
use crate::machine::{LeaseId, Machine};
use crate::names::Names;
use crate::policy::{End, LeaseState, Loss, Moment};
use crate::race::{First, race};
use crate::stats::{Counter, Event};

/// The machine's facts of a granted lease.
#[derive(Clone, Copy)]
pub(super) struct Granted {
    token: u64,
    round_trip: Option<Duration>,
}

impl Granted {
    pub(super) fn of(machine: &Machine, id: LeaseId) -> Self {
        Self { token: machine.token(id), round_trip: machine.round_trip(id) }
    }
}

/// Dropping it releases the lock, without waiting.
pub(crate) struct Lease {
    pub(super) locker: Locker,
    pub(super) id: LeaseId,
    pub(super) names: Names,
    /// Its further locks.
    #[cfg(any(test, feature = "groups"))]
    pub(super) also: Box<[Names]>,
    /// When the holder's request returned; the default until then.
    pub(super) granted_at: Moment,
    /// The answers that granted it. From one server only the round trip is kept, in microseconds and at least one, as a
    /// lease may last for long.
    pub(super) granted_by: Option<Box<Report>>,
    round_trip: Option<NonZeroU32>,
    token: u64,
    is_held: bool,
    is_forgotten: bool,
}

impl Lease {
    /// The lease of a request: not held yet.
    pub(super) fn new(locker: Locker, id: LeaseId, names: Names) -> Self {
        Self {
            locker,
            id,
            names,
            #[cfg(any(test, feature = "groups"))]
            also: Box::default(),
            granted_at: Moment::default(),
            granted_by: None,
            round_trip: None,
            token: 0,
            is_held: false,
            is_forgotten: false,
        }
    }

    /// Notes the grant.
    pub(super) fn is_granted(&mut self, granted: Granted) {
        let Granted { token, round_trip } = granted;
        self.token = token;
        let micros = |trip: Duration| u32::try_from(trip.as_micros()).unwrap_or(u32::MAX).max(1);
        self.round_trip = round_trip.map(micros).and_then(NonZeroU32::new);
        let driver = &self.locker.driver;
        self.granted_by = (!driver.has_one_link()).then(|| Box::new(driver.report(self.id)));
        self.granted_at = clock::now();
        self.is_held = true;
    }

    /// Lets the machine report what happens to the lease, a loss before the grant's report included.
    pub(super) fn is_announced(&self) {
        let (id, driver) = (self.id, &self.locker.driver);
        driver.look(|machine| machine.is_announced(id));
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.names.lock()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let names = std::iter::once(self.name());
        #[cfg(any(test, feature = "groups"))]
        let names = names.chain(self.also.iter().map(Names::lock));
        names
    }

    /// # Errors
    ///
    /// As [`Locker::check_runtime`], unless the lease has ended.
    pub(super) fn check_runtime(&self) -> Result<bool, Error> {
        let is_lost = |wrong| self.loss().map_or(wrong, |loss| self.lost_by(loss));
        self.locker.check_runtime().map_err(is_lost)
    }

    fn lost_by(&self, loss: Loss) -> Error {
        self.of_all(outcome::lost(&self.names, loss))
    }

    /// Names all its locks in an error.
    pub(super) fn of_all(&self, error: Error) -> Error {
        #[cfg(any(test, feature = "groups"))]
        if !self.also.is_empty() {
            let names: Vec<Names> = [&self.names].into_iter().chain(&self.also).cloned().collect();
            return error.named(crate::names::title(&names));
        }
        error
    }

    #[cfg(test)]
    pub(crate) fn owner(&self) -> Option<Vec<u8>> {
        self.locker.driver.look(|machine| machine.owner(self.id).map(<[u8]>::to_vec))
    }

    /// 0 without fencing.
    pub(crate) fn token(&self) -> Option<u64> {
        Some(self.token)
    }

    /// What each server answered when the lease was granted.
    pub(crate) fn report(&self) -> Report {
        if let Some(report) = &self.granted_by {
            return Report::clone(report);
        }
        let server = self.locker.driver.address(0);
        let round_trip = self.round_trip.map(|micros| Duration::from_micros(micros.get().into()));
        Report { servers: vec![ServerReport { server, vote: Vote::Granted, round_trip }] }
    }

    pub(crate) fn remaining(&self) -> Duration {
        let state = self.locker.driver.look(|machine| machine.state(self.id));
        let until = state.and_then(LeaseState::until);
        until.map_or(Duration::ZERO, |until| until.since(clock::now()))
    }

    /// Why it has ended, if it has.
    pub(crate) fn loss(&self) -> Option<Loss> {
        let id = self.id;
        match self.locker.driver.look(|machine| machine.state(id)) {
            Some(LeaseState::Held { until }) if clock::now() < until => None,
            Some(LeaseState::Lost(loss)) => Some(loss),
            // The machine notes the loss, so that every later caller sees it too.
            _ => self.locker.driver.with(|machine, now| machine.loss(id, now)),
        }
    }

    pub(crate) async fn lost(&self) -> Loss {
        is_lost(&self.locker.driver, self.id).await;
        self.loss().unwrap_or(Loss::Expired)
    }

    /// Drops `held` once the lease is lost. Aborting the handle does so as well.
    #[cfg(feature = "tokio-util")]
    pub(crate) fn drop_at_loss(&self, held: impl Send + 'static) -> AbortHandle {
        let (id, driver) = (self.id, self.locker.driver.clone());
        self.locker.driver.spawn(async move {
            is_lost(&driver, id).await;
            drop(held);
        })
    }

    /// The output of `work`, unless the lease ends first.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let loss = match race(pin!(self.lost()), pin!(work)).await {
            First::One(loss) => loss,
            // The lease may have ended in the work's last poll.
            First::Other(output) => match self.loss() {
                None => return Ok(output),
                Some(loss) => loss,
            },
        };
        Err(self.lost_by(loss))
    }

    pub(crate) async fn extend(&self) -> Result<(), Error> {
        self.check_runtime()?;
        let (id, driver) = (self.id, &self.locker.driver);
        let mut step = driver.holds().renew(id);
        let number = driver.with(|machine, now| machine.extend(id, now));
        let is_extended = wait_at(driver, id, |machine, place, context| {
            machine.poll_extended(id, number, place, context)
        });
        let is_extended = is_extended.await;
        let loss = self.loss();
        step.end(match loss {
            Some(_) => "lost",
            None if is_extended => "renewed",
            None => "failed",
        });
        match loss {
            Some(loss) => Err(self.lost_by(loss)),
            None if is_extended => Ok(()),
            None => Err(self.unconfirmed(outcome::EXTENSION)),
        }
    }

    /// The number of replicas that have the lease: see [`Guard::replicated`](crate::Guard::replicated).
    #[cfg(any(test, feature = "replicas"))]
    pub(crate) async fn replicated(&self, replicas: u32, within: Duration) -> Result<u32, Error> {
        self.extend().await?;
        let (id, driver) = (self.id, &self.locker.driver);
        let until = driver.with(|machine, now| machine.counts_until(id, within, now));
        let count = loop {
            driver.wait(Machine::poll_turn).await;
            let asked = driver.with(|machine, now| machine.count(id, replicas, until, now));
            if let Some(round) = asked {
                let count = wait_at(driver, id, |machine, place, context| {
                    machine.poll_counted(id, round, place, context)
                });
                break count.await;
            }
        };
        match self.loss() {
            Some(loss) => Err(self.lost_by(loss)),
            None => count.ok_or_else(|| self.unconfirmed("count of replicas of lock")),
        }
    }

    pub(super) fn unconfirmed(&self, what: &'static str) -> Error {
        let report = self.locker.driver.report(self.id);
        self.of_all(outcome::unconfirmed(what, &self.names, self.locker.quorum(), report))
    }

    /// Says whether the lease is lost; dropping it sends the release.
    pub(crate) fn release_in_background(self) -> Result<(), Error> {
        let Some(loss) = self.loss() else { return Ok(()) };
        let mut step = self.locker.driver.holds().release_asked(self.id, &self.names);
        step.ends(End::Lost(loss));
        Err(self.lost_by(loss))
    }

    pub(crate) async fn release(mut self) -> Result<(), Error> {
        let is_elsewhere = self.check_runtime()?;
        let (id, driver) = (self.id, self.locker.driver.clone());
        let mut step = driver.holds().release_asked(id, &self.names);
        let release = |machine: &mut Machine, now| machine.release(id, now);
        let end = driver.call(is_elsewhere, release, |machine, context| {
            let end = machine.poll_release(id, context);
            self.is_forgotten = end == Poll::Ready(End::Released) && machine.forget_clear(id);
            end
        });
        let end = end.await;
        step.ends(end);
        self.note_end(end);
        match end {
            End::Lost(loss) => Err(self.lost_by(loss)),
            End::Unconfirmed => Err(self.unconfirmed(outcome::RELEASE)),
            _ => Ok(()),
        }
    }

    fn note_end(&mut self, end: End) {
        if !std::mem::replace(&mut self.is_held, false) {
            return;
        }
        self.locker.driver.holds().ends(self.id, end);
        let (meter, name) = (self.locker.driver.meter(), self.names.lock());
        if end == End::HandedOver {
            meter.count_and_tell(Counter::HandedOver, Event::HandedOver { name });
        }
        // A loss was counted when it happened.
        if !matches!(end, End::Lost(_)) {
            meter.note_released(name, clock::now().since(self.granted_at));
        }
    }
}

/// Neither blocks nor panics, and needs no runtime.
impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_forgotten {
            return;
        }
        let (id, is_held) = (self.id, self.is_held);
        let mut step = self.locker.driver.holds().release(id);
        let (loss, is_handed_over) = self.locker.driver.with_drop(|machine, now| {
            let loss = if is_held { machine.loss(id, now) } else { None };
            (loss, machine.forget(id, now))
        });
        let (end, outcome) = match loss {
            Some(loss) => (End::Lost(loss), "lost"),
            None if is_handed_over => (End::HandedOver, "handed_over"),
            None => (End::Released, "queued"),
        };
        step.end(outcome);
        self.note_end(end);
    }
}

/// The place of a caller that waits for the held lease. Dropping it frees the place.
struct Waiting<'a> {
    driver: &'a Arc<Shared>,
    id: LeaseId,
    place: Option<usize>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.driver.look(|machine| machine.waits_no_more(self.id, place));
        }
    }
}

/// Waits for an outcome of the machine; several callers may wait for the same.
async fn wait_at<T>(
    driver: &Arc<Shared>,
    id: LeaseId,
    mut poll: impl FnMut(&mut Machine, &mut Option<usize>, &Context<'_>) -> Poll<T>,
) -> T {
    let mut waiting = Waiting { driver, id, place: None };
    let place = &mut waiting.place;
    driver.wait(|machine, context| poll(machine, place, context)).await
}

/// Waits until the lease is lost; at once if nothing would wake the caller then.
async fn is_lost(driver: &Arc<Shared>, id: LeaseId) {
    let lost = wait_at(driver, id, |machine, place, context| {
        let is_lost = machine.poll_lost(id, place, context, clock::now());
        // A caller on no runtime has no timer.
        let is_deserted = machine.is_undriven && Handle::try_current().is_err();
        if is_deserted { Poll::Ready(()) } else { is_lost }
    });
    lost.await;
}
