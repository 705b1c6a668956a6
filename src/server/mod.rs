//! A place to send a command: a server that is connected to again whenever it has to be.
//!
//! This layer knows endpoints, reconnection, script caches and who waits for a key to change. It must never know what a script
//! does, what a lease or an owner is, or how many servers there are beside this one.

pub(crate) mod call;
#[cfg_attr(not(any(test, fuzzing)), expect(dead_code, reason = "nothing is routed by it yet"))]
pub mod cluster;
mod debts;
pub mod endpoint;
pub(crate) mod fitness;
pub(crate) mod node;
pub(crate) mod registry;
pub(crate) mod script;
pub(crate) mod watch;
