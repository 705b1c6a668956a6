//! Futures in one task: waiting for the first, or for all.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::task::coop::unconstrained;
use tokio::time::{sleep, sleep_until};

use crate::box_future::BoxFuture;

pub(crate) enum First<A, B> {
    One(A),
    Other(B),
}

/// The output of the future that is ready first; of `one`, if both are. Callers pin the futures: moving them in would
/// take their space, and the code that moves and drops them, twice.
pub(crate) fn race<A: Future + Unpin, B: Future + Unpin>(
    mut one: A,
    mut other: B,
) -> impl Future<Output = First<A::Output, B::Output>> + Unpin {
    poll_fn(move |context| {
        if let Poll::Ready(output) = Pin::new(&mut one).poll(context) {
            return Poll::Ready(First::One(output));
        }
        Pin::new(&mut other).poll(context).map(First::Other)
    })
}

/// The time ran out.
pub(crate) struct Elapsed;

/// The output of `future`, if it is ready within `limit`. As tokio's, but with one timer type for all futures, which is
/// compiled once.
pub(crate) fn timeout<F: Future + Unpin>(
    limit: Duration,
    mut future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> + Unpin {
    let mut timer = timer(limit);
    poll_fn(move |context| {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(context) {
            return Poll::Ready(Ok(output));
        }
        timer.as_mut().poll(context).map(|()| Err(Elapsed))
    })
}

/// The output of a caller's future, or none if it panics, which would else end the task that polls it.
#[cfg(any(test, feature = "credentials", feature = "streams"))]
pub(crate) fn caught<F: Future + Unpin>(
    mut future: F,
) -> impl Future<Output = Option<F::Output>> + Unpin {
    poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
}

/// Ready once a time is over.
pub(crate) type Rings = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// The present runtime.
pub(crate) fn here() -> Option<Id> {
    Handle::try_current().ok().map(|here| here.id())
}

/// A timer that moves to the runtime that polls it: tokio panics if a timer's runtime has ended. It is outside of tokio's
/// task budget: a future that is always busy does not keep the timer from being ready.
#[inline(never)]
pub(crate) fn timer(limit: Duration) -> Rings {
    let (mut of, mut sleep) = (here(), Box::pin(sleep(limit)));
    Box::pin(poll_fn(move |context| {
        let here = here();
        if here.is_some() && here != of {
            let until = sleep.deadline();
            of = here;
            sleep.set(sleep_until(until));
        }
        pin!(unconstrained(sleep.as_mut())).poll(context)
    }))
}

/// The outputs of all, in their order; they run together, in this task.
#[cfg(any(test, feature = "_calls", feature = "groups", feature = "sentinel"))]
pub(crate) fn all<'a, T: Send + 'a>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'a>,
) -> BoxFuture<'a, Vec<T>> {
    let begun = futures.into_iter().map(|future| (Box::pin(future) as _, None));
    Box::pin(outputs(begun.collect()))
}

/// The first output; the others can go on. None if there are no futures.
pub(crate) fn next<T>(
    running: &mut Vec<BoxFuture<'_, T>>,
) -> impl Future<Output = Option<T>> + Unpin {
    poll_fn(|context| {
        for (place, future) in running.iter_mut().enumerate() {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                drop(running.swap_remove(place));
                return Poll::Ready(Some(output));
            }
        }
        if running.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    })
}

/// The outputs of all, compiled once for each type of output.
#[cfg(any(test, feature = "_calls", feature = "groups", feature = "sentinel"))]
async fn outputs<T>(mut running: Vec<(BoxFuture<'_, T>, Option<T>)>) -> Vec<T> {
    poll_fn(|context| {
        let mut is_over = true;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(ready) => *output = Some(ready),
                Poll::Pending => is_over = false,
            }
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}
