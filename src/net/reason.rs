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
    /// The server was demoted, or nodes of a Cluster redirect in a circle.
    #[error("{}", explained(.0, true))]
    Unsettled(ServerError),
    /// A reply of the wrong form for the command.
    #[error("the server sent a reply that no lock command has")]
    Unexpected,
    /// No reply within the caller's limit.
    #[cfg(any(test, feature = "election", feature = "family"))]
    #[error("outcome unknown: no reply within the caller's time limit")]
    Unanswered,
    /// Not asked for this much longer, because it did not answer before.
    #[error("not asked, as it did not answer before: next try in {:.1}", Units(*.0))]
    BreakerOpen(Duration),
    /// The server may not vote.
    #[error("{0}")]
    Unfit(Unfit),
    /// The server may have forgotten leases; the time until it votes.
    #[error(
        "not asked, as it restarted and may have forgotten leases: it may vote in {:.1}",
        Units(*.0)
    )]
    Quarantined(Duration),
    /// How long the server has been the primary, and how much longer it may lack leases.
    #[cfg(any(test, feature = "grace"))]
    #[error(
        "not asked, as the primary changed {:.1} ago and names that were free may have been locked: ask \
         again in {:.1}",
        Units(*.0), Units(*.1)
    )]
    Graced(Duration, Duration),
    /// The server was promoted while the old master still granted leases that it lacks; the time that clients may still
    /// take to notice.
    #[error(
        "not asked, as it was just promoted and the old master may still grant leases: it may \
         grant in {:.1}",
        Units(*.0)
    )]
    Settling(Duration),
    /// The semaphore has shares under another limit; 0 for readers.
    #[cfg(any(test, feature = "sharing"))]
    #[error("the name is in use for {}, and this request wants {}", limit(*.theirs), limit(*.ours))]
    OtherLimit { theirs: u64, ours: u64 },
}

impl Reason {
    /// Whether the command's keys are at two nodes, so that each key needs a command of its own.
    #[cfg(any(test, feature = "inspect"))]
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code() == Code::Apart)
    }

    /// Whether nothing listens there, as after a process has ended.
    #[cfg(feature = "sentinel")]
    pub(crate) fn is_refused_dial(&self) -> bool {
        let Self::NoConnection(OpenError::Dial(error)) = self else { return false };
        error.kind() == std::io::ErrorKind::ConnectionRefused
    }

    /// The same reason, given by a Sentinel.
    #[cfg(feature = "sentinel")]
    pub(crate) fn of_sentinel(self) -> Self {
        match self {
            Self::NoConnection(OpenError::Refused { step, error }) => {
                Self::NoConnection(OpenError::Refused { step, error: error.of_sentinel() })
            }
            other => other,
        }
    }

    /// The report entry of a server that gave no answer.
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

/// What the server's error means, and its text; for a server that may have been demoted, or whose slots move.
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
