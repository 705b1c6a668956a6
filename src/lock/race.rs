//! Futures together in one task: waiting for whichever comes first, or for all.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

pub(super) enum First<A, B> {
    One(A),
    Other(B),
}

/// The output of whichever future is ready first; of `one`, if both are. The other is dropped.
pub(super) async fn race<A: Future, B: Future>(one: A, other: B) -> First<A::Output, B::Output> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        if let Poll::Ready(output) = one.as_mut().poll(context) {
            return Poll::Ready(First::One(output));
        }
        other.as_mut().poll(context).map(First::Other)
    })
    .await
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
