//! A share that becomes the whole lock, and the other way round.

use std::sync::Arc;
use std::time::Duration;

use super::lease::{Granted, Lease};
use super::outcome;
use crate::clock;
use crate::driver::Shared;
use crate::error::Error;
use crate::extra::sharing::Sharing;
use crate::machine::{LeaseId, Refusal, TurnedDown};
use crate::policy::Setback;

/// A lease and the one that replaces it, until it is known which of them exists.
struct Turning {
    driver: Arc<Shared>,
    id: LeaseId,
    other: LeaseId,
    is_over: bool,
}

impl Lease {
    /// # Cancel safety
    ///
    /// When the future is dropped, the lease is lost, and both forms of it are released.
    pub(crate) async fn turn(&mut self, to: Sharing) -> Result<(), Error> {
        let (from, wrong) = if to == Sharing::WHOLE {
            (Sharing::ANY, "a guard of Locker::read can be upgraded, and no other")
        } else {
            (Sharing::WHOLE, "a guard of Locker::write can be downgraded, and no other")
        };
        let (id, driver) = (self.id, self.locker.driver.clone());
        let has = driver
            .look(|machine| machine.kind(id).is_some_and(|(kind, words)| from.is_of(kind, words)));
        if !has {
            return Err(Error::misuse(wrong));
        }
        if to == Sharing::WHOLE && !self.locker.is_single() {
            return Err(Error::misuse(
                "over several servers a reader cannot be upgraded: some of them could have the writer, and \
                 others the reader; release the guard, and ask for Locker::write",
            ));
        }
        self.check_runtime()?;
        let began = clock::now();
        let begun = driver.with(|machine, now| machine.turn(id, to.turned(), to.words(), now));
        let (other, until) = begun.map_err(|loss| outcome::lost(&self.names, loss))?;
        let mut turning = Turning { driver: driver.clone(), id, other, is_over: false };
        let answer = driver
            .wait(|machine, context| {
                let answer = machine.poll_acquire(other, context);
                answer.map_ok(|()| Granted::of(machine, other))
            })
            .await;
        turning.is_over = true;
        match answer {
            Ok(granted) => {
                driver.with(|machine, now| machine.turned(id, other, now));
                let mut lease = Self::new(self.locker.clone(), other, self.names.clone());
                lease.is_granted(granted);
                driver.meter().note_granted(self.name(), lease.granted_at.since(began));
                driver.holds().goes_on(id, other, lease.token());
                lease.is_announced();
                *self = lease;
                Ok(())
            }
            Err(refusal) => {
                let report = driver.report(other);
                let down = driver.with(|machine, now| {
                    let down = machine.turned_down(id, other, until, now);
                    machine.forget(other, now);
                    down
                });
                let refused =
                    |refusal| outcome::refused(&self.names, refusal, Duration::ZERO, report);
                Err(match (down, refusal) {
                    (TurnedDown::Lost(loss), _) => outcome::lost(&self.names, loss),
                    (_, Refusal::Setback { setback, .. }) => {
                        let is_held = matches!(setback, Setback::Held(_));
                        let setback = match down {
                            TurnedDown::Unknown if is_held => Setback::Failing,
                            _ => setback,
                        };
                        if down == TurnedDown::Stays && is_held {
                            driver.meter().note_refused();
                        }
                        refused(Refusal::Setback { setback, is_over: false })
                    }
                    (_, refusal) => refused(refusal),
                })
            }
        }
    }
}

/// Releases both forms; neither blocks nor panics, and needs no runtime.
impl Drop for Turning {
    fn drop(&mut self) {
        if !self.is_over {
            self.driver.with_drop(|machine, now| machine.give_up_turn(self.id, self.other, now));
        }
    }
}
