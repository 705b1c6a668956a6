//! What the tests need: real Redis servers, a proxy that injects faults, a server that replies from a script.
//!
//! A crate of the workspace that is never published. It does not depend on the crate under test, so that unit tests can
//! use it too.

#![forbid(unsafe_code)]
#![allow(
    missing_debug_implementations,
    missing_docs,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    reason = "for tests"
)]
#![allow(clippy::disallowed_methods, reason = "tests measure and wait in real time")]

pub mod accounts;
pub mod binary;
pub mod certificates;
pub mod client;
pub mod cluster;
pub mod fleet;
pub mod front;
pub mod leases;
pub mod old;
pub mod ports;
mod preload;
pub mod program;
pub mod proxy;
pub mod recorded;
pub mod resolver;
pub mod rights;
pub mod scripted;
pub mod sentinel;
pub mod server;
pub mod stepwise;
pub mod texts;
pub mod wall_clock;
pub mod watchdog;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

pub use certificates::{Authority, Identity};
pub use client::Client;
pub use cluster::Cluster;
pub use fleet::Fleet;
pub use program::Program;
pub use proxy::{Fault, FaultProxy, Harm};
pub use scripted::{Action, Command, ScriptedServer};
pub use sentinel::Sentinels;
pub use server::{RedisServer, has_least_rights};
pub use stepwise::Stepwise;
pub use {divan, tracing_subscriber};

/// How long a test waits before it fails as stuck. Generous: it only matters to broken tests.
pub const STUCK: Duration = Duration::from_secs(20);

/// A path of the repository, from its root.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A script with the parts that its lines `--@ name` stand for, as Leasehold sends it.
pub fn whole(script: &str) -> String {
    let part = |line: &str| {
        let name = line.trim().strip_prefix("--@ ")?;
        let path = repository(&format!("scripts/parts/{name}.lua"));
        Some(std::fs::read_to_string(path).expect("the part can be read"))
    };
    script.lines().map(|line| part(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// A unique name, also among test processes.
pub fn unique_name(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // A process may have the id of an ended one, which may have left files.
    static STARTED: LazyLock<Duration> =
        LazyLock::new(|| SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970"));
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{}-{:x}-{count}", std::process::id(), STARTED.as_micros())
}

/// Waits for a condition without an event; panics with `what` after [`STUCK`].
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    let what = what.to_owned();
    let mut condition = condition;
    async move {
        let started = Instant::now();
        while !condition() {
            assert!(started.elapsed() < STUCK, "{caller}: still not true: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Awaits `event`; panics with `what` after [`STUCK`].
#[track_caller]
pub fn soon<T>(what: &str, event: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    let what = what.to_owned();
    async move {
        match tokio::time::timeout(STUCK, event).await {
            Ok(output) => output,
            Err(_) => panic!("{caller}: did not happen in {STUCK:?}: {what}"),
        }
    }
}
