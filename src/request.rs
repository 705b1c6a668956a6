//! One lock, as it is asked for.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::lock::acquire::{Wish, acquire};
use crate::lock::core::Core;
use crate::lock::guard::{Fenced, Fencing, Guard, Unfenced};
use crate::lock::names::{InvalidName, Names};
use crate::lock::owner::check_label;
use crate::policy::{Term, Wait};

/// A lock that is about to be taken: `.await` it, after setting what differs from the locker's
/// defaults.
///
/// # Errors
///
/// - [`Error::is_contended`]: another holds the lock (only when not waiting, or when the wait ran
///   out, which is [`Error::is_timeout`] too).
/// - [`Error::is_unavailable`], [`Error::is_unknown`]: the server did not serve. A waiting request
///   rides such failures out for one TTL.
/// - [`Error::is_auth`], [`Error::is_misuse`]: no further try would help.
///
/// # Cancel safety
///
/// A request that is dropped while it waits holds nothing: whatever the server may have granted is
/// given back, without blocking.
#[must_use = "a lock is taken when its request is awaited"]
pub struct LockRequest<F: Fencing = Fenced> {
    core: Arc<Core>,
    names: Result<Names, InvalidName>,
    ttl: Duration,
    min_validity: Option<Duration>,
    label: Option<Arc<str>>,
    wait: Wait,
    fencing: PhantomData<fn() -> F>,
}

impl LockRequest<Fenced> {
    pub(crate) fn new(
        core: Arc<Core>,
        names: Result<Names, InvalidName>,
        ttl: Duration,
        min_validity: Option<Duration>,
        label: Option<Arc<str>>,
        wait: Wait,
    ) -> Self {
        Self { core, names, ttl, min_validity, label, wait, fencing: PhantomData }
    }

    /// Takes the lock by a plain `SET NX PX`, which costs the server less, and without a fencing
    /// token: a guard that outlives its lease unnoticed has nothing that a resource could refuse.
    pub fn unfenced(self) -> LockRequest<Unfenced> {
        let Self { core, names, ttl, min_validity, label, wait, .. } = self;
        LockRequest { core, names, ttl, min_validity, label, wait, fencing: PhantomData }
    }
}

impl<F: Fencing> LockRequest<F> {
    /// How long the lease lasts: from 10 ms to a day, in whole milliseconds.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How much of the lease has to be left when it is granted; a later grant is given back. A
    /// tenth of the TTL by default.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.min_validity = Some(min_validity);
        self
    }

    /// How long to wait while another holds the lock, or the server does not serve. An attempt
    /// that is under way when the wait ends is seen through.
    pub fn wait_at_most(mut self, limit: Duration) -> Self {
        self.wait = Wait::AtMost(limit);
        self
    }

    /// Who takes the lock, for people: others see it in their errors. At most 256 bytes.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    fn wish(self) -> Result<(Arc<Core>, Wish), Error> {
        let names = self.names.map_err(Error::misuse)?;
        let term = Term::new(self.ttl, self.min_validity).map_err(Error::misuse)?;
        self.label.as_deref().map_or(Ok(()), check_label).map_err(Error::misuse)?;
        let Self { label, wait, .. } = self;
        let fenced = Guard::<F>::FENCED;
        Ok((self.core, Wish { names, term, label, wait, fenced }))
    }
}

impl<F: Fencing> IntoFuture for LockRequest<F> {
    type Output = Result<Guard<F>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (core, wish) = self.wish()?;
            acquire(&core, &wish).await.map(Guard::new)
        })
    }
}

impl<F: Fencing> fmt::Debug for LockRequest<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRequest")
            .field("names", &self.names)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
