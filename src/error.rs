//! The one error of this crate, opaque, with predicates; and the report it carries.

mod report;

use std::fmt;
use std::time::Duration;

use crate::policy::Loss;

pub(crate) use report::Configured;
pub use report::{FailureKind, Holder, Report, ServerReport, Vote};

/// Why a lock could not be taken, kept or given back.
///
/// Ask it with its predicates; several can be true of one error (a wait that ran out because
/// another held the lock is a timeout and contended). Its text names the lock, the server and the
/// party at fault, and never a password.
///
/// # Examples
///
/// ```no_run
/// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
/// match locker.try_lock("nightly").await {
///     Ok(guard) => guard.release().await?,
///     Err(error) if error.is_contended() => match error.report().holder() {
///         Some(holder) => println!("{} has it for {:?}", holder.owner, holder.remaining),
///         None => println!("another has it"),
///     },
///     Err(error) if error.is_unavailable() => eprintln!("later, perhaps: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    lock: Option<String>,
    report: Report,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// Another holds the lock, and nobody was to wait.
    Contended,
    /// The wait ran out.
    TimedOut { waited: Duration },
    /// It was granted with too little validity left, and given back.
    TooLate,
    /// The servers that would have had to agree did not.
    NoQuorum,
    /// The lease is no longer held.
    Lost(Loss),
    /// The locker was shut down.
    ShutDown,
    /// The caller asked for what cannot be.
    Misuse(String),
}

impl Error {
    pub(crate) fn new(kind: Kind, lock: String, report: Report) -> Self {
        Self(Box::new(Inner { kind, lock: Some(lock), report }))
    }

    pub(crate) fn misuse(what: impl fmt::Display) -> Self {
        Self::of_no_lock(Kind::Misuse(what.to_string()), Report::default())
    }

    fn of_no_lock(kind: Kind, report: Report) -> Self {
        Self(Box::new(Inner { kind, lock: None, report }))
    }

    /// There is no locker, because a server could not be connected to.
    pub(crate) fn connect(report: Report) -> Self {
        Self::of_no_lock(Kind::NoQuorum, report)
    }

    /// Another holds the lock; [`Error::report`] says who, where that is known.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        match self.0.kind {
            Kind::Contended => true,
            Kind::TimedOut { .. } => self.0.report.is_held(),
            _ => false,
        }
    }

    /// Time ran out: the wait that was allowed, or the validity of what was granted.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.kind, Kind::TimedOut { .. } | Kind::TooLate)
    }

    /// The lease ended before this call did: work under it may no longer be exclusive.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.0.kind, Kind::Lost(_))
    }

    /// Why the lease ended, if it did.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        match self.0.kind {
            Kind::Lost(loss) => Some(loss),
            _ => None,
        }
    }

    /// The locker was shut down: it takes no locks any more.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        matches!(self.0.kind, Kind::ShutDown | Kind::Lost(Loss::ShutDown))
    }

    /// Too few servers answered as they would have had to.
    #[must_use]
    pub fn is_no_quorum(&self) -> bool {
        matches!(self.0.kind, Kind::NoQuorum)
    }

    /// A command was sent and no answer came: it may have been carried out.
    ///
    /// An acquire that ends so does not hold the lock, and has asked the servers to take back
    /// what they may have granted; at the worst the lock stays taken for one TTL.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.is_failure_of(FailureKind::Unknown)
    }

    /// A server could not be reached, or said that it cannot serve now; or the provider of
    /// [`Builder::credentials`](crate::Builder::credentials) gave none for it.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.is_failure_of(FailureKind::Unavailable)
    }

    /// One side was not satisfied with who the other is: a server refused the credentials or the
    /// client certificate, or the user lacks a right; or the server's own certificate was refused,
    /// because it has expired, is for another host or was issued by an unknown CA.
    #[must_use]
    pub fn is_auth(&self) -> bool {
        self.is_failure_of(FailureKind::Auth)
    }

    /// Servers that restarted may not vote until the leases that they may have forgotten have
    /// ended; the report says how long that is.
    #[must_use]
    pub fn is_restart_guard(&self) -> bool {
        self.is_failure_of(FailureKind::RestartGuard)
    }

    /// The call itself was wrong: a name, a TTL, a URL, a key that holds something else, a server
    /// that does not speak TLS where it is wanted, or does where it is not. Trying again will not
    /// help.
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        matches!(self.0.kind, Kind::Misuse(_)) || self.is_failure_of(FailureKind::Misuse)
    }

    /// Too few replicas acknowledged the lease in time, so it was given back: see
    /// [`LockRequest::replicas`](crate::LockRequest::replicas).
    #[must_use]
    pub fn is_unreplicated(&self) -> bool {
        self.is_failure_of(FailureKind::Unreplicated)
    }

    /// The lock is held by a client that was given other servers, or another quorum: unless that
    /// is a change under way that [`crate::may_coexist`] allows, the two do not exclude each
    /// other, and one of them has to be put right.
    #[must_use]
    pub fn is_other_configuration(&self) -> bool {
        self.0.report.holders().any(|holder| holder.other_configuration)
    }

    /// What each server said, where servers were asked.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0.report
    }

    fn is_failure_of(&self, kind: FailureKind) -> bool {
        matches!(self.0.kind, Kind::NoQuorum | Kind::TimedOut { .. })
            && self.0.report.has_failure(kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(lock) = &self.0.lock {
            write!(f, "lock \"{lock}\": ")?;
        }
        match &self.0.kind {
            Kind::Misuse(what) => return f.write_str(what),
            Kind::Lost(why) => return write!(f, "the lease is lost: {why}"),
            Kind::ShutDown => return f.write_str("the locker was shut down"),
            Kind::Contended => f.write_str("held by another")?,
            Kind::TimedOut { waited } => write!(f, "not to be had within {waited:.1?}")?,
            Kind::TooLate => f.write_str("granted too late to be of use, and given back")?,
            Kind::NoQuorum => f.write_str("too few servers served")?,
        }
        write!(f, ": {}", self.0.report)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}
