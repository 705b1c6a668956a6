use std::fmt;
use std::time::Duration;

use crate::policy::Units;
use crate::policy::shown::Shown;

/// Each server's answer, in the order of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub(crate) servers: Vec<ServerReport>,
}

/// One server's answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerReport {
    /// The server's address, without credentials.
    pub server: String,
    /// Its vote.
    pub vote: Vote,
    /// From before the first byte of the command was sent until its reply was read. `None` if no reply was read, and
    /// for a release or an extension.
    pub round_trip: Option<Duration>,
}

/// One server's vote on an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// The server granted the lease.
    Granted,
    /// The server granted the lease, and took it from this holder
    /// ([`LockRequest::steal`](crate::LockRequest::steal), [`Locker::adopt`](crate::Locker::adopt)).
    TakenOver(Holder),
    /// Another client holds the lock; without a holder, it has released the lock since.
    Held(Option<Holder>),
    /// The lock is free, and others wait for it.
    #[non_exhaustive]
    Queued {
        /// How many wait.
        waiting: u64,
    },
    /// This client does not hold the lock any more.
    NotOwned,
    /// The server has accepted a fencing token as large as the proposed one, or larger.
    Stale,
    /// The others had decided before the server answered, or was asked.
    Pending,
    /// The server gave no usable answer.
    #[non_exhaustive]
    Failed {
        /// The kind of failure.
        kind: FailureKind,
        /// The server's or the system's error text.
        reason: String,
    },
}

/// Why a server gave no usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The server could not be reached or cannot serve now; it carried out nothing.
    Unavailable,
    /// The command was sent and no reply came: the server may have carried it out.
    Unknown,
    /// The server refused the credentials or the client certificate, or its user lacks a right; or this
    /// client refused the server's certificate.
    Auth,
    /// The server can never carry out the command, or is not fit for locks.
    Misuse,
    /// The server restarted and may have forgotten leases that still run, so it may not vote yet.
    RestartQuarantine,
}

/// The holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The holder's id; another library's whole value.
    pub owner: String,
    /// The label that the holder gave itself.
    pub label: Option<String>,
    /// The time after which the lock is free unless the lease is renewed, from when the server answered;
    /// none if the key has no expiry. It includes the lock-delay.
    pub remaining: Option<Duration>,
    /// How long the lock stays taken after the lease if nobody releases it
    /// ([`LockRequest::lock_delay`](crate::LockRequest::lock_delay)).
    pub lock_delay: Option<Duration>,
    /// What is shared, if the lock is ([`Locker::read`](crate::Locker::read),
    /// [`Locker::semaphore`](crate::Locker::semaphore)): then `owner` and `label` are one sharer's, and `remaining` is
    /// until the last share ends, and at most an eighth longer.
    pub shared: Option<Shared>,
    /// The holder is a guard of this same locker: see [`Error::is_held_here`](crate::Error::is_held_here).
    pub is_here: bool,
    /// Whether the holder has other servers, or another quorum, than this client. Unless that is a change under way
    /// that [`crate::check_coexistence`] allows, the two do not exclude each other: correct one of them.
    pub other_configuration: bool,
    /// The holder's servers and quorum, if its value is one of ours.
    pub(crate) configuration: Configured,
}

/// What the holders of a shared lock are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shared {
    /// They are readers.
    Readers,
    /// They hold permits of a semaphore with this limit.
    Permits {
        /// How many permits the semaphore has.
        limit: u64,
    },
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Readers => f.write_str("readers"),
            Self::Permits { limit } => write!(f, "permits of a semaphore with the limit {limit}"),
        }
    }
}

/// The servers of a holder, by its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Configured {
    /// The value of another library.
    Unknown,
    /// One server.
    Single,
    /// Several servers, by this fingerprint.
    Several(Box<str>),
}

impl Holder {
    /// The lease has ended, nobody released it, and the lock stays taken for the rest of its lock-delay,
    /// which [`Holder::remaining`] says.
    #[must_use]
    pub fn is_delay(&self) -> bool {
        self.remaining.zip(self.lock_delay).is_some_and(|(left, delay)| left <= delay)
    }

    /// The holder, as seen by a client with this fingerprint.
    #[inline(never)]
    pub(crate) fn seen_from(mut self, fingerprint: Option<&str>) -> Self {
        self.other_configuration = match &self.configuration {
            Configured::Unknown => false,
            Configured::Single => fingerprint.is_some(),
            Configured::Several(its) => fingerprint != Some(its),
        };
        self
    }
}

impl Report {
    /// One entry per server.
    #[must_use]
    pub fn servers(&self) -> &[ServerReport] {
        &self.servers
    }

    /// The first holder that a server names.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.holders().next()
    }

    /// The holders, one for each server that named one.
    pub fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.servers.iter().filter_map(|server| match &server.vote {
            Vote::Held(holder) => holder.as_ref(),
            _ => None,
        })
    }

    /// The holders that the lock was taken from, one per server that had one: after
    /// [`LockRequest::steal`](crate::LockRequest::steal) the former holder, after
    /// [`Locker::adopt`](crate::Locker::adopt) the ticket.
    pub fn taken_from(&self) -> impl Iterator<Item = &Holder> {
        self.servers.iter().filter_map(|server| match &server.vote {
            Vote::TakenOver(holder) => Some(holder),
            _ => None,
        })
    }

    pub(crate) fn holders_mut(&mut self) -> impl Iterator<Item = &mut Holder> {
        self.servers.iter_mut().filter_map(|server| match &mut server.vote {
            Vote::Held(holder) => holder.as_mut(),
            _ => None,
        })
    }

    /// What the answers of several servers lack for a quorum, in words; none for a single server.
    pub(crate) fn shortfall(&self) -> Option<String> {
        let all = self.servers.len();
        let can_vote = |server: &ServerReport| match &server.vote {
            Vote::Failed { kind, .. } => {
                !matches!(kind, FailureKind::Unavailable | FailureKind::Unknown)
            }
            Vote::Pending => true,
            _ => false,
        };
        let gave_none = |server: &&ServerReport| matches!(server.vote, Vote::Failed { .. });
        let votes = all - self.servers.iter().filter(gave_none).count();
        let did = if self.servers.iter().any(can_vote) { "can vote" } else { "answered" };
        match (all, votes) {
            (0 | 1, _) => None,
            (_, 0) => Some(format!("none of {all} servers {did}")),
            (_, votes) if votes == all => Some(format!("the {all} servers do not agree")),
            (_, votes) => Some(format!("only {votes} of {all} servers {did}")),
        }
    }

    /// Whether a server failed with this kind.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Error, FailureKind};
    ///
    /// /// Restarted servers may not vote yet: the report says how long that takes.
    /// fn is_quarantine(error: &Error) -> bool {
    ///     error.report().has_failure(FailureKind::RestartQuarantine)
    /// }
    /// ```
    #[must_use]
    #[inline(never)]
    pub fn has_failure(&self, wanted: FailureKind) -> bool {
        self.servers
            .iter()
            .any(|server| matches!(&server.vote, Vote::Failed { kind, .. } if *kind == wanted))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, server) in self.servers.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{server}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ServerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.vote)?;
        match self.round_trip {
            Some(round_trip) => write!(f, " ({:.1})", Units(round_trip)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::TakenOver(holder) => write!(f, "granted, taken from {holder}"),
            Self::Held(Some(holder)) => write!(f, "held by {holder}"),
            Self::Held(None) => f.write_str("held by another client, which has released it since"),
            Self::Queued { waiting } => write!(f, "free, but waiters come first ({waiting})"),
            Self::NotOwned => f.write_str("no longer held by this lease"),
            Self::Stale => f.write_str("has accepted a larger fencing token"),
            Self::Pending => f.write_str("not waited for"),
            Self::Failed { reason, .. } => f.write_str(reason),
        }
    }
}

/// The label if any, escaped for a terminal: it is another client's text.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shared) = self.shared {
            write!(f, "{shared}, one of them ")?;
        }
        match &self.label {
            Some(label) => write!(f, "\"{}\"", Shown(label))?,
            None => write!(f, "owner {}", Shown(&self.owner))?,
        }
        match self.remaining {
            Some(remaining) if self.is_delay() => {
                let left = Units(remaining);
                write!(
                    f,
                    ", whose lease ended without a release: lock-delay for another {left:.1}"
                )?;
            }
            Some(remaining) => write!(f, " for another {:.1}", Units(remaining))?,
            None => f.write_str(" with no expiry")?,
        }
        if self.other_configuration {
            f.write_str(", which has other servers or another quorum than this client")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
