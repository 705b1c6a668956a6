//! Servers in memory, for tests of your own code: contention, loss, crashes and outages, with no server
//! and no real waiting.
//!
//! A [`Server`] runs the scripts that this crate sends to Redis, in this process. A locker gets there by
//! [`Server::url`], so code that connects by itself needs no change. A [`Process`] stands for one of your
//! processes: a test can cut it off from servers, or have it crash.
//!
//! ```
//! use std::time::Duration;
//! use leasehold::ErrorKind;
//! use leasehold::testing::{Process, Server};
//!
//! #[tokio::main(flavor = "current_thread")] // in a test: #[tokio::test(start_paused = true)]
//! async fn main() -> Result<(), leasehold::Error> {
//!     tokio::time::pause();
//!     let server = Server::new();
//!     let (ours, theirs) = (Process::new(), Process::new());
//!     let locker = ours.locker(&server).await?;
//!     let other = theirs.locker(&server).await?;
//!
//!     // Contention: the other process has the lock.
//!     let guard = other.lock("nightly").ttl(Duration::from_secs(30)).await?;
//!     let error = locker.try_lock("nightly").await.unwrap_err();
//!     assert_eq!(error.kind(), ErrorKind::Contended);
//!
//!     // A crash: the other process gives nothing back, so its lease ends by its TTL.
//!     theirs.crash();
//!     drop(guard);
//!     let guard = locker.lock("nightly").await?;
//!
//!     // A loss: somebody deletes the key, and work under the lock is dropped.
//!     server.lose("nightly");
//!     let worked = guard.run(tokio::time::sleep(Duration::from_secs(3600))).await;
//!     assert_eq!(worked.unwrap_err().kind(), ErrorKind::Lost);
//!     Ok(())
//! }
//! ```
//!
//! # Time
//!
//! From the first [`Server::new`] on, the clock of all lockers of the program is tokio's, and so is the servers'; also
//! of lockers on real servers. Under `#[tokio::test(start_paused = true)]`, which needs tokio's feature `test-util`,
//! time stands still while any task has work to do, and jumps to the next timer when none has. So a test that waits for
//! a TTL takes no real time.
//!
//! - `tokio::time::sleep(d).await` lets `d` pass: leases are renewed meanwhile.
//! - `tokio::time::advance(d).await` jumps, as if the whole program had been suspended for `d`: leases
//!   that ended meanwhile are lost, and servers have forgotten their keys.
//!
//! On a runtime whose clock is not paused everything works in real time. Paused time does not wait for
//! what tokio cannot see, such as sockets of other programs: it jumps to the next timer. Tests that use
//! such things leave the clock running.
//!
//! # What these servers do
//!
//! They carry out the commands and scripts of this crate as Redis 7.0 does, client tracking and expiry included;
//! randomized tests of this crate compare them with a real one. A quorum of several ([`Server::several`]) has the
//! restart quarantine, as always. Not supported are a Cluster, Sentinels, replicas, TLS, passwords, eviction, `SCAN`
//! (`Locker::list`), databases other than 0, and lockers of `leasehold::blocking`. Use a real server for those, and to
//! test the settings of your servers.
//!
//! # In your manifest
//!
//! ```toml
//! [dev-dependencies]
//! leasehold = { git = "https://github.com/leasehold/leasehold", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! The feature compiles Lua 5.1, by a C compiler and the crate `mlua`. It excludes other versions of Lua by `mlua` in
//! the same build. It is for tests: a program that never makes a [`Server`] keeps its clock, but contains the code.

mod machine;
mod process;
mod server;

pub use process::Process;
pub use server::Server;
