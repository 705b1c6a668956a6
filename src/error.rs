//! The one error of this crate, opaque, with predicates; and the report it carries.

mod kind;
mod report;
pub(crate) mod value;

use std::fmt;
use std::time::Duration;

pub(crate) use crate::policy::shown::Shown;
use crate::policy::{Loss, Units};

pub use kind::ErrorKind;
pub(crate) use report::Configured;
pub use report::{FailureKind, Holder, Report, ServerReport, Shared, Vote};

const HELD_HERE: &str = "held through this same locker, by another task or by the caller itself";

/// Why a lock could not be acquired, renewed or released.
///
/// [`Error::kind`] says what to do: an error has exactly one kind. Predicates say what else is
/// true: a wait that ran out is [`Error::is_timeout`], whether another client held the lock until
/// then or the servers were down. The text names the lock, the server and the party at fault, and never
/// a password.
///
/// # Examples
///
/// ```no_run
/// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
/// use leasehold::ErrorKind;
///
/// match locker.try_lock("nightly").await {
///     Ok(guard) => guard.release().await?,
///     Err(error) => match error.kind() {
///         ErrorKind::Contended => match error.report().holder() {
///             Some(holder) => println!("held by {holder}"), // "billing-7" for another 3.2 s
///             None => println!("held by another client"),
///         },
///         ErrorKind::Unavailable => eprintln!("try again later: {error}"),
///         _ => return Err(error),
///     },
/// }
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    /// What the error is about, such as a lock, and its name.
    about: Option<(&'static str, String)>,
    report: Report,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// Another client holds the lock; `waited` if the wait ran out.
    Contended { waited: Option<Duration> },
    /// A guard of the same locker holds the lock, and the request refuses that.
    HeldHere,
    /// The lock was granted with too little validity left, and released.
    TooLate,
    /// No quorum agreed; `waited` if the wait ran out, `is_final` if trying again cannot help.
    NoQuorum { waited: Option<Duration>, is_final: bool },
    /// The lease is no longer held.
    Lost(Loss),
    /// A ticket's lease cannot be adopted any more.
    #[cfg(any(test, feature = "takeover"))]
    Spent,
    /// The locker was shut down.
    ShutDown,
    /// The caller's request or setting is invalid.
    Misuse(String),
}

impl Kind {
    /// The kind if no server answered; final if one of them refused for good.
    pub(crate) fn unserved(report: &Report) -> Self {
        let mut lasting = [FailureKind::Auth, FailureKind::Misuse].into_iter();
        Self::NoQuorum { waited: None, is_final: lasting.any(|it| report.has_failure(it)) }
    }
}

impl Error {
    #[inline(never)]
    pub(crate) fn new(kind: Kind, lock: String, report: Report) -> Self {
        Self::of("lock", kind, lock, report)
    }

    /// As [`Error::new`], about something other than a lock.
    #[inline(never)]
    pub(crate) fn of(what: &'static str, kind: Kind, name: String, report: Report) -> Self {
        Self(Box::new(Inner { kind, about: Some((what, name)), report }))
    }

    /// The same error with another name.
    #[cfg(any(test, feature = "groups"))]
    pub(crate) fn named(mut self, name: String) -> Self {
        self.0.about = self.0.about.map(|(what, _)| (what, name));
        self
    }

    pub(crate) fn misuse(what: impl fmt::Display) -> Self {
        Self::misuse_of(&what)
    }

    /// Not generic, so that it is compiled once.
    #[inline(never)]
    fn misuse_of(what: &dyn fmt::Display) -> Self {
        Self::of_no_lock(Kind::Misuse(what.to_string()), Report::default())
    }

    #[inline(never)]
    fn of_no_lock(kind: Kind, report: Report) -> Self {
        Self(Box::new(Inner { kind, about: None, report }))
    }

    /// The error of a locker that could not connect.
    pub(crate) fn connect(report: Report) -> Self {
        Self::of_no_lock(Kind::unserved(&report), report)
    }

    /// The cause, and so what to do about it.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Error, ErrorKind};
    ///
    /// fn status(error: &Error) -> u16 {
    ///     match error.kind() {
    ///         ErrorKind::Contended => 409,
    ///         ErrorKind::Unavailable | ErrorKind::TooLate | ErrorKind::ShutDown => 503,
    ///         _ => 500,
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.0.kind {
            Kind::Contended { .. } | Kind::HeldHere => ErrorKind::Contended,
            Kind::TooLate => ErrorKind::TooLate,
            Kind::NoQuorum { is_final: false, .. } => ErrorKind::Unavailable,
            Kind::NoQuorum { .. } if self.0.report.has_failure(FailureKind::Auth) => {
                ErrorKind::Auth
            }
            Kind::NoQuorum { .. } | Kind::Misuse(_) => ErrorKind::Misuse,
            Kind::Lost(Loss::ShutDown) | Kind::ShutDown => ErrorKind::ShutDown,
            Kind::Lost(_) => ErrorKind::Lost,
            #[cfg(any(test, feature = "takeover"))]
            Kind::Spent => ErrorKind::Lost,
        }
    }

    /// A guard of the same locker, or of a clone of it, holds the lock: the caller waits for itself, or
    /// for another task of this process.
    ///
    /// This is known if the request asked for the check
    /// ([`LockRequest::reject_reentrant`](crate::LockRequest::reject_reentrant)), its wait ran out, or it does not wait and
    /// was refused. In the last case only the first 4,096 leases of the locker are compared.
    #[must_use]
    pub fn is_held_here(&self) -> bool {
        matches!(self.0.kind, Kind::HeldHere) || self.0.report.holders().any(|it| it.is_here)
    }

    /// Time ran out: the limit of the wait, or the validity of the grant. [`Error::kind`] says why the
    /// lock could not be acquired in time.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Error, ErrorKind};
    ///
    /// fn retry_after_secs(error: &Error) -> Option<u64> {
    ///     match (error.is_timeout(), error.kind()) {
    ///         (true, ErrorKind::Contended) => Some(1), // held all the time: soon again
    ///         (true, _) => Some(10), // the servers are slow or down
    ///         (false, _) => None,
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(
            self.0.kind,
            Kind::Contended { waited: Some(_) }
                | Kind::NoQuorum { waited: Some(_), .. }
                | Kind::TooLate
        )
    }

    /// Why the lease ended, if it did: work under it may not have been exclusive. The kind is [`ErrorKind::Lost`], or
    /// [`ErrorKind::ShutDown`] if the locker was shut down.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
    /// match guard.release().await {
    ///     Err(error) if error.loss().is_some() => eprintln!("another client may have done it too: {error}"),
    ///     released => released?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        match self.0.kind {
            Kind::Lost(loss) => Some(loss),
            _ => None,
        }
    }

    /// A command was sent and no reply came: the server may have carried it out.
    ///
    /// After an acquire, the caller does not hold the lock, and a release of whatever the servers may have granted is
    /// queued; at worst the lock stays taken for one TTL. After an extension, the lease stays until its old end. Other
    /// calls document their own outcomes.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// match locker.try_lock("nightly").await {
    ///     Ok(guard) => guard.release().await?,
    ///     // Nothing is held here, and nothing has to be released by hand.
    ///     Err(error) if error.is_unknown() => eprintln!("no reply in time: {error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self.0.kind, Kind::NoQuorum { .. })
            && self.0.report.has_failure(FailureKind::Unknown)
    }

    /// Each server's answer, if servers were asked.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Error, Vote};
    ///
    /// /// The servers that gave no usable answer.
    /// fn failed(error: &Error) -> Vec<String> {
    ///     let servers = error.report().servers().iter();
    ///     let failed = servers.filter(|it| matches!(it.vote, Vote::Failed { .. }));
    ///     failed.map(|it| it.server.clone()).collect()
    /// }
    /// ```
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0.report
    }

    pub(crate) fn report_mut(&mut self) -> &mut Report {
        &mut self.0.report
    }

    /// The error of connecting lists each server's failure, not the number of missing servers.
    fn fmt_no_quorum(&self, waited: Option<Duration>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { about, report, .. } = &*self.0;
        if let Some(waited) = waited {
            write!(f, "could not be acquired within {:.1}", Units(waited))?;
        }
        let shortfall = about.as_ref().and_then(|_| report.shortfall());
        let is_silent = report.servers().is_empty();
        let parts = [shortfall, (!is_silent).then(|| report.to_string())];
        let mut separator = if waited.is_some() { ": " } else { "" };
        for part in parts.into_iter().flatten() {
            write!(f, "{separator}{part}")?;
            separator = ": ";
        }
        if separator.is_empty() { f.write_str("no server answered") } else { Ok(()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((what, name)) = &self.0.about {
            write!(f, "{what} \"{name}\": ")?;
        }
        match &self.0.kind {
            Kind::Misuse(what) => return f.write_str(what),
            Kind::Lost(why) => return write!(f, "the lease is lost: {why}"),
            Kind::ShutDown => return f.write_str("the locker was shut down"),
            Kind::HeldHere => return write!(f, "{HELD_HERE}: locks are not re-entrant"),
            Kind::Contended { waited } => {
                if let Some(waited) = waited {
                    write!(f, "could not be acquired within {:.1}: ", Units(*waited))?;
                }
                let is_here = self.is_held_here();
                f.write_str(if is_here { HELD_HERE } else { "held by another client" })?;
            }
            #[cfg(any(test, feature = "takeover"))]
            Kind::Spent => f.write_str(
                "the ticket is spent: it was adopted before, or its lease has ended",
            )?,
            Kind::TooLate => f.write_str(
                "granted with too little validity left, and given back: the servers are slow, or the \
                 TTL is too short",
            )?,
            Kind::NoQuorum { waited, .. } => return self.fmt_no_quorum(*waited, f),
        }
        if self.0.report.servers().is_empty() {
            return Ok(());
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

#[cfg(all(
    test,
    unix,
    feature = "cluster",
    feature = "sentinel",
    feature = "streams",
    feature = "tls"
))]
mod tests;
