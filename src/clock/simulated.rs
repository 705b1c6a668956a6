//! Clients of a simulation, each with clocks of its own, which the simulation can pause.
//!
//! True time is tokio's paused clock. A task belongs to the client that spawned it, and reads that client's clocks; all
//! randomness is from one seed.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::true_time;
use crate::policy::Moment;
use crate::policy::mutants::Mutant;

/// 2026, in microseconds since 1970.
const WALL_ORIGIN: i64 = 1_780_000_000_000_000;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Client>>> = const { RefCell::new(None) };
    static ORIGIN: Cell<Option<Duration>> = const { Cell::new(None) };
    static RANDOM: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes this thread's clocks and randomness those of a simulation, until it is dropped.
pub(crate) struct Simulation(());

impl Simulation {
    /// To be called inside a runtime whose clock is paused.
    pub(crate) fn begin(seed: u64) -> Self {
        ORIGIN.set(Some(true_time()));
        RANDOM.set(Some(seed));
        Self(())
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        ORIGIN.set(None);
        RANDOM.set(None);
    }
}

/// True time since the simulation began.
pub(crate) fn elapsed() -> Duration {
    true_time() - ORIGIN.get().unwrap_or_default()
}

/// A correct wall clock, in microseconds.
pub(crate) fn true_wall() -> i64 {
    WALL_ORIGIN + i64::try_from(elapsed().as_micros()).expect("a simulation is short")
}

pub(super) fn now() -> Option<Moment> {
    ORIGIN.get()?;
    let client = CURRENT.with_borrow(Clone::clone);
    Some(client.map_or_else(|| Moment::from_nanos(nanos(elapsed())), |client| client.shown()))
}

pub(super) fn wall_micros() -> Option<u64> {
    let client = CURRENT.with_borrow(Clone::clone)?;
    let wall = true_wall() + client.wall_ahead_micros.load(Ordering::Relaxed);
    Some(u64::try_from(wall).unwrap_or(0))
}

/// The true time of `span` on the client's clock, which may be faster or slower than tokio's timers.
pub(super) fn true_span(span: Duration) -> Duration {
    CURRENT.with_borrow(|client| client.as_ref().map_or(span, |client| client.true_span(span)))
}

pub(super) fn random_id() -> Option<[u8; 16]> {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&random()?.to_le_bytes());
    id[8..].copy_from_slice(&random()?.to_le_bytes());
    Some(id)
}

/// An owner's id; one for each client with the mutant that reuses owners.
pub(super) fn owner_id() -> Option<[u8; 16]> {
    let client = CURRENT.with_borrow(Clone::clone).filter(|_| Mutant::OwnerReused.is_on());
    let reused = client.map(|client| [u8::try_from(client.number).unwrap_or(0); 16]);
    reused.or_else(random_id)
}

/// Splitmix64.
fn random() -> Option<u64> {
    let state = RANDOM.get()?.wrapping_add(0x9E37_79B9_7F4A_7C15);
    RANDOM.set(Some(state));
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    Some(mixed ^ (mixed >> 31))
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("a simulation is short")
}

/// A process with clocks of its own.
pub(crate) struct Client {
    pub(crate) number: usize,
    /// Its clocks' time when the simulation began.
    booted_before: Duration,
    /// How much faster than true time its clocks are, in millionths.
    drift_ppm: i64,
    wall_ahead_micros: AtomicI64,
    pause: Mutex<Pause>,
}

#[derive(Default)]
struct Pause {
    is_paused: bool,
    since: Duration,
    /// The time that a clock without suspension leaves out.
    total: Duration,
    parked: Vec<Waker>,
}

impl Client {
    pub(crate) fn new(number: usize, booted_before: Duration, drift_ppm: i64) -> Arc<Self> {
        let (wall_ahead_micros, pause) = (AtomicI64::new(0), Mutex::default());
        Arc::new(Self { number, booted_before, drift_ppm, wall_ahead_micros, pause })
    }

    /// The client of the current task.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Its clock, suspension included.
    pub(crate) fn now(&self) -> Moment {
        let span = nanos(elapsed());
        let drift = i64::try_from(span / 1_000_000).expect("it is short") * self.drift_ppm;
        Moment::from_nanos(
            nanos(self.booted_before).saturating_add(span).saturating_add_signed(drift),
        )
    }

    /// The clock as the library sees it.
    fn shown(&self) -> Moment {
        let now = self.now().as_nanos();
        if Mutant::WallClockDeadline.is_on() {
            let ahead = self.wall_ahead_micros.load(Ordering::Relaxed) * 1000;
            return Moment::from_nanos(now.saturating_add_signed(ahead));
        }
        if Mutant::ClockStopsInSuspension.is_on() {
            return Moment::from_nanos(now - nanos(self.stood_still()));
        }
        Moment::from_nanos(now)
    }

    /// The true time of `span` on its clock, rounded up, so that a timer never rings early.
    pub(crate) fn true_span(&self, span: Duration) -> Duration {
        let rate = u128::from(1_000_000_u64.saturating_add_signed(self.drift_ppm));
        let truth = (span.as_nanos().saturating_mul(1_000_000)).div_ceil(rate);
        Duration::from_nanos(u64::try_from(truth).unwrap_or(u64::MAX))
    }

    pub(crate) fn step_wall(&self, micros: i64) {
        self.wall_ahead_micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn pause(&self) -> MutexGuard<'_, Pause> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pause().is_paused
    }

    /// The total time of its pauses.
    pub(crate) fn stood_still(&self) -> Duration {
        self.pause().total
    }

    /// Pauses all its tasks until [`Client::resume`].
    pub(crate) fn stop(&self) {
        let mut pause = self.pause();
        (pause.is_paused, pause.since) = (true, elapsed());
    }

    pub(crate) fn resume(&self) {
        let mut pause = self.pause();
        if std::mem::take(&mut pause.is_paused) {
            let since = pause.since;
            pause.total += elapsed() - since;
        }
        let parked = std::mem::take(&mut pause.parked);
        drop(pause);
        parked.into_iter().for_each(Waker::wake);
    }

    fn parks(&self, waker: &Waker) -> bool {
        let mut pause = self.pause();
        if pause.is_paused {
            pause.parked.push(waker.clone());
        }
        pause.is_paused
    }

    /// Runs `task` as one of this client's.
    pub(crate) fn run<F: Future>(self: &Arc<Self>, task: F) -> Owned<F> {
        Owned { client: Some(Arc::clone(self)), task: Some(Box::pin(task)) }
    }
}

/// A task that belongs to a client.
pub(crate) struct Owned<F> {
    client: Option<Arc<Client>>,
    task: Option<Pin<Box<F>>>,
}

/// Makes `task` one of the current task's client.
pub(super) fn owned<F: Future>(task: F) -> Owned<F> {
    Owned { client: CURRENT.with_borrow(Clone::clone), task: Some(Box::pin(task)) }
}

impl<F: Future> Future for Owned<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { client, task } = &mut *self;
        if client.as_ref().is_some_and(|client| client.parks(context.waker())) {
            return Poll::Pending;
        }
        let _scope = Scope::enter(client.clone());
        task.as_mut().expect("it is there until it is dropped").as_mut().poll(context)
    }
}

impl<F> Drop for Owned<F> {
    fn drop(&mut self) {
        let _scope = Scope::enter(self.client.take());
        self.task = None;
    }
}

struct Scope(Option<Arc<Client>>);

impl Scope {
    fn enter(client: Option<Arc<Client>>) -> Self {
        Self(CURRENT.replace(client))
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // A runtime may be dropped together with its thread.
        let _ = CURRENT.try_with(|current| current.replace(self.0.take()));
    }
}
