//! The library on real servers; each test starts its own.
//!
//! One program, because linking forty takes longer than most tests do. Tests that need a process of their own are
//! beside it, and say why at their heads.

mod acl;
mod addresses;
#[cfg(all(feature = "election", feature = "family", feature = "sharing"))]
mod answers;
mod backlog;
#[cfg(feature = "family")]
mod barrier;
#[cfg(feature = "blocking")]
mod blocking;
mod busy;
mod cancel;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "credentials")]
mod credentials;
mod dialects;
#[cfg(feature = "family")]
mod durations;
#[cfg(feature = "election")]
mod elect;
#[cfg(all(feature = "metrics", feature = "tracing"))]
mod examples;
mod faults;
#[cfg(feature = "grace")]
mod grace;
mod harness;
mod holding;
#[cfg(feature = "family")]
mod idempotent;
#[cfg(feature = "family")]
mod latch;
mod lease;
#[cfg(feature = "family")]
mod limit;
mod lock;
#[cfg(feature = "groups")]
mod lock_all;
#[cfg(feature = "groups")]
mod lock_any;
#[cfg(feature = "inspect")]
mod looking;
mod loss;
#[cfg(all(feature = "election", feature = "family", feature = "metrics", feature = "sharing"))]
mod metrics;
#[cfg(all(feature = "metrics", feature = "tracing"))]
mod migration;
mod moved;
mod old_servers;
#[cfg(feature = "family")]
mod once;
mod order;
#[cfg(all(feature = "family", feature = "inspect"))]
mod primitives;
mod redlock;
mod redlock_faults;
#[cfg(feature = "family")]
mod register;
mod reign;
mod renewal;
mod repair;
#[cfg(feature = "replicas")]
mod replicas;
mod scriptless;
mod scripts;
#[cfg(feature = "sentinel")]
mod sentinel;
#[cfg(feature = "sharing")]
mod sharing;
mod shutdown;
mod stats;
#[cfg(target_os = "linux")]
mod stepped_clocks;
mod stopped;
#[cfg(feature = "streams")]
mod streams;
#[cfg(feature = "takeover")]
mod taking;
#[cfg(feature = "tls")]
mod tls;
#[cfg(all(
    feature = "election",
    feature = "family",
    feature = "groups",
    feature = "sharing",
    feature = "tracing"
))]
mod tracing;
mod versions;
mod waiting;
#[cfg(feature = "inspect")]
mod watching;
mod whose_reply;
