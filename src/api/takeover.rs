//! Locks that pass to another process: see [`crate::extra::takeover`].

use std::time::Duration;

use super::acquire::Former;
use super::lease::Lease;
use super::outcome;
use crate::error::Error;
#[cfg(any(test, feature = "scriptless"))]
use crate::extra::scriptless;
#[cfg(any(test, feature = "sharing"))]
use crate::extra::sharing;
use crate::extra::takeover;
#[cfg(any(test, feature = "sharing", feature = "scriptless"))]
use crate::machine::Machine;
use crate::policy::{End, Loss};
use crate::spans::AcquireSpan;
use crate::stats::{Counter, Event};
use crate::ticket::Ticket;

impl Lease {
    /// Reports that the lock was taken from its former owner.
    pub(super) fn is_taken_from(&mut self, former: Former, span: &AcquireSpan) {
        let report = self.locker.driver.report(self.id);
        let (meter, name) = (self.locker.driver.meter(), self.names.lock());
        match (former, report.taken_from().next()) {
            (Former::Ticket, _) => meter.count_and_tell(Counter::Adopted, Event::Adopted { name }),
            (Former::Anybody, Some(holder)) => {
                let (owner, label) = (&holder.owner, holder.label.as_deref());
                meter.count_and_tell(Counter::Stolen, Event::Stolen { name, owner, label });
                span.stolen(holder);
            }
            (Former::Anybody, None) => {}
        }
        self.granted_by = Some(Box::new(report));
    }

    /// Only an exclusive lock with one key can have a ticket.
    fn check_ticketed(&self) -> Result<(), Error> {
        #[cfg(any(test, feature = "sharing", feature = "scriptless"))]
        {
            let kind = |machine: &mut Machine| machine.kind(self.id).map(|(kind, _)| kind);
            let _kind = self.locker.driver.look(kind);
            #[cfg(any(test, feature = "sharing"))]
            if _kind.is_some_and(sharing::has_shares) || self.names.is_permit() {
                return Err(Error::misuse("a ticket is of a lock that nobody has shares of"));
            }
            #[cfg(any(test, feature = "scriptless"))]
            if _kind.is_some_and(scriptless::is_in_steps) {
                return Err(Error::misuse(
                    "a ticket takes scripts, and this locker does without: leave Builder::scriptless out",
                ));
            }
        }
        if self.names().nth(1).is_some() {
            return Err(Error::misuse("a ticket is of one lock, not of several"));
        }
        Ok(())
    }

    /// # Cancel safety
    ///
    /// When the future is dropped, the lock is released on each server, for this owner and for the ticket.
    pub(crate) async fn into_ticket(self, within: Duration) -> Result<Ticket, Error> {
        Ticket::check(within)?;
        self.check_ticketed()?;
        self.check_runtime()?;
        let (id, driver) = (self.id, self.locker.driver.clone());
        let mut step = driver.holds().release(id);
        let owner = driver.with(|machine, now| takeover::into_ticket(machine, id, within, now));
        let Some(owner) = owner else {
            let loss = self.loss().unwrap_or(Loss::Expired);
            step.ends(End::Lost(loss));
            return Err(outcome::lost(&self.names, loss));
        };
        let mut passing = Passing { lease: self, is_over: false };
        let end = driver.wait(|machine, context| machine.poll_release(id, context)).await;
        let lease = &passing.lease;
        let end = if end == End::Released { End::Ticketed } else { end };
        step.ends(end);
        match end {
            End::Ticketed => {
                let owner = *owner.first_chunk().expect("a value begins with its id");
                let (meter, name) = (driver.meter(), lease.name());
                let ticket = Ticket::new(name, owner, driver.fingerprint());
                meter.count_and_tell(Counter::Ticketed, Event::Ticketed { name });
                driver.holds().ends(id, end);
                passing.is_over = true;
                Ok(ticket)
            }
            End::Lost(loss) => Err(outcome::lost(&lease.names, loss)),
            _ => Err(lease.unconfirmed("ticket of lock")),
        }
    }
}

/// A lease that servers may have passed to a ticket, which no caller has yet.
struct Passing {
    lease: Lease,
    is_over: bool,
}

/// Neither blocks nor panics, and needs no runtime.
impl Drop for Passing {
    fn drop(&mut self) {
        if !self.is_over {
            let (id, driver) = (self.lease.id, &self.lease.locker.driver);
            driver.holds().ends(id, End::Unconfirmed);
            driver.with_drop(|machine, now| takeover::take_back(machine, id, now));
        }
    }
}
