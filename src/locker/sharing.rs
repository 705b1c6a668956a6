//! Locks that several may have shares of: for reading, and permits of a semaphore.

use std::fmt;
use std::num::NonZeroU32;

use super::Locker;
use crate::clock;
use crate::error::Error;
use crate::extra::sharing::Sharing;
use crate::names::Names;
use crate::policy::Wait;
use crate::request::LockRequest;
use crate::request::any::begin_any;

/// A permit's script has work to do for each unit of its weight.
const WEIGHT_MAX: u32 = 64;
const LIMIT_MAX: u32 = 1_000_000;
/// Maximum permits over several servers: a request that waits stands in the queue of each.
const SLOTS_MAX: u32 = 64;

impl Locker {
    /// A request for the lock `name` to read under, beside any number of other readers. It waits while
    /// a writer holds the lock, or has waited for the lock for longer.
    ///
    /// A request for the whole lock, by [`Locker::write`], by [`Locker::lock`] or with another library, finds
    /// it held while there are readers. Requests are served in the order in which they came, readers next to
    /// one another together: so neither readers nor writers starve.
    ///
    /// The first reader has a [fencing token](crate::FencingToken) of its own, above that of the last writer, and
    /// readers beside it have the same; over several servers they have the last writer's. A resource refuses a
    /// reader whose token is below the last one that wrote.
    ///
    /// Over several servers a reader needs the same quorum as a writer, so [`Locker::tolerance`] is that of both,
    /// and the servers agree on the reader's token. [What is promised](crate::guide::sharing).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let reader = locker.read("catalog").await?;
    /// println!("reads as of {}", reader.fence());
    /// reader.release().await?;
    ///
    /// let writer = locker.write("catalog").await?; // alone
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.share(name.as_ref(), Sharing::ANY, Wait::Forever)
    }

    /// As [`Locker::read`], without waiting. It does not overtake waiters.
    pub fn try_read(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.share(name.as_ref(), Sharing::ANY, Wait::Never)
    }

    /// A request for the lock `name` to write under, alone: as [`Locker::lock`], but its release hands the
    /// lock to waiting readers in the same step.
    pub fn write(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.share(name.as_ref(), Sharing::WHOLE, Wait::Forever)
    }

    /// As [`Locker::write`], without waiting.
    pub fn try_write(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.share(name.as_ref(), Sharing::WHOLE, Wait::Never)
    }

    /// A semaphore, shared by all processes that give this name and this limit: permits of at most this much
    /// weight are held at a time. A permit is a lease, renewed and lost like a lock's.
    ///
    /// While permits are held, a request with another limit is an error that names both. Requests are served
    /// in the order in which they came: a heavy one is not overtaken by lighter ones.
    ///
    /// A request is [`Misuse`](crate::ErrorKind::Misuse) for a limit of 0 or above 1,000,000. Over several servers each
    /// permit is a lock of its own: a request for a limit above 64 or a weight above 1 is misuse, [and the order is not
    /// kept](crate::guide::sharing#over-several-servers).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let exports = locker.semaphore("exports", 3);
    /// let permit = exports.acquire(1).await?;
    /// permit.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<[u8]>, limit: u32) -> Semaphore {
        Semaphore { locker: self.clone(), name: name.as_ref().into(), limit }
    }

    fn share(&self, name: &[u8], sharing: Sharing, wait: Wait) -> LockRequest {
        self.request(self.name(name), wait).sharing(Ok(sharing))
    }
}

/// A semaphore that all processes share, by [`Locker::semaphore`].
#[derive(Clone)]
pub struct Semaphore {
    locker: Locker,
    name: Box<[u8]>,
    limit: u32,
}

impl Semaphore {
    /// A request for a permit of this weight, 1 to 64 and no more than the limit, which waits until there is
    /// one. If its [limit](LockRequest::wait_at_most) is over before, the semaphore was full, or others stood before it:
    /// [`Contended`](crate::ErrorKind::Contended).
    pub fn acquire(&self, weight: u32) -> LockRequest {
        self.permit(weight, Wait::Forever)
    }

    /// As [`Semaphore::acquire`], without waiting: a full semaphore is [`Contended`](crate::ErrorKind::Contended). It does not
    /// overtake waiters.
    pub fn try_acquire(&self, weight: u32) -> LockRequest {
        self.permit(weight, Wait::Never)
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// The locks that are the permits over several servers, from a random one on, so that requests of one moment
    /// begin at different locks.
    ///
    /// Servers that count each for itself let in floor(N limit / q) holders with a quorum of q each: with a limit of
    /// 2 and a quorum of 2 of 3 servers, 3 clients that each cannot reach another server.
    fn slots(&self, weight: u32) -> Result<Vec<Names>, Error> {
        let limit = self.limit;
        let wrong = if limit > SLOTS_MAX {
            format!("a semaphore has at most {SLOTS_MAX} permits, not {limit}")
        } else if weight != 1 {
            format!("a permit has a weight of 1, not {weight}")
        } else {
            let (names, first) =
                (self.locker.name(&self.name)?, clock::random_bits() % u64::from(limit));
            let first = u32::try_from(first).unwrap_or(0);
            let slots = (first..limit).chain(0..first).map(|number| names.permit(number));
            return Ok(slots.collect());
        };
        Err(Error::misuse(format_args!(
            "over several servers {wrong}: no server counts for the others, so each permit is a lock of its own"
        )))
    }

    fn permit(&self, weight: u32, wait: Wait) -> LockRequest {
        let Some(limit) = NonZeroU32::new(self.limit).filter(|limit| limit.get() <= LIMIT_MAX)
        else {
            let limit = self.limit;
            let wrong = Error::misuse(format_args!(
                "a semaphore has between 1 and {LIMIT_MAX} permits, not {limit}"
            ));
            return self.locker.request(Err(wrong), wait);
        };
        if !self.locker.engine.is_single() {
            return self.locker.of_several(self.slots(weight), wait).by(begin_any);
        }
        let most = limit.get().min(WEIGHT_MAX);
        let weight = NonZeroU32::new(weight).filter(|weight| weight.get() <= most).ok_or(weight);
        let sharing = weight.map(|weight| Sharing::limited(limit, weight)).map_err(|weight| {
            Error::misuse(format_args!(
                "a permit of a semaphore with the limit {limit} has a weight of 1 to {most}, not {weight}"
            ))
        });
        self.locker.request(self.locker.name(&self.name), wait).sharing(sharing)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("limit", &self.limit).finish_non_exhaustive()
    }
}
