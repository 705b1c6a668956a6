//! One lock, as it is asked for.

mod holding;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::defaults::Defaults;
use crate::error::Error;
use crate::lock::acquirer::Acquiring;
use crate::lock::core::Core;
use crate::lock::engine::Engine;
use crate::lock::guard::{Fenced, Fencing, Guard, Unfenced};
use crate::lock::names::Names;
use crate::lock::one_or_many::OneOrMany;
use crate::lock::order::{Order, Replicas, Wish};
use crate::lock::owner::check_label;
use crate::policy::{Bounds, Retry, Term, Units, Wait};

/// A lock that is about to be taken: `.await` it, after setting what differs from the locker's
/// defaults.
///
/// # Errors
///
/// By [`Error::kind`]:
///
/// - [`ErrorKind::Contended`]: another holds the lock (only when not waiting, or when the wait ran
///   out, which is [`Error::is_timeout`] too).
/// - [`ErrorKind::Unavailable`]: the server did not serve. A waiting request rides such failures
///   out until its wait runs out, which is [`Error::is_timeout`] too, or for one TTL where it has
///   set no limit.
/// - [`ErrorKind::TooLate`]: the lock was granted with too little validity left.
/// - [`ErrorKind::Auth`], [`ErrorKind::Misuse`]: no further try would help.
///
/// [`ErrorKind::Contended`]: crate::ErrorKind::Contended
/// [`ErrorKind::Unavailable`]: crate::ErrorKind::Unavailable
/// [`ErrorKind::TooLate`]: crate::ErrorKind::TooLate
/// [`ErrorKind::Auth`]: crate::ErrorKind::Auth
/// [`ErrorKind::Misuse`]: crate::ErrorKind::Misuse
///
/// # Cancel safety
///
/// A request that is dropped while it waits holds nothing: whatever the server may have granted is
/// given back, without blocking.
#[must_use = "a lock is taken when its request is awaited"]
pub struct LockRequest<F: Fencing = Fenced> {
    engine: Arc<Engine>,
    defaults: Arc<Defaults>,
    asked: Asked,
    fencing: PhantomData<fn() -> F>,
}

/// What is asked for, unchecked: what is wrong with it is said when the request is awaited.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Or what is wrong with a name.
    names: Result<OneOrMany<Names>, Error>,
    /// Where it is not the locker's.
    ttl: Option<Duration>,
    expected: Option<Duration>,
    min_validity: Option<Duration>,
    label: Option<Arc<str>>,
    wait: Wait,
    retry: Retry,
    is_renewed: bool,
    is_fair: bool,
    refuses_own: bool,
    replicas: Option<Replicas>,
    bounds: Bounds,
}

impl LockRequest<Fenced> {
    pub(crate) fn new(
        engine: Arc<Engine>,
        defaults: Arc<Defaults>,
        names: Result<OneOrMany<Names>, Error>,
        wait: Wait,
    ) -> Self {
        let Defaults { min_validity, ref label, retry, is_renewed, replicas, .. } = *defaults;
        let label = label.clone();
        let (ttl, expected, is_fair) = (None, None, false);
        let asked = Asked {
            names,
            ttl,
            expected,
            min_validity,
            label,
            wait,
            retry,
            is_renewed,
            is_fair,
            refuses_own: false,
            replicas,
            bounds: Bounds::default(),
        };
        Self { engine, defaults, asked, fencing: PhantomData }
    }

    /// Takes the lock by a plain `SET NX PX`, which costs the server less, and without a fencing
    /// token: a guard that outlives its lease unnoticed has nothing that a resource could refuse.
    /// Such a first try overtakes who waits in other processes, unless it is
    /// [fair](LockRequest::fair), which costs what a fenced one does.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let guard = locker.lock("cache:warm").unfenced().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unfenced(self) -> LockRequest<Unfenced> {
        let Self { engine, defaults, asked, .. } = self;
        LockRequest { engine, defaults, asked, fencing: PhantomData }
    }
}

impl<F: Fencing> LockRequest<F> {
    /// How long the lease lasts: from 10 ms to a day, in whole milliseconds; with a restart guard
    /// at most [`Builder::longest_ttl`](crate::Builder::longest_ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.asked.ttl = Some(ttl);
        self
    }

    /// How long the lock is likely to be held: the TTL is chosen to fit, within the bounds of
    /// [`Builder::adaptive_ttl`](crate::Builder::adaptive_ttl), which it needs.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Locker;
    ///
    /// let (shortest, longest) = (Duration::from_secs(1), Duration::from_secs(60));
    /// let builder = Locker::builder().node("redis://localhost").adaptive_ttl(shortest, longest);
    /// let guard = builder.connect().await?.lock("report").expect(Duration::from_secs(20)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn expect(mut self, duration: Duration) -> Self {
        self.asked.expected = Some(duration);
        self
    }

    /// Leaves the lease to end at its TTL, unless it is extended by hand.
    pub fn no_renewal(mut self) -> Self {
        self.asked.is_renewed = false;
        self
    }

    /// When to try again, where no server tells that the lock is free, and how often to try at
    /// all.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.asked.retry = retry;
        self
    }

    /// How much of the lease has to be left when it is granted; a later grant is given back. A
    /// tenth of the TTL by default.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.asked.min_validity = Some(min_validity);
        self
    }

    /// How long to wait while another holds the lock, or the server does not serve: the request is
    /// answered within this time, whatever servers do. What an attempt that is under way then may
    /// still be granted is given back, without blocking. A limit of zero is one attempt, as of
    /// [`Locker::try_lock`](crate::Locker::try_lock).
    pub fn wait_at_most(mut self, limit: Duration) -> Self {
        self.asked.wait = Wait::AtMost(limit);
        self
    }

    /// Leaves a lock that is free to those who wait for it.
    ///
    /// By default a request that does not wait ([`Locker::try_lock`](crate::Locker::try_lock)) barges:
    /// it takes a lock that is free at that moment, also before those who wait for it, as does the
    /// first try of an [unfenced](LockRequest::unfenced) request. A process that tries again and
    /// again can so keep waiters from the lock for long. A fair one is refused then
    /// ([`Error::is_contended`], with [`Vote::Queued`](crate::Vote::Queued)). With several servers only
    /// one of them counts who waits: there it is a courtesy, which may fail.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// match locker.try_lock("nightly").fair().await {
    ///     Ok(guard) => guard.release().await?,
    ///     Err(error) if error.is_contended() => println!("{error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn fair(mut self) -> Self {
        self.asked.is_fair = true;
        self
    }

    /// Has `count` replicas of the server acknowledge the lease, and each of its renewals, within
    /// this time (Redis' `WAIT`); one that too few have acknowledged is given back, or is not
    /// renewed ([`Error::is_unreplicated`]).
    ///
    /// This is best effort: it makes it less likely that a replica is promoted that does not know
    /// of the lease, and does not rule it out, because whoever promotes one does not ask which knew
    /// most. It costs a round trip to the replicas, on a connection that such requests share: one
    /// question to the replicas answers for all that was written before it, so a crowd is told
    /// hardly later than a single caller: at `within` and two tenths of a second where replicas are
    /// away. The error says how many acknowledged the lease. Leases of this kind are handed
    /// over only among themselves.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// match locker.lock("payout").replicas(1, Duration::from_millis(50)).await {
    ///     Ok(guard) => guard.release().await?,
    ///     Err(error) if error.is_unreplicated() => eprintln!("no replica has it: {error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn replicas(mut self, count: u32, within: Duration) -> Self {
        self.asked.replicas = Some(Replicas { count, within });
        self
    }

    /// Who takes the lock, for people: others see it in their errors. At most 256 bytes.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.asked.label = Some(label.into());
        self
    }

    /// Takes the lock, does `work` while the lease holds, and gives the lock back.
    ///
    /// # Errors
    ///
    /// As awaiting the request; and [`Error::is_lost`] when the lease was lost before `work` was
    /// done, which is dropped then. A release that no server confirmed is no error: it has been
    /// queued once more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and gives the lock back, without blocking.
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
            Err(error) if error.is_lost() => Err(error),
            _ => Ok(output),
        }
    }
}

impl Asked {
    /// What is asked for, if it can be.
    fn wish(self, core: &Core, defaults: &Defaults, is_fenced: bool) -> Result<Wish, Error> {
        let Self {
            names,
            ttl,
            expected,
            min_validity,
            label,
            is_renewed,
            replicas,
            refuses_own,
            ..
        } = self;
        let (wait, retry, is_fair, bounds) = (self.wait, self.retry, self.is_fair, self.bounds);
        let names = names?;
        let fitting = || defaults.ttl(core.meter(), expected);
        let ttl = match (ttl, expected) {
            (Some(ttl), None) => ttl,
            (Some(ttl), Some(_)) => fitting().map(|_| ttl)?,
            (None, _) => fitting()?,
        };
        let term = Term::new(ttl, min_validity).map_err(Error::misuse)?;
        if let Some(longest) = core.longest_ttl().filter(|longest| ttl > *longest) {
            return Err(Error::misuse(format_args!(
                "TTL {} exceeds the longest TTL, {}, for which restarted servers may not vote: raise \
                 Builder::longest_ttl on every client",
                Units(ttl),
                Units(longest)
            )));
        }
        label.as_deref().map_or(Ok(()), check_label).map_err(Error::misuse)?;
        retry.check().map_err(Error::misuse)?;
        replicas.map_or(Ok(()), Replicas::check).map_err(Error::misuse)?;
        bounds.check().map_err(Error::misuse)?;
        let order = Order { term, label, is_fenced, is_renewed, replicas, bounds };
        Ok(Wish { names, order, wait, retry, is_fair, refuses_own })
    }
}

impl<F: Fencing> IntoFuture for LockRequest<F> {
    type Output = Result<Guard<F>, Error>;
    type IntoFuture = Acquire<F>;

    fn into_future(self) -> Acquire<F> {
        Acquire { request: Some(self), acquiring: None }
    }
}

/// A lock that is being taken: what a [`LockRequest`] is when it is awaited.
///
/// # Cancel safety
///
/// As [`LockRequest`] says.
#[must_use = "a lock is taken when its request is awaited"]
pub struct Acquire<F: Fencing = Fenced> {
    /// Until it is first polled.
    request: Option<LockRequest<F>>,
    /// From then on.
    acquiring: Option<Acquiring>,
}

impl<F: Fencing> Future for Acquire<F> {
    type Output = Result<Guard<F>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(request) = self.request.take() {
            let LockRequest { engine, defaults, asked, .. } = request;
            let wish = asked.wish(&engine, &defaults, Guard::<F>::FENCED)?;
            self.acquiring = Some(Acquiring::new(engine, wish));
        }
        let acquiring = self.acquiring.as_mut().expect("a request is polled after it was ready");
        let outcome = ready!(acquiring.poll(context));
        self.acquiring = None;
        Poll::Ready(outcome.map(Guard::new))
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
