//! Why a server gave no usable answer, and the party at fault.

use std::time::Duration;

use super::fault::Fault;
use super::open_error::OpenError;
use super::refusal::{Code, ServerError};
use crate::error::{FailureKind, ServerReport, Vote};
use crate::policy::Units;
use crate::policy::fitness::Unfit;

/// Why a server gave no usable answer.
#[derive(Clone, Debug)]
pub(crate) enum Reason {
    NoConnection(OpenError),
    NoReply(Fault),
    Refused(ServerError),
    /// The nodes of a Cluster redirect to one another in a circle.
    Unsettled(ServerError),
    /// A reply that the question does not have.
    Unexpected,
    /// None within the caller's limit.
    #[cfg(any(test, feature = "election", feature = "family"))]
    Unanswered,
    /// It was not asked, because it did not answer before; how much longer it is not asked.
    BreakerOpen(Duration),
    /// It may not vote.
    Unfit(Unfit),
    /// It may have forgotten leases; how much longer.
    Quarantined(Duration),
    /// It is the primary for the first time, and may have forgotten leases that run for the second.
    #[cfg(any(test, feature = "grace"))]
    Graced(Duration, Duration),
    /// It was promoted while the master before it still granted leases, of which it knows nothing;
    /// how much longer clients may take to notice.
    Settling(Duration),
    /// Its shares are of a semaphore with another limit than this one; 0 for readers.
    #[cfg(any(test, feature = "sharing"))]
    OtherLimit {
        theirs: u64,
        ours: u64,
    },
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
            Self::BreakerOpen(_) | Self::Settling(_) | Self::Unsettled(_) => {
                FailureKind::Unavailable
            }
            Self::Quarantined(_) => FailureKind::RestartQuarantine,
            #[cfg(any(test, feature = "grace"))]
            Self::Graced(..) => FailureKind::Unavailable,
            Self::Unfit(unfit) if !unfit.is_lasting() => FailureKind::Unavailable,
            Self::Unfit(_) => FailureKind::Misuse,
            #[cfg(any(test, feature = "sharing"))]
            Self::OtherLimit { .. } => FailureKind::Misuse,
            Self::Refused(error) => error.kind(),
            Self::NoConnection(error) => error.kind(),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoConnection(error) => error.fmt(f),
            Self::NoReply(fault) => write!(f, "outcome unknown: {fault}"),
            Self::Unexpected => f.write_str("the server sent a reply that no lock command has"),
            #[cfg(any(test, feature = "election", feature = "family"))]
            Self::Unanswered => {
                f.write_str("outcome unknown: no reply within the caller's time limit")
            }
            Self::BreakerOpen(wait) => {
                write!(f, "not asked, as it did not answer before: next try in {:.1}", Units(*wait))
            }
            Self::Unfit(unfit) => unfit.fmt(f),
            Self::Quarantined(wait) => write!(
                f,
                "not asked, as it restarted and may have forgotten leases: it may vote in {:.1}",
                Units(*wait)
            ),
            Self::Settling(wait) => write!(
                f,
                "not asked, as it was just promoted and the old master may still grant leases: it may \
                 grant in {:.1}",
                Units(*wait)
            ),
            #[cfg(any(test, feature = "grace"))]
            Self::Graced(since, left) => write!(
                f,
                "not asked, as the primary changed {:.1} ago and names that were free may have been locked: ask \
                 again in {:.1}",
                Units(*since),
                Units(*left)
            ),
            #[cfg(any(test, feature = "sharing"))]
            Self::OtherLimit { theirs, ours } => {
                let limit = |limit: &u64| match limit {
                    0 => "readers, without a limit".to_owned(),
                    limit => format!("a semaphore with the limit {limit}"),
                };
                let (theirs, ours) = (limit(theirs), limit(ours));
                write!(f, "the name is in use for {theirs}, and this request wants {ours}")
            }
            Self::Unsettled(error) if error.code() == Code::ReadOnly => {
                write!(
                    f,
                    "it was demoted to a replica, and its successor is not known yet ({error})"
                )
            }
            Self::Unsettled(error) => {
                write!(f, "the Cluster's nodes disagree on which of them has the key ({error})")
            }
            Self::Refused(error) => match error.code() {
                Code::ReadOnly => {
                    write!(
                        f,
                        "a replica, which cannot grant locks: give the master's address ({error})"
                    )
                }
                Code::Elsewhere => {
                    write!(
                        f,
                        "the key is on another node of a Redis Cluster: give a redis-cluster:// URL ({error})"
                    )
                }
                Code::Later if error.text().starts_with("CLUSTERDOWN Hash slot") => write!(
                    f,
                    "no node of the Redis Cluster serves the key's slot: `redis-cli --cluster check` \
                     says which slots have no master ({error})"
                ),
                Code::Later if error.text().starts_with("CLUSTERDOWN") => write!(
                    f,
                    "the Redis Cluster does not serve, because a slot has no master or too few \
                     masters are up ({error})"
                ),
                Code::WrongType => write!(
                    f,
                    "the key holds a value that is no lock: use another name or prefix ({error})"
                ),
                _ => error.fmt(f),
            },
        }
    }
}
