//! A lock that is being acquired.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::lease::{Granted, Lease};
use super::locker::Locker;
use super::outcome;
use crate::clock;
use crate::driver::timekeeper::Timekeeper;
use crate::error::{Error, ErrorKind};
use crate::machine::{Options, Refusal};
use crate::policy::Moment;

/// A request, which begins with the first poll.
///
/// # Cancel safety
///
/// When it is dropped, whatever may have been granted is given back.
pub(crate) struct Acquire {
    locker: Locker,
    asked_at: Moment,
    options: Option<Options>,
    /// From the first poll on.
    lease: Option<Lease>,
    timekeeper: Timekeeper,
}

impl Acquire {
    pub(crate) fn new(locker: &Locker, options: Options) -> Self {
        let locker = locker.clone();
        Self {
            locker,
            asked_at: Moment::default(),
            options: Some(options),
            lease: None,
            timekeeper: Timekeeper::default(),
        }
    }

    fn poll_granted(&mut self, context: &mut Context<'_>) -> Poll<Result<Granted, Refusal>> {
        let Self { locker, timekeeper, .. } = self;
        if let Some(Lease { id, .. }) = self.lease {
            return timekeeper.poll(&locker.driver, context, |machine, context| {
                machine.poll_acquire(id, context).map_ok(|()| Granted::of(machine, id))
            });
        }
        let options = self.options.take().expect("an acquire is polled after it was ready");
        let names = options.names.clone();
        let (id, asked_at, polled) = locker.driver.with(|machine, now| {
            let id = machine.acquire(options, now);
            let polled = machine.poll_acquire(id, context);
            (id, now, polled.map_ok(|()| Granted::of(machine, id)))
        });
        let is_elsewhere = polled.is_pending() && timekeeper.is_elsewhere(&locker.driver);
        self.asked_at = asked_at;
        self.lease = Some(Lease::new(self.locker.clone(), id, names));
        if polled.is_ready() {
            // Other tasks have their turn before, the driver's too, whose news a caller may try again for.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if is_elsewhere { self.poll_granted(context) } else { polled }
    }

    fn refused(&self, lease: &Lease, refusal: Refusal) -> Error {
        let waited = clock::now().since(self.asked_at);
        let report = self.locker.driver.report(lease.id);
        let mut error = outcome::refused(&lease.names, refusal, waited, report);
        let (meter, name) = (self.locker.driver.meter(), lease.names.lock());
        match error.kind() {
            ErrorKind::Contended if error.is_timeout() => {
                for holder in error.report_mut().holders_mut() {
                    let owner = holder.owner.as_bytes();
                    holder.is_here = self.locker.driver.look(|machine| machine.has_owner(owner));
                }
                meter.note_timed_out(name, waited);
            }
            ErrorKind::Contended => meter.note_refused(),
            _ => meter.note_failed(name),
        }
        error
    }
}

impl Future for Acquire {
    type Output = Result<Lease, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Poll::Ready(answer) = this.poll_granted(context) else { return Poll::Pending };
        // Where it was refused, what is left is to forget it.
        let mut lease = this.lease.take().expect("it was polled for");
        Poll::Ready(match answer {
            Ok(granted) => {
                lease.is_granted(granted);
                let waited = lease.granted_at.since(this.asked_at);
                this.locker.driver.meter().note_granted(lease.names.lock(), waited);
                Ok(lease)
            }
            Err(refusal) => Err(this.refused(&lease, refusal)),
        })
    }
}

/// It was cancelled, if it was not answered.
impl Drop for Acquire {
    fn drop(&mut self) {
        if self.lease.is_some() {
            self.locker.driver.meter().note_cancelled();
        }
    }
}
