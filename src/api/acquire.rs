//! A lock that is being acquired.

use std::future::Future;
#[cfg(any(test, feature = "groups"))]
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::lease::{Granted, Lease};
use super::locker::Locker;
use super::outcome;
use crate::clock;
use crate::driver::timekeeper::Timekeeper;
use crate::error::{Error, ErrorKind};
#[cfg(any(test, feature = "groups"))]
use crate::machine::LeaseId;
use crate::machine::{Options, Refusal};
#[cfg(any(test, feature = "groups"))]
use crate::names::Names;
use crate::policy::Moment;
use crate::spans::AcquireSpan;
use crate::stats::{Counter, Event};

/// The former owner of a lock that a request takes.
#[cfg(any(test, feature = "takeover"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Former {
    Anybody,
    Ticket,
}

/// A request that was sent to the machine.
///
/// # Cancel safety
///
/// Dropping it releases whatever servers may have granted.
pub(crate) struct Acquire {
    asked_at: Moment,
    /// None once the request is answered.
    lease: Option<Lease>,
    /// Before the caller's first poll, which returns pending: whether it is on another runtime than the driver's.
    first: Option<bool>,
    #[cfg(any(test, feature = "takeover"))]
    former: Option<Former>,
    timekeeper: Timekeeper,
    span: AcquireSpan,
}

impl Acquire {
    /// Begins a request in the caller's first poll. A request that is answered at once still yields once: other tasks
    /// run first, the driver's too, which may have news that a retrying caller needs.
    pub(crate) fn new(
        locker: &Locker,
        options: Options,
        is_elsewhere: bool,
        context: &Context<'_>,
    ) -> Self {
        let names = options.names.clone();
        let (id, asked_at, is_answered) = locker.driver.with(|machine, now| {
            let id = machine.acquire(options, now);
            (id, now, machine.poll_acquire(id, context).is_ready())
        });
        if is_answered {
            context.waker().wake_by_ref();
        }
        let lease = Some(Lease::new(locker.clone(), id, names));
        Self {
            asked_at,
            lease,
            first: Some(is_elsewhere),
            #[cfg(any(test, feature = "takeover"))]
            former: None,
            timekeeper: Timekeeper::default(),
            span: AcquireSpan::default(),
        }
    }

    /// [`Acquire::new`] for callers that have no context.
    #[cfg(any(test, feature = "groups"))]
    pub(crate) async fn begun(locker: &Locker, options: Options) -> Self {
        let mut options = Some(options);
        let is_elsewhere = locker.driver.is_elsewhere() == Some(true);
        let begin = |context: &mut Context<'_>| {
            let begun = |it| Poll::Ready(Self::new(locker, it, is_elsewhere, context));
            options.take().map_or(Poll::Pending, begun)
        };
        poll_fn(begin).await
    }

    pub(crate) fn seen_in(mut self, span: AcquireSpan) -> Self {
        self.span = span;
        self
    }

    /// Notes the former owner of the lock.
    #[cfg(any(test, feature = "takeover"))]
    pub(crate) fn taking_from(mut self, former: Former) -> Self {
        self.former = Some(former);
        self
    }

    /// Notes all these locks; the options name the first.
    #[cfg(any(test, feature = "groups"))]
    pub(crate) fn of_several(mut self, names: &[Names]) -> Self {
        self.lease.iter_mut().for_each(|lease| lease.also = names[1..].into());
        self
    }

    #[cfg(any(test, feature = "groups"))]
    pub(crate) fn id(&self) -> LeaseId {
        self.lease.as_ref().expect("it was not ready yet").id
    }

    /// Counts the caller's wait from this moment.
    #[cfg(any(test, feature = "groups", feature = "sharing"))]
    pub(crate) fn since(mut self, asked_at: Moment) -> Self {
        self.asked_at = asked_at;
        self
    }

    fn poll_granted(&mut self, context: &mut Context<'_>) -> Poll<Result<Granted, Refusal>> {
        let lease = self.lease.as_ref().expect("an acquire is polled after it was ready");
        let (id, driver) = (lease.id, &lease.locker.driver);
        let first = self.first.take();
        if first == Some(false) {
            return Poll::Pending;
        }
        let polled = self.timekeeper.poll(driver, context, |machine, context| {
            machine.poll_acquire(id, context).map_ok(|()| Granted::of(machine, id))
        });
        if first.is_some() { Poll::Pending } else { polled }
    }

    fn refused(&self, lease: &Lease, refusal: Refusal) -> Error {
        let waited = clock::now().since(self.asked_at);
        let driver = &lease.locker.driver;
        let report = driver.report(lease.id);
        let mut error = lease.of_all(outcome::refused(&lease.names, refusal, waited, report));
        #[cfg(any(test, feature = "takeover"))]
        if self.former == Some(Former::Ticket) {
            error = outcome::of_ticket(&lease.names, error);
        }
        let (meter, name) = (driver.meter(), lease.names.lock());
        match error.kind() {
            ErrorKind::Contended => {
                outcome::mark_own(&mut error, &|owner, most| {
                    driver.look(|machine| machine.has_owner(owner, most))
                });
                if error.is_timeout() {
                    meter.count_and_tell(Counter::TimedOut, Event::TimedOut { name, waited });
                } else {
                    meter.note_refused();
                }
            }
            _ => meter.count_and_tell(Counter::Failed, Event::Failed { name }),
        }
        self.span.refused(&error);
        error
    }
}

impl Future for Acquire {
    type Output = Result<Lease, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Poll::Ready(answer) = this.poll_granted(context) else { return Poll::Pending };
        // Dropping the lease of a refused request makes the machine forget it.
        let mut lease = this.lease.take().expect("it was polled for");
        Poll::Ready(match answer {
            Ok(granted) => {
                lease.is_granted(granted);
                let waited = lease.granted_at.since(this.asked_at);
                lease.locker.driver.meter().note_granted(lease.names.lock(), waited);
                #[cfg(any(test, feature = "takeover"))]
                if let Some(former) = this.former {
                    lease.is_taken_from(former, &this.span);
                }
                let (id, token) = (lease.id, lease.token());
                lease.locker.driver.holds().granted(id, &this.span, token, waited);
                lease.is_announced();
                Ok(lease)
            }
            Err(refusal) => Err(this.refused(&lease, refusal)),
        })
    }
}

/// Counts a request without an answer as cancelled.
impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(lease) = &self.lease {
            lease.locker.driver.meter().note_cancelled();
            self.span.cancelled();
        }
    }
}
