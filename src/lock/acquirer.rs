//! Acquires under way, in futures that are used again.
//!
//! The future of an acquire takes some kilobytes, and its type cannot be named, so it lives on the
//! heap. One that has seen its acquire through goes on with the next; one that is dropped on the
//! way takes the acquire with it.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use super::acquire::acquire;
use super::any::acquire_any;
use super::engine::Engine;
use super::lease::Lease;
use super::order::Wish;
use crate::box_future::BoxFuture;
use crate::error::Error;

/// Maximum idle workers that are kept for later acquires.
const SPARE_MAX: usize = 1024;
/// Workers with nothing to do.
static SPARE: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

thread_local! {
    /// What the worker is to do that is polled now: it takes it before anything else.
    static WISH: RefCell<Option<(Arc<Engine>, Wish)>> = const { RefCell::new(None) };
    /// What came of it: the last that a worker does in a poll, and the first that is looked at then.
    static OUTCOME: RefCell<Option<Result<Lease, Error>>> = const { RefCell::new(None) };
}

/// An acquire under way.
///
/// # Cancel safety
///
/// As [`acquire`].
pub(crate) struct Acquiring(Option<Worker>);

/// An acquirer of locks, one after the other.
type Worker = BoxFuture<'static, Infallible>;

fn spare() -> MutexGuard<'static, Vec<Worker>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn work() -> Infallible {
    loop {
        // The task with a wish polls, so nobody has to be woken.
        let next =
            poll_fn(|_| WISH.with_borrow_mut(Option::take).map_or(Poll::Pending, Poll::Ready));
        let (engine, wish) = next.await;
        let outcome = match wish.is_any {
            false => acquire(&engine, &wish).await,
            // On the heap, so that a caller that wants one lock does not carry the room for it.
            true => Box::pin(acquire_any(&engine, &wish)).await,
        };
        // Dropped before there is an outcome: what goes with them may be another's code.
        drop((engine, wish));
        OUTCOME.with_borrow_mut(|kept| *kept = Some(outcome));
    }
}

impl Acquiring {
    pub(crate) fn new() -> Self {
        let worker = spare().pop();
        Self(Some(worker.unwrap_or_else(|| Box::pin(work()))))
    }

    /// The first poll is given what to acquire, and with which engine.
    ///
    /// # Panics
    ///
    /// When it was ready before.
    pub(crate) fn poll(
        &mut self,
        wish: Option<(Arc<Engine>, Wish)>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Lease, Error>> {
        let worker = self.0.as_mut().expect("an acquire is polled after it was ready");
        if wish.is_some() {
            WISH.with_borrow_mut(|kept| *kept = wish);
        }
        if let Poll::Ready(never) = worker.as_mut().poll(context) {
            match never {}
        }
        let Some(outcome) = OUTCOME.with_borrow_mut(Option::take) else { return Poll::Pending };
        if let Some(worker) = self.0.take() {
            let mut spare = spare();
            if spare.len() < SPARE_MAX {
                spare.push(worker);
            }
        }
        Poll::Ready(outcome)
    }
}
