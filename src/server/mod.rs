//! A place to send a command: a server that is connected to again whenever it has to be.
//!
//! This layer knows endpoints, reconnection, script caches, waits for a key to change, and which
//! server of a cluster or of a service has a key now. It must never know what a script does, what a
//! lease or an owner is, or how many votes there are.

#[cfg(not(leasehold_machine))]
pub(crate) mod backlog;
#[cfg(not(leasehold_machine))]
pub(crate) mod call;
#[cfg(not(leasehold_machine))]
pub(crate) mod channel;
#[cfg(not(leasehold_machine))]
pub(crate) mod circuit_breaker;
#[cfg(not(leasehold_machine))]
#[cfg_attr(not(feature = "cluster"), path = "cluster/off.rs")]
pub mod cluster;
#[cfg(not(leasehold_machine))]
pub(crate) mod command;
pub mod credentials;
#[cfg(not(leasehold_machine))]
mod desk;
#[cfg(not(leasehold_machine))]
pub(crate) mod encoded;
pub mod endpoint;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
mod host;
#[cfg(not(leasehold_machine))]
pub(crate) mod kin;
#[cfg(feature = "inspect")]
pub(crate) mod lookout;
#[cfg(not(leasehold_machine))]
pub(crate) mod node;
#[cfg(not(leasehold_machine))]
pub(crate) mod place;
#[cfg(not(leasehold_machine))]
pub(crate) mod redelivery;
#[cfg(not(leasehold_machine))]
pub(crate) mod registry;
pub(crate) mod script;
#[cfg(not(leasehold_machine))]
#[cfg_attr(not(feature = "sentinel"), path = "sentinel/off.rs")]
pub(crate) mod sentinel;
#[cfg(not(leasehold_machine))]
pub(crate) mod session;
#[cfg(not(leasehold_machine))]
pub(crate) mod watch;
