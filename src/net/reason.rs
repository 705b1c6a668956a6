//! Why a server gave no usable answer, and the party at fault.

use std::time::Duration;

use super::fault::Fault;
use super::open_error::OpenError;
use super::refusal::{Code, ServerError};
use crate::error::{FailureKind, ServerReport, Vote};
use crate::policy::Units;
use crate::policy::fitness::Unfit;

/// Why a server gave no usable answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Reason {
    #[error("{0}")]
    NoConnection(OpenError),
    #[error("outcome unknown: {0}")]
    NoReply(Fault),
    #[error("{}", explained(.0, false))]
    Refused(ServerError),
    /// It was demoted, or the nodes of a Cluster redirect to one another in a circle.
    #[error("{}", explained(.0, true))]
    Unsettled(ServerError),
    /// A reply that the question does not have.
    #[error("the server sent a reply that no lock command has")]
    Unexpected,
    /// None within the caller's limit.
    #[cfg(any(test, feature = "election", feature = "family"))]
    #[error("outcome unknown: no reply within the caller's time limit")]
    Unanswered,
    /// It was not asked, because it did not answer before; how much longer it is not asked.
    #[error("not asked, as it did not answer before: next try in {:.1}", Units(*.0))]
    BreakerOpen(Duration),
    /// It may not vote.
    #[error("{0}")]
    Unfit(Unfit),
    /// It may have forgotten leases; how much longer.
    #[error(
        "not asked, as it restarted and may have forgotten leases: it may vote in {:.1}",
        Units(*.0)
    )]
    Quarantined(Duration),
    /// It is the primary for the first time, and may have forgotten leases that run for the second.
    #[cfg(any(test, feature = "grace"))]
    #[error(
        "not asked, as the primary changed {:.1} ago and names that were free may have been locked: ask \
         again in {:.1}",
        Units(*.0), Units(*.1)
    )]
    Graced(Duration, Duration),
    /// It was promoted while the master before it still granted leases, of which it knows nothing;
    /// how much longer clients may take to notice.
    #[error(
        "not asked, as it was just promoted and the old master may still grant leases: it may \
         grant in {:.1}",
        Units(*.0)
    )]
    Settling(Duration),
    /// Its shares are of a semaphore with another limit than this one; 0 for readers.
    #[cfg(any(test, feature = "sharing"))]
    #[error("the name is in use for {}, and this request wants {}", limit(*.theirs), limit(*.ours))]
    OtherLimit { theirs: u64, ours: u64 },
}

impl Reason {
    /// Whether the keys of the question are with two nodes, so that each can be asked for by itself.
    #[cfg(any(test, feature = "inspect"))]
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code() == Code::Apart)
    }

    /// Whether nothing listens there, as where a process has ended.
    #[cfg(feature = "sentinel")]
    pub(crate) fn is_refused_dial(&self) -> bool {
        let Self::NoConnection(OpenError::Dial(error)) = self else { return false };
        error.kind() == std::io::ErrorKind::ConnectionRefused
    }

    /// The same, of a Sentinel.
    #[cfg(feature = "sentinel")]
    pub(crate) fn of_sentinel(self) -> Self {
        match self {
            Self::NoConnection(OpenError::Refused { step, error }) => {
                Self::NoConnection(OpenError::Refused { step, error: error.of_sentinel() })
            }
            other => other,
        }
    }

    /// What is told of a server that could not be asked.
    pub(crate) fn of_server(&self, server: String) -> ServerReport {
        ServerReport { server, vote: self.vote(), round_trip: None }
    }

    pub(crate) fn vote(&self) -> Vote {
        Vote::Failed { kind: self.kind(), reason: self.to_string() }
    }

    /// The party at fault, and whether trying again can help.
    #[inline(never)]
    pub(crate) fn kind(&self) -> FailureKind {
        match self {
            Self::NoReply(_) | Self::Unexpected => FailureKind::Unknown,
            #[cfg(any(test, feature = "election", feature = "family"))]
            Self::Unanswered => FailureKind::Unknown,
            Self::Quarantined(_) => FailureKind::RestartQuarantine,
            Self::Unfit(unfit) if unfit.is_lasting() => FailureKind::Misuse,
            #[cfg(any(test, feature = "sharing"))]
            Self::OtherLimit { .. } => FailureKind::Misuse,
            Self::Refused(error) => error.kind(),
            Self::NoConnection(error) => error.kind(),
            _ => FailureKind::Unavailable,
        }
    }
}

/// A server's words behind what they mean here; of one that may be no master any more, or whose slots move.
fn explained(error: &ServerError, is_moving: bool) -> String {
    let meaning = match error.code() {
        Code::ReadOnly if is_moving => {
            "it was demoted to a replica, and its successor is not known yet"
        }
        _ if is_moving => "the Cluster's nodes disagree on which of them has the key",
        Code::ReadOnly => "a replica, which cannot grant locks: give the master's address",
        Code::Elsewhere => {
            "the key is on another node of a Redis Cluster: give a redis-cluster:// URL"
        }
        Code::Later if error.text().starts_with("CLUSTERDOWN Hash slot") => {
            "no node of the Redis Cluster serves the key's slot: `redis-cli --cluster check` says which slots \
             have no master"
        }
        Code::Later if error.text().starts_with("CLUSTERDOWN") => {
            "the Redis Cluster does not serve, because a slot has no master or too few masters are up"
        }
        Code::WrongType => "a key of this name has another type: use another name or prefix",
        _ => return error.to_string(),
    };
    format!("{meaning} ({error})")
}

#[cfg(any(test, feature = "sharing"))]
fn limit(limit: u64) -> String {
    match limit {
        0 => "readers, without a limit".to_owned(),
        limit => format!("a semaphore with the limit {limit}"),
    }
}
