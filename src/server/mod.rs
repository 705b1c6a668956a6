//! A place to send a command: a server that is connected to again whenever it has to be.
//!
//! This layer knows endpoints, reconnection, script caches, waits for a key to change, and which
//! server of a cluster or of a service has a key now. It must never know what a script does, what a
//! lease or an owner is, or how many votes there are.

pub(crate) mod backlog;
pub(crate) mod call;
pub(crate) mod channel;
pub(crate) mod circuit_breaker;
#[cfg_attr(not(feature = "cluster"), path = "cluster/off.rs")]
pub mod cluster;
pub(crate) mod command;
pub mod credentials;
mod desk;
pub(crate) mod encoded;
pub mod endpoint;
mod host;
pub(crate) mod kin;
#[cfg(feature = "inspect")]
pub(crate) mod lookout;
pub(crate) mod node;
pub(crate) mod place;
pub(crate) mod redelivery;
pub(crate) mod registry;
pub(crate) mod script;
#[cfg_attr(not(feature = "sentinel"), path = "sentinel/off.rs")]
pub(crate) mod sentinel;
pub(crate) mod session;
pub(crate) mod sha1;
pub(crate) mod watch;
