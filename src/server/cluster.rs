//! Redis Cluster: which server has the lock's key.
//!
//! What is here decides from its arguments alone, and opens nothing.

pub mod host_port;
pub mod map;
pub mod redirect;
pub mod slot;
