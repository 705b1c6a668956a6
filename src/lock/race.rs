//! Waiting for whichever comes first.

use std::future::{Future, poll_fn};
use std::pin::pin;
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
