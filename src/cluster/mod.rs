//! A Redis Cluster, by its nodes' replies: which node serves a slot, and which slot has a key.
//!
//! Source: "Redirection and resharding" in the Redis Cluster specification.

pub mod host_port;
pub mod map;
pub mod redirect;
pub mod slot;
