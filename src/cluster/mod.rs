//! A Redis Cluster as its nodes tell of it: which of them serves which slot, and which slot has which key.
//!
//! Source: "Redirection and resharding" in the Redis Cluster specification.

pub mod host_port;
pub mod map;
pub mod redirect;
pub mod slot;
