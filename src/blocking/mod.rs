//! Locks for programs without async: the same machine, on threads.
//!
//! # Examples
//!
//! ```no_run
//! # fn main() -> Result<(), leasehold::Error> {
//! use std::time::Duration;
//! use leasehold::blocking::Locker;
//!
//! let locker = Locker::connect("redis://127.0.0.1:6379")?;
//! let guard = locker.lock("invoice:42").wait_at_most(Duration::from_secs(5)).wait()?;
//! println!("token {}", guard.fence());
//! guard.release()?;
//! # Ok(())
//! # }
//! ```

mod dial;
mod driver;
#[cfg(test)]
mod tests;
mod threads;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::driver::Driver;
use crate::api::outcome;
use crate::clock;
use crate::defaults::Defaults;
use crate::driver::Servers;
use crate::error::Error;
use crate::error::value::{Mark, check_label};
use crate::fencing::FencingToken;
use crate::machine::{FENCED, LeaseId, Machine, Options};
use crate::names::Names;
use crate::policy::{Bounds, End, LeaseState, Loss, Quorum, Term, Wait, waitable};
use crate::shutdown::Shutdown;

/// Acquires locks, and renews them, on threads of its own: one for each server, and one with the timer.
///
/// Clones share the threads, which end with the last clone and the last guard.
#[derive(Clone)]
pub struct Locker {
    driver: Arc<Driver>,
    defaults: Arc<Defaults>,
    fingerprint: Option<Box<str>>,
}

impl Locker {
    /// Connects to one server, with the defaults of [`Builder::connect_blocking`](crate::Builder::connect_blocking).
    ///
    /// # Errors
    ///
    /// As [`Builder::connect_blocking`](crate::Builder::connect_blocking).
    pub fn connect(url: &str) -> Result<Self, Error> {
        crate::Locker::builder().node(url).connect_blocking()
    }

    /// Waits until each server was dialled once; `needed` of them have to serve.
    pub(crate) fn start(
        (machine, servers, quorum): (Machine, Servers, Quorum),
        defaults: Defaults,
    ) -> Result<Self, Error> {
        let (fingerprint, count) = (servers.fingerprint.clone(), servers.endpoints.len());
        let driver = Driver::start(machine, servers).map_err(Error::misuse)?;
        outcome::met(driver.meet(), count, quorum.needed())?;
        Ok(Self { driver: Arc::new(driver), defaults: Arc::new(defaults), fingerprint })
    }

    /// A request for the lock `name`, which waits while another client holds it.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.request(name.as_ref(), Wait::Forever)
    }

    /// A request for the lock `name`, which is refused while another client holds it.
    pub fn try_lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.request(name.as_ref(), Wait::Never)
    }

    /// Ends this locker and all its clones, and releases all locks.
    ///
    /// New and waiting requests fail ([`ShutDown`](crate::ErrorKind::ShutDown)), and each lease is lost
    /// ([`Loss::ShutDown`]). Waits until the servers have confirmed all releases, for `within` at most.
    pub fn shutdown(&self, within: Duration) -> Shutdown {
        self.driver.shut_down(within)
    }

    fn request(&self, name: &[u8], wait: Wait) -> LockRequest {
        let Defaults { ref prefix, ttl, min_validity, ref label, is_renewed, .. } = *self.defaults;
        let names = Names::new(prefix, name).map_err(Error::misuse);
        let label = label.clone();
        LockRequest { locker: self.clone(), names, wait, ttl, min_validity, label, is_renewed }
    }
}

/// A request for a lock: [`LockRequest::wait`] acquires it.
#[must_use = "a request does nothing until LockRequest::wait is called"]
pub struct LockRequest {
    locker: Locker,
    names: Result<Names, Error>,
    wait: Wait,
    ttl: Duration,
    min_validity: Option<Duration>,
    label: Option<Arc<str>>,
    is_renewed: bool,
}

impl LockRequest {
    /// Sets the TTL of the lease: 10 ms to 24 h; with a restart quarantine or a failover grace at most
    /// [`Builder::max_ttl`](crate::Builder::max_ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the minimum validity that the lease must have left when it is granted: a tenth of the TTL by default.
    pub fn min_validity(mut self, least: Duration) -> Self {
        self.min_validity = Some(least);
        self
    }

    /// Limits the wait while another client holds the lock; a limit below a millisecond allows one attempt.
    pub fn wait_at_most(mut self, limit: Duration) -> Self {
        self.wait = Wait::AtMost(waitable(limit));
        self
    }

    /// Names the holder for people, as a text in other clients' errors. At most 256 bytes.
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = Some(Arc::from(label.as_ref()));
        self
    }

    /// Does not renew the lease: it ends at its TTL unless [`Guard::extend`] is called.
    pub fn no_renewal(mut self) -> Self {
        self.is_renewed = false;
        self
    }

    /// Acquires the lock; blocks the thread until it is granted or refused.
    ///
    /// # Errors
    ///
    /// [`Contended`](crate::ErrorKind::Contended) if another client holds it, [`Error::is_timeout`] if the wait ran
    /// out, [`Unavailable`](crate::ErrorKind::Unavailable) if too few servers served,
    /// [`TooLate`](crate::ErrorKind::TooLate) if too little validity was left, [`Auth`](crate::ErrorKind::Auth) if
    /// servers refuse the login or a right, [`ShutDown`](crate::ErrorKind::ShutDown) if the locker was shut down,
    /// [`Misuse`](crate::ErrorKind::Misuse) if the request is invalid.
    pub fn wait(self) -> Result<Guard, Error> {
        let Self { locker, names, wait, ttl, min_validity, label, is_renewed } = self;
        let names = names?;
        let term = Term::new(ttl, min_validity).map_err(Error::misuse)?;
        locker.defaults.check_kept(term, Bounds::default())?;
        label.as_deref().map_or(Ok(()), check_label).map_err(Error::misuse)?;
        let fingerprint = locker.fingerprint.as_deref();
        let mark = Mark { fingerprint, label: label.as_deref(), ..Mark::default() };
        let asked_at = clock::now();
        let options = Options {
            kind: &FENCED,
            names: names.clone(),
            term,
            bounds: Bounds::default(),
            wait,
            retry: locker.defaults.retry,
            is_renewed,
            is_fair: false,
            words: Box::default(),
            said: mark.text().unwrap_or_default().into_bytes().into(),
        };
        let id = locker.driver.with(|machine, now| machine.acquire(options, now));
        // From here on dropping the guard releases whatever may have been granted.
        let guard = Guard { locker, id, names };
        let granted =
            guard.driver().wait(None, |machine, context| machine.poll_acquire(id, context));
        match granted {
            Some(Ok(())) => Ok(guard),
            Some(Err(refusal)) => {
                let waited = clock::now().since(asked_at);
                let report = guard.driver().report(id);
                let mut error = outcome::refused(&guard.names, refusal, waited, report);
                outcome::mark_own(&mut error, &|owner, most| {
                    guard.driver().look(|machine| machine.has_owner(owner, most))
                });
                Err(error)
            }
            None => unreachable!("it waits without a limit"),
        }
    }
}

/// A lock that is held. Dropping it releases the lock, without waiting.
#[must_use = "the lock is given back as soon as its guard is dropped"]
pub struct Guard {
    locker: Locker,
    id: LeaseId,
    names: Names,
}

impl Guard {
    /// The lock's key, with the prefix.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.names.lock()
    }

    /// The lease's fencing token: see [`FencingToken`].
    #[must_use]
    pub fn fence(&self) -> FencingToken {
        FencingToken::new(self.driver().look(|machine| machine.token(self.id)))
    }

    /// How long no other client can be granted the lock, unless the lease is renewed; zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let state = self.driver().look(|machine| machine.state(self.id));
        let until = state.and_then(LeaseState::until);
        until.map_or(Duration::ZERO, |until| until.since(clock::now()))
    }

    /// Whether the lease has ended.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.loss().is_some()
    }

    /// Why the lease has ended, if it has.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.driver().with(|machine, now| machine.loss(self.id, now))
    }

    /// Extends the lease to its whole TTL from now on.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if it has ended, [`Unavailable`](crate::ErrorKind::Unavailable) if too few
    /// servers extended it in time, and [`Auth`](crate::ErrorKind::Auth) or [`Misuse`](crate::ErrorKind::Misuse) if
    /// they refuse for good: in the last three cases the lease keeps its old end.
    pub fn extend(&self) -> Result<(), Error> {
        let id = self.id;
        let number = self.driver().with(|machine, now| machine.extend(id, now));
        let mut place = None;
        let extended = self
            .driver()
            .wait(None, |machine, context| machine.poll_extended(id, number, &mut place, context));
        if let Some(place) = place {
            self.driver().with(|machine, _| machine.waits_no_more(id, place));
        }
        self.ends_extension(extended == Some(true))
    }

    /// The process may have stood still since the extension.
    fn ends_extension(&self, is_extended: bool) -> Result<(), Error> {
        match self.loss() {
            Some(loss) => Err(outcome::lost(&self.names, loss)),
            None if is_extended => Ok(()),
            None => Err(self.unconfirmed(outcome::EXTENSION)),
        }
    }

    /// Releases the lock, and waits for the servers' confirmation, for the command timeout at most.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the lease had ended before, [`Unavailable`](crate::ErrorKind::Unavailable)
    /// if too few servers confirmed that the lock is free, and [`Auth`](crate::ErrorKind::Auth) or
    /// [`Misuse`](crate::ErrorKind::Misuse) if they refuse for good: the release goes on in the background, or the
    /// lease ends with its TTL.
    pub fn release(self) -> Result<(), Error> {
        let id = self.id;
        self.driver().with(|machine, now| machine.release(id, now));
        let end = self.driver().wait(None, |machine, context| machine.poll_release(id, context));
        match end.unwrap_or(End::Unconfirmed) {
            End::Lost(loss) => Err(outcome::lost(&self.names, loss)),
            End::Unconfirmed => Err(self.unconfirmed(outcome::RELEASE)),
            _ => Ok(()),
        }
    }

    fn unconfirmed(&self, what: &'static str) -> Error {
        let quorum = self.driver().look(|machine| machine.settings().quorum);
        outcome::unconfirmed(what, &self.names, quorum, self.driver().report(self.id))
    }

    fn driver(&self) -> &Driver {
        &self.locker.driver
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locker").finish_non_exhaustive()
    }
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRequest").finish_non_exhaustive()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name().escape_ascii().to_string())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.driver().with(|machine, now| machine.forget(self.id, now));
    }
}
