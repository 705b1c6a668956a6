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
    asked: Asked,
    fencing: PhantomData<fn() -> F>,
}

/// What is asked for, unchecked: what is wrong with it is said when the request is awaited.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) names: Result<Names, InvalidName>,
    pub(crate) ttl: Duration,
    pub(crate) min_validity: Option<Duration>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) wait: Wait,
}

impl LockRequest<Fenced> {
    pub(crate) fn new(core: Arc<Core>, asked: Asked) -> Self {
        Self { core, asked, fencing: PhantomData }
    }

    /// Takes the lock by a plain `SET NX PX`, which costs the server less, and without a fencing
    /// token: a guard that outlives its lease unnoticed has nothing that a resource could refuse.
    pub fn unfenced(self) -> LockRequest<Unfenced> {
        LockRequest { core: self.core, asked: self.asked, fencing: PhantomData }
    }
}

impl<F: Fencing> LockRequest<F> {
    /// How long the lease lasts: from 10 ms to a day, in whole milliseconds; with a restart guard
    /// at most [`Builder::longest_ttl`](crate::Builder::longest_ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.asked.ttl = ttl;
        self
    }

    /// How much of the lease has to be left when it is granted; a later grant is given back. A
    /// tenth of the TTL by default.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.asked.min_validity = Some(min_validity);
        self
    }

    /// How long to wait while another holds the lock, or the server does not serve. An attempt
    /// that is under way when the wait ends is seen through.
    pub fn wait_at_most(mut self, limit: Duration) -> Self {
        self.asked.wait = Wait::AtMost(limit);
        self
    }

    /// Who takes the lock, for people: others see it in their errors. At most 256 bytes.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.asked.label = Some(label.into());
        self
    }

    fn wish(self) -> Result<(Arc<Core>, Wish), Error> {
        let Asked { names, ttl, min_validity, label, wait } = self.asked;
        let names = names.map_err(Error::misuse)?;
        let term = Term::new(ttl, min_validity).map_err(Error::misuse)?;
        if let Some(longest) = self.core.longest_ttl().filter(|longest| ttl > *longest) {
            return Err(Error::misuse(format_args!(
                "a TTL of {ttl:?} is longer than the longest, {longest:?}, that servers which \
                 restarted are kept from voting for: raise Builder::longest_ttl on every client"
            )));
        }
        label.as_deref().map_or(Ok(()), check_label).map_err(Error::misuse)?;
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
        f.debug_tuple("LockRequest").field(&self.asked).finish()
    }
}
