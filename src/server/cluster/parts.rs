//! What is known of Clusters without I/O.

pub mod host_port;
pub mod map;
pub mod redirect;
pub mod slot;
