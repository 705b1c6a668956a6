//! What the tasks and callers of a connection meet at. Under `scripts/loom.sh` these are loom's, so
//! that it can try every order in which they come.

#[cfg(not(leasehold_loom))]
pub(super) use std::sync::{Mutex, MutexGuard};
#[cfg(not(leasehold_loom))]
pub(super) use tokio::sync::{Notify, Semaphore};

#[cfg(leasehold_loom)]
pub(super) use loom::sync::{Mutex, MutexGuard};
#[cfg(leasehold_loom)]
pub(super) use modelled::{Notify, Semaphore};

#[cfg(leasehold_loom)]
mod modelled {
    use std::future::poll_fn;
    use std::ops::Deref;
    use std::sync::PoisonError;
    use std::task::{Poll, Waker};

    use loom::sync::Mutex;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    /// As tokio's, for one task that waits: a notification that nobody waits for is kept.
    #[derive(Default)]
    pub(crate) struct Notify(Mutex<Notified>);

    #[derive(Default)]
    struct Notified {
        is_kept: bool,
        waiter: Option<Waker>,
    }

    impl Notify {
        pub(crate) fn notify_one(&self) {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_kept = true;
            let waiter = state.waiter.take();
            drop(state);
            waiter.into_iter().for_each(Waker::wake);
        }

        pub(crate) async fn notified(&self) {
            poll_fn(|context| {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if std::mem::take(&mut state.is_kept) {
                    return Poll::Ready(());
                }
                state.waiter = Some(context.waker().clone());
                Poll::Pending
            })
            .await;
        }
    }

    /// Tokio's own, each call of which is one step: others may come before it and after it.
    pub(crate) struct Semaphore {
        inner: tokio::sync::Semaphore,
        steps: AtomicUsize,
    }

    impl Semaphore {
        pub(crate) fn new(permits: usize) -> Self {
            Self { inner: tokio::sync::Semaphore::new(permits), steps: AtomicUsize::new(0) }
        }
    }

    impl Deref for Semaphore {
        type Target = tokio::sync::Semaphore;

        fn deref(&self) -> &tokio::sync::Semaphore {
            self.steps.fetch_add(1, Ordering::AcqRel);
            &self.inner
        }
    }
}
