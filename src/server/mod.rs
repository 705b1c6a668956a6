//! A place to send a command: a server that is connected to again whenever it has to be.
//!
//! This layer knows endpoints, reconnection, script caches, waits for a key to change, and which
//! server of a cluster or of a service has a key now. It must never know what a script does, what a
//! lease or an owner is, or how many votes there are.

#[cfg(any(test, feature = "_engine"))]
pub(crate) mod backlog;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod call;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod channel;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod circuit_breaker;
#[cfg(any(test, feature = "_engine"))]
#[cfg_attr(not(feature = "cluster"), path = "cluster/off.rs")]
pub mod cluster;
#[cfg(all(feature = "cluster", not(any(test, feature = "_engine"))))]
#[path = "cluster/parts.rs"]
pub mod cluster;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod command;
pub mod credentials;
#[cfg(any(test, feature = "_engine"))]
mod desk;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod encoded;
pub mod endpoint;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
mod host;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod kin;
#[cfg(all(feature = "inspect", any(test, feature = "_engine")))]
pub(crate) mod lookout;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod node;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod place;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod redelivery;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod registry;
pub(crate) mod script;
#[cfg(any(test, feature = "_engine"))]
#[cfg_attr(not(feature = "sentinel"), path = "sentinel/off.rs")]
pub(crate) mod sentinel;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod session;
#[cfg(any(test, feature = "_engine"))]
pub(crate) mod watch;
#[cfg(feature = "sentinel")]
pub(crate) mod word;
