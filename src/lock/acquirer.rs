//! Acquires under way, in futures that are used again.
//!
//! The future of an acquire takes some kilobytes, and its type cannot be named, so it lives on the
//! heap. One that has seen its acquire through goes on with the next; one that is dropped on the
//! way takes the acquire with it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// An acquire under way.
///
/// # Cancel safety
///
/// As [`acquire`].
pub(crate) struct Acquiring(Option<Worker>);

/// Who acquires, one lock after the other.
struct Worker {
    desk: Arc<Desk>,
    work: BoxFuture<'static, Infallible>,
}

/// What a worker is to do next, and what came of what it did.
#[derive(Default)]
struct Desk {
    wish: Mutex<Option<(Arc<Engine>, Wish)>>,
    outcome: Mutex<Option<Result<Lease, Error>>>,
    /// Whether there is an outcome: looked at after every poll, where a lock would cost more.
    is_done: AtomicBool,
}

impl Worker {
    fn new() -> Self {
        let desk = Arc::<Desk>::default();
        Self { work: Box::pin(work(Arc::clone(&desk))), desk }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn work(desk: Arc<Desk>) -> Infallible {
    loop {
        // Whoever has a wish polls, so nobody has to be woken.
        let next = poll_fn(|_| lock(&desk.wish).take().map_or(Poll::Pending, Poll::Ready));
        let (engine, wish) = next.await;
        let outcome = match wish.is_any {
            false => acquire(&engine, &wish).await,
            // On the heap, so that who wants one lock does not carry the room for it.
            true => Box::pin(acquire_any(&engine, &wish)).await,
        };
        *lock(&desk.outcome) = Some(outcome);
        desk.is_done.store(true, Ordering::Release);
    }
}

impl Acquiring {
    pub(crate) fn new(engine: Arc<Engine>, wish: Wish) -> Self {
        let worker = lock(&SPARE).pop().unwrap_or_else(Worker::new);
        *lock(&worker.desk.wish) = Some((engine, wish));
        Self(Some(worker))
    }

    /// # Panics
    ///
    /// When it was ready before.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Lease, Error>> {
        let worker = self.0.as_mut().expect("an acquire is polled after it was ready");
        if let Poll::Ready(never) = worker.work.as_mut().poll(context) {
            match never {}
        }
        if !worker.desk.is_done.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        worker.desk.is_done.store(false, Ordering::Relaxed);
        let outcome = lock(&worker.desk.outcome).take();
        let Some(outcome) = outcome else { return Poll::Pending };
        if let Some(worker) = self.0.take() {
            let mut spare = lock(&SPARE);
            if spare.len() < SPARE_MAX {
                spare.push(worker);
            }
        }
        Poll::Ready(outcome)
    }
}
