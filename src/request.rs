//! A request for one lock, or for several.

#[cfg(any(test, feature = "groups", feature = "sharing"))]
pub(crate) mod any;
mod asked;
pub(crate) mod order;
#[cfg(any(test, feature = "takeover"))]
mod seizing;
#[cfg(any(test, feature = "groups"))]
pub(crate) mod together;
mod way;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use self::asked::Asked;
use self::way::{Way, begin};
use crate::api::Locker as Front;
use crate::defaults::Defaults;
use crate::error::Error;
#[cfg(any(test, feature = "sharing"))]
use crate::extra::sharing::Sharing;
use crate::fencing::{Fenced, Fencing, Unfenced};
use crate::guard::Guard;
use crate::names::Names;
use crate::policy::{Bounds, Retry, Wait, waitable};
use crate::request::order::{Order, Wish};

/// A request for a lock: set what differs from the locker's defaults, then `.await` it.
///
/// # Errors
///
/// By [`Error::kind`]:
///
/// - [`ErrorKind::Contended`]: another client holds the lock, and the request does not wait, has used up its attempts
///   ([`Retry::attempts`](crate::Retry::attempts)) or was refused by [`LockRequest::reject_reentrant`]; or its wait ran out,
///   which is [`Error::is_timeout`] too.
/// - [`ErrorKind::Unavailable`]: too few servers served. A waiting request tries again until its wait
///   runs out, which is [`Error::is_timeout`] too, or for one TTL without a limit.
/// - [`ErrorKind::TooLate`]: the lock was granted with too little validity left.
/// - [`ErrorKind::Auth`], [`ErrorKind::Misuse`]: trying again would not help.
/// - [`ErrorKind::ShutDown`](crate::ErrorKind::ShutDown): the locker was shut down.
///
/// [`ErrorKind::Contended`]: crate::ErrorKind::Contended
/// [`ErrorKind::Unavailable`]: crate::ErrorKind::Unavailable
/// [`ErrorKind::TooLate`]: crate::ErrorKind::TooLate
/// [`ErrorKind::Auth`]: crate::ErrorKind::Auth
/// [`ErrorKind::Misuse`]: crate::ErrorKind::Misuse
///
/// # Cancel safety
///
/// Dropping a request while it waits releases whatever the servers may have granted, without blocking.
#[must_use = "a lock is taken when its request is awaited"]
pub struct LockRequest<F: Fencing = Fenced> {
    engine: Front,
    defaults: Arc<Defaults>,
    asked: Asked,
    fencing: PhantomData<fn() -> F>,
}

impl LockRequest<Fenced> {
    pub(crate) fn new(
        engine: Front,
        defaults: Arc<Defaults>,
        names: Result<Names, Error>,
        wait: Wait,
    ) -> Self {
        let Defaults { term, ref label, retry, is_renewed, .. } = *defaults;
        let order = Order {
            term,
            label: label.clone(),
            priority: None,
            is_fenced: true,
            is_renewed,
            bounds: Bounds::default(),
            #[cfg(any(test, feature = "takeover"))]
            seize: None,
            #[cfg(any(test, feature = "sharing"))]
            sharing: None,
        };
        let (names, wrong) = match names {
            Ok(names) => (names, None),
            Err(wrong) => (Names::of_nothing(), Some(wrong)),
        };
        let (is_fair, refuses_own) = (false, false);
        let several = Vec::new();
        let wish = Wish { names, several, order, wait, retry, is_fair, refuses_own };
        let asked = Asked { wish, way: None, ttl: None, min_validity: None, wrong };
        Self { engine, defaults, asked, fencing: PhantomData }
    }

    /// Makes it a request for all of these locks, or one of them.
    #[cfg(any(test, feature = "groups", feature = "sharing"))]
    pub(crate) fn of(mut self, several: Vec<Names>) -> Self {
        self.asked.wish.several = several;
        self
    }

    /// Sets how several locks are acquired.
    #[cfg(any(test, feature = "groups", feature = "sharing"))]
    pub(crate) fn by(mut self, way: fn(&Front, &Wish) -> Way) -> Self {
        self.asked.way = Some(way);
        self
    }

    /// Makes it a request for a shared lock.
    #[cfg(any(test, feature = "sharing"))]
    pub(crate) fn sharing(mut self, sharing: Result<Sharing, Error>) -> Self {
        match sharing {
            Ok(sharing) => self.asked.wish.order.sharing = Some(sharing),
            Err(wrong) => self.asked.wrong = self.asked.wrong.or(Some(wrong)),
        }
        self
    }

    /// Acquires the lock by a plain `SET NX PX`, which costs the server less, without a fencing token:
    /// if the holder outlives its lease unnoticed, a resource has nothing to refuse. The first try
    /// overtakes waiters in other processes, unless the request is [fair](LockRequest::fair), which
    /// costs as much as a fenced one.
    pub fn unfenced(self) -> LockRequest<Unfenced> {
        let Self { engine, defaults, asked, .. } = self;
        LockRequest { engine, defaults, asked, fencing: PhantomData }
    }
}

impl<F: Fencing> LockRequest<F> {
    /// Sets the TTL of the lease: 10 ms to 24 h, in whole milliseconds; with a restart quarantine or a failover grace at
    /// most [`Builder::max_ttl`](crate::Builder::max_ttl).
    ///
    /// The library renews the lease after a third of its TTL, so the TTL need not cover the work: the guide
    /// says [how to choose it](crate::guide#the-ttl). A lock that another task of this process passes on, which asked
    /// for the same kind of lease, has what is left of that lease: at least half of the TTL.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let guard = locker.lock("job").ttl(Duration::from_secs(3)).await?; // free 3 s after a crash
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.asked.ttl = Some(ttl);
        self
    }

    /// Does not renew the lease: it ends at its TTL unless [`Guard::extend`] is called.
    ///
    /// # Examples
    ///
    /// For a lock that must be free after a fixed time, whatever its holder does:
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let guard = locker.lock("slot").ttl(Duration::from_secs(30)).no_renewal().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn no_renewal(mut self) -> Self {
        self.asked.wish.order.is_renewed = false;
        self
    }

    /// Sets the pauses between tries if no server can tell that the lock is free, and the maximum
    /// number of tries.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Retry;
    ///
    /// let retry = Retry::fixed(Duration::from_millis(50)).attempts(3);
    /// let guard = locker.lock("job").retry(retry).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry(mut self, retry: Retry) -> Self {
        self.asked.wish.retry = retry;
        self
    }

    /// Sets the minimum validity that the lease must have left when it is granted: a tenth of the TTL by default. A
    /// grant with less left is released ([`ErrorKind::TooLate`](crate::ErrorKind::TooLate)). A minimum that no lease
    /// can have, because it is not below the TTL less 1 % and 2 ms for clock drift, is
    /// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// // The work takes 2 s, and is not renewed: begin only with that much left.
    /// let request = locker.lock("job").ttl(Duration::from_secs(5)).no_renewal();
    /// let guard = request.min_validity(Duration::from_secs(2)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.asked.min_validity = Some(min_validity);
        self
    }

    /// Limits the wait while another client holds the lock, or too few servers serve: the request returns within this
    /// time, whatever servers do. A grant that is still under way then is released, without blocking. A limit below a
    /// millisecond, zero included, allows one attempt of at most one command timeout, like
    /// [`Locker::try_lock`](crate::Locker::try_lock).
    ///
    /// The servers are asked once more one command timeout before the limit. So the error describes the end of the wait:
    /// servers that no longer answer make it [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable). A wait that is
    /// shorter than a command timeout has no such last attempt: after one refusal it ends as
    /// [`ErrorKind::Contended`](crate::ErrorKind::Contended), even if the servers have stopped answering since.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::ErrorKind;
    ///
    /// match locker.lock("report").wait_at_most(Duration::from_secs(3)).await {
    ///     Ok(guard) => guard.release().await?,
    ///     Err(error) if error.kind() == ErrorKind::Contended => eprintln!("busy: {error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_at_most(mut self, limit: Duration) -> Self {
        self.asked.wish.wait = Wait::AtMost(waitable(limit));
        self
    }

    /// Leaves a free lock to its waiters.
    ///
    /// By default a request that does not wait ([`Locker::try_lock`](crate::Locker::try_lock)) barges:
    /// it acquires a free lock before its waiters do, as does the first try of an
    /// [unfenced](LockRequest::unfenced) request. A process that tries again and again can keep waiters
    /// from the lock for long. A fair request is refused instead ([`Contended`](crate::ErrorKind::Contended), with
    /// [`Vote::Queued`](crate::Vote::Queued)). Of several servers only one has the queue,
    /// so fairness is best effort there.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use leasehold::ErrorKind;
    ///
    /// match locker.try_lock("nightly").fair().await {
    ///     Ok(guard) => guard.release().await?,
    ///     Err(error) if error.kind() == ErrorKind::Contended => println!("{error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn fair(mut self) -> Self {
        self.asked.wish.is_fair = true;
        self
    }

    /// Names the holder in other clients' errors, for people. At most 256 bytes; the last must not be 0.
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.asked.wish.order.label = Some(Arc::from(label.as_ref()));
        self
    }

    /// Acquires the lock, does `work` while the lease holds, and releases the lock.
    ///
    /// # Errors
    ///
    /// As awaiting the request; and [`Lost`](crate::ErrorKind::Lost) if the lease was lost before `work` was
    /// done, which cancels `work` as [`Guard::run`] does. A release that no server confirmed is no
    /// error: it has been queued once more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock, without blocking.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let request = locker.lock("report").ttl(Duration::from_secs(5));
    /// request.with(async |lease| println!("token {}", lease.fence())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with<T>(self, work: impl AsyncFnOnce(&Guard<F>) -> T) -> Result<T, Error> {
        let guard = self.await?;
        let output = guard.run(work(&guard)).await?;
        match guard.release().await {
            Err(error) if error.loss().is_some() => Err(error),
            _ => Ok(output),
        }
    }

    /// Makes it a candidate's request, with this priority in the queue.
    #[cfg(any(test, feature = "election"))]
    pub(crate) fn candidacy(mut self, priority: u8) -> Self {
        self.asked.wish.order.priority = Some(priority);
        self
    }

    /// Keeps the lock from others until this long after its grant, even if it is released sooner.
    ///
    /// Many processes that want to do the same short work at the same moment then do it once: a process
    /// that comes late by less than this time finds the lock held. A release, a dropped guard and
    /// [`Locker::shutdown`](crate::Locker::shutdown) end the lease as usual and leave its key until then;
    /// the process need not wait for that, nor live that long. Others see a holder with the label of this
    /// request. The lock is not handed over before then;
    /// [`Locker::break_lease`](crate::Locker::break_lease) can free it.
    ///
    /// If a server loses its data, or the guard is lost, this time ends too. A killed process releases
    /// nothing: its lock is free when its TTL is over, so choose a TTL as long as this time if that
    /// matters. If a release reaches a server late, the lock stays locked there for as much longer, at
    /// most for one TTL. At most 24 hours.
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Misuse`](crate::ErrorKind::Misuse) for more than 24 hours, for more than
    /// [`LockRequest::hold_at_most`], and for readers, writers and permits.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::ErrorKind;
    ///
    /// // On each of many hosts, at two in the morning by its own clock.
    /// match locker.try_lock("nightly").hold_at_least(Duration::from_secs(50)).await {
    ///     Ok(guard) => {
    ///         report().await;
    ///         guard.release().await?;
    ///     }
    ///     Err(error) if error.kind() == ErrorKind::Contended => {}
    ///     Err(error) => return Err(error),
    /// }
    /// # async fn report() {}
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_at_least(mut self, time: Duration) -> Self {
        self.asked.wish.order.bounds.at_least = Some(time);
        self
    }

    /// Ends the lease at this time after its grant, although it is renewed: for work that must end.
    ///
    /// Renewal stops in time, and the guard is lost at that moment ([`Loss::HeldLongest`]);
    /// [`Guard::run`] cancels its work then. [`Guard::remaining`] includes the limit, and
    /// [`Guard::extend`] does not move it. The lock is free once the guard is dropped or released; a
    /// holder that does neither blocks others until the last TTL is over, at most one TTL after the
    /// limit.
    ///
    /// [`Loss::HeldLongest`]: crate::Loss::HeldLongest
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Misuse`](crate::ErrorKind::Misuse) for a limit of zero.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let guard = locker.lock("import").hold_at_most(Duration::from_secs(600)).await?;
    /// match guard.run(import()).await {
    ///     Ok(()) => guard.release().await?,
    ///     Err(error) => eprintln!("the import was ended: {error}"),
    /// }
    /// # async fn import() {}
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_at_most(mut self, limit: Duration) -> Self {
        self.asked.wish.order.bounds.at_most = Some(limit);
        self
    }

    /// Keeps the lock from others for this long after the lease, unless the guard is released or dropped while
    /// the lease holds.
    ///
    /// This is for a resource that checks no fencing tokens: when a holder crashes, hangs or is cut off, its
    /// last writes may still be under way, and have this time to arrive before another client can acquire the
    /// lock. Chubby and Consul call this lock-delay. A guard that is released, dropped or ended by
    /// [`Locker::shutdown`](crate::Locker::shutdown) frees the lock at once. A guard that is lost
    /// ([`Guard::is_lost`]) does not: dropping it leaves the key to its expiry.
    ///
    /// On the servers the key lives for TTL and lock-delay together, and is renewed to both, so clients of
    /// other versions and libraries respect the delay. The holder counts on the TTL alone. Errors and
    /// [`Locker::inspect`](crate::Locker::inspect) say when a lock is in its delay ([`Holder::is_delay`]).
    ///
    /// The delay ends early if the servers lose the key, or by
    /// [`Locker::break_lease`](crate::Locker::break_lease). With a restart quarantine or a failover grace, TTL and
    /// delay together are at most [`Builder::max_ttl`](crate::Builder::max_ttl), so that neither shortens the delay.
    /// At most 24 hours, rounded up to whole milliseconds.
    ///
    /// [`Holder::is_delay`]: crate::Holder::is_delay
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Misuse`](crate::ErrorKind::Misuse) for more than 24 hours, for more than
    /// [`Builder::max_ttl`](crate::Builder::max_ttl) allows, and for readers, writers and permits.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// // A printer that prints whatever it is sent: 15 s after a crash nothing more will come.
    /// let request = locker.lock("printer").lock_delay(Duration::from_secs(15));
    /// let guard = request.await?;
    /// guard.release().await?; // free at once
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        let whole_ms = delay.as_nanos().div_ceil(1_000_000);
        let whole = Duration::from_millis(u64::try_from(whole_ms).unwrap_or(u64::MAX));
        self.asked.wish.order.bounds.lock_delay = Some(whole).filter(|delay| !delay.is_zero());
        self
    }

    /// Refuses the request at once, without asking a server, if a guard of the same locker or of a clone
    /// holds the lock.
    ///
    /// Locks are not re-entrant ([`Locker::lock`](crate::Locker::lock) says why, and what to do instead):
    /// a task that waits for a lock that it holds itself waits until its limit, or for ever. The locker
    /// does not know which task holds a guard, so this is for locks that no two tasks of the process
    /// should want at the same time. The check takes time in proportion to the number of the locker's leases.
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Error::is_held_here`](crate::Error::is_held_here), of the kind
    /// [`ErrorKind::Contended`](crate::ErrorKind::Contended).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let guard = locker.lock("invoice:42").await?;
    /// let error = locker.lock("invoice:42").reject_reentrant().await.map(|_| ()).unwrap_err();
    /// assert!(error.is_held_here());
    /// # Ok(())
    /// # }
    /// ```
    pub fn reject_reentrant(mut self) -> Self {
        self.asked.wish.refuses_own = true;
        self
    }
}

impl<F: Fencing> IntoFuture for LockRequest<F> {
    type Output = Result<Guard<F>, Error>;
    type IntoFuture = Acquire<F>;

    fn into_future(self) -> Acquire<F> {
        Acquire { request: self, acquiring: None }
    }
}

/// A lock that is being acquired: the future of a [`LockRequest`].
///
/// # Cancel safety
///
/// As [`LockRequest`] says.
#[must_use = "a lock is taken when its request is awaited"]
pub struct Acquire<F: Fencing = Fenced> {
    request: LockRequest<F>,
    /// None until the first poll.
    acquiring: Option<Way>,
}

impl<F: Fencing> Future for Acquire<F> {
    type Output = Result<Guard<F>, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { request: LockRequest { engine, defaults, asked, .. }, acquiring } =
            self.get_mut();
        let acquiring = match acquiring {
            Some(acquiring) => acquiring,
            None => {
                asked.check(defaults, Guard::<F>::FENCED)?;
                let is_elsewhere = engine.check_runtime()?;
                acquiring.insert(match asked.way {
                    None => begin(engine, &asked.wish, is_elsewhere, context)?,
                    Some(way) => way(engine, &asked.wish),
                })
            }
        };
        acquiring.poll(context).map_ok(Guard::new)
    }
}

impl<F: Fencing> fmt::Debug for Acquire<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acquire")
    }
}

impl<F: Fencing> fmt::Debug for LockRequest<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockRequest").field(&self.asked).finish()
    }
}
