//! The library on real servers; each test starts its own.
//!
//! One program, because linking forty takes longer than most tests do. What needs a process of its own
//! is beside it, and says why at its head.

mod acl;
mod addresses;
mod answers;
mod backlog;
mod barrier;
mod cancel;
#[cfg(feature = "cluster")]
mod cluster;
mod credentials;
mod direct;
mod durations;
mod elect;
#[cfg(all(feature = "metrics", feature = "tracing"))]
mod examples;
mod faults;
mod harness;
mod holding;
mod idempotent;
mod latch;
mod lease;
mod limit;
mod lock;
mod lock_all;
mod lock_any;
mod loss;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(all(feature = "metrics", feature = "tracing"))]
mod migration;
mod moved;
mod old_servers;
mod once;
mod order;
#[cfg(feature = "inspect")]
mod primitives;
mod redlock;
mod redlock_faults;
mod register;
mod renewal;
mod repair;
mod replicas;
mod scripts;
#[cfg(feature = "sentinel")]
mod sentinel;
mod sharing;
mod shutdown;
mod stats;
#[cfg(target_os = "linux")]
mod stepped_clocks;
mod taking;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tracing")]
mod tracing;
mod versions;
mod waiting;
#[cfg(feature = "inspect")]
mod watching;
mod whose_reply;
