//! Features that only some programs use, built on the machine, which does not name them.

#[cfg(any(test, feature = "cluster"))]
pub(crate) mod apart;
#[cfg(any(test, feature = "cluster"))]
pub(crate) mod cluster;
#[cfg(any(test, feature = "election"))]
pub(crate) mod election;
#[cfg(any(test, feature = "groups"))]
pub(crate) mod groups;
mod queue;
#[cfg(any(test, feature = "sentinel"))]
mod releases;
#[cfg(any(test, feature = "scriptless"))]
pub(crate) mod scriptless;
#[cfg(any(test, feature = "sharing"))]
pub(crate) mod sharing;
#[cfg(any(test, feature = "takeover"))]
pub(crate) mod takeover;

pub(crate) use self::queue::QUEUE;
#[cfg(any(test, feature = "sentinel"))]
pub(crate) use self::releases::Releases;
use crate::machine::Script;

/// The scripts of the kinds of leases in this module.
pub(crate) const SCRIPTS: &[Script] = &[
    #[cfg(any(test, feature = "sharing"))]
    crate::scripts::SHARE,
    #[cfg(any(test, feature = "sharing"))]
    sharing::PROLONG,
    #[cfg(any(test, feature = "takeover"))]
    takeover::SEIZE,
    #[cfg(any(test, feature = "takeover"))]
    takeover::KEEP,
];
