//! A caller on another runtime than the driver's has a timer of its own: perhaps the driver's runtime is not driven, and
//! limits hold anyway (safety rule 14).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::RuntimeFlavor;
#[cfg(feature = "tokio-util")]
use tokio::task::AbortHandle;

use super::{Shared, WRITTEN_FROM};
use crate::clock;
use crate::machine::Machine;
use crate::policy::Moment;
use crate::race::{Elapsed, First, Rings, here, race, timer};

/// The driver has this time to do what is due before a caller does it.
const DRIVER_FIRST: Duration = Duration::from_millis(10);

/// The timer of one caller, while it waits.
#[derive(Default)]
pub(crate) struct Timekeeper {
    timer: Option<(Moment, Rings)>,
}

impl Timekeeper {
    /// Polls the machine.
    pub(crate) fn poll<T>(
        &mut self,
        shared: &Arc<Shared>,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Machine, &Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        loop {
            let (polled, due) =
                shared.look(|machine| (poll(machine, context), (machine.due(), machine.beat())));
            let is_elsewhere = || shared.is_elsewhere() == Some(true);
            if polled.is_ready() || !is_elsewhere() || !self.has_rung(due, context) {
                return polled;
            }
            shared.look_at_time();
        }
    }

    /// Whether what is due has not been done for too long.
    #[inline(never)]
    fn has_rung(&mut self, (due, beat): (Moment, Duration), context: &mut Context<'_>) -> bool {
        let now = clock::now();
        let at = due.after(DRIVER_FIRST).min(now.after(beat));
        let (_, timer) = match self.timer.take() {
            Some(timer) if timer.0 <= at => self.timer.insert(timer),
            _ => self.timer.insert((at, timer(at.since(now)))),
        };
        let has_rung = timer.as_mut().poll(context).is_ready();
        if has_rung {
            self.timer = None;
        }
        has_rung
    }
}

/// A timer of the caller's runtime; if the caller is on none, of the driver's, with which it ends.
pub(crate) struct Timer {
    shared: Arc<Shared>,
    timer: Rings,
    waker: Option<Waker>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { shared, timer, waker } = &mut *self;
        // The last copy is not dropped within the section: what drops with it may want in.
        let _former = waker.replace(context.waker().clone());
        if here().is_some_and(|here| here != shared.runtime.id()) {
            return timer.as_mut().poll(context);
        }
        // Its runtime does not end within: tokio would panic.
        let state = shared.lock();
        if !state.is_driven {
            return Poll::Ready(());
        }
        let _entered = shared.runtime.enter();
        timer.as_mut().poll(context)
    }
}

impl Shared {
    /// For a drop. The caller may go on for long, and no other thread takes a task that it wakes.
    pub(crate) fn with_drop<T>(
        self: &Arc<Self>,
        call: impl FnOnce(&mut Machine, Moment) -> T,
    ) -> T {
        let is_its = self.has_threads() && here() == Some(self.runtime.id());
        self.with_from(if is_its { 0 } else { WRITTEN_FROM }, call)
    }

    pub(super) fn runs_beside_caller(&self) -> bool {
        self.has_threads() || here() == Some(self.runtime.id())
    }

    pub(crate) fn timer(self: &Arc<Self>, time: Duration) -> Timer {
        let _entered = self.runtime.enter();
        Timer { shared: Arc::clone(self), timer: timer(time), waker: None }
    }

    /// Whether neither timers nor replies can come: the caller is on no runtime, and the locker's has ended.
    #[cfg(any(test, feature = "election", feature = "family", feature = "groups"))]
    pub(crate) fn is_deserted(&self) -> bool {
        here().is_none() && !self.lock().is_driven
    }

    /// The output of `future`, if it is ready within `limit`.
    pub(crate) async fn timeout<F: Future + Unpin>(
        self: &Arc<Self>,
        limit: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        match race(future, self.timer(limit)).await {
            First::One(output) => Ok(output),
            First::Other(()) => Err(Elapsed),
        }
    }

    /// Waits until the machine is ready.
    pub(crate) async fn wait<T>(
        self: &Arc<Self>,
        mut poll: impl FnMut(&mut Machine, &Context<'_>) -> Poll<T>,
    ) -> T {
        let mut timekeeper = Timekeeper::default();
        poll_fn(|context| timekeeper.poll(self, context, &mut poll)).await
    }

    /// Calls the machine, polls it in the same section, and waits until it is ready.
    pub(crate) async fn call<T>(
        self: &Arc<Self>,
        is_elsewhere: bool,
        call: impl FnOnce(&mut Machine, Moment),
        mut poll: impl FnMut(&mut Machine, &Context<'_>) -> Poll<T>,
    ) -> T {
        let (mut timekeeper, mut call) = (Timekeeper::default(), Some(call));
        poll_fn(|context| {
            if let Some(call) = call.take() {
                let polled = self.with(|machine, now| {
                    call(machine, now);
                    poll(machine, context)
                });
                if polled.is_ready() || !is_elsewhere {
                    return polled;
                }
            }
            timekeeper.poll(self, context, &mut poll)
        })
        .await
    }

    #[cfg(feature = "tokio-util")]
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        clock::spawn_on(&self.runtime, task).abort_handle()
    }

    /// Whether the caller is on another runtime; none if it is on none, and so nothing may drive this one.
    pub(crate) fn is_elsewhere(&self) -> Option<bool> {
        match here() {
            None if !self.has_threads() => None,
            here => Some(here.is_some_and(|here| here != self.runtime.id())),
        }
    }

    fn has_threads(&self) -> bool {
        self.runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
    }

    fn look_at_time(self: &Arc<Self>) {
        self.with(|machine, now| {
            if machine.due() <= now {
                machine.tick(now);
            }
        });
    }
}
