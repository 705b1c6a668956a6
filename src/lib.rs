//! Distributed locks on Redis, with no Redis client underneath.
//!
//! A lock in Redis is a *lease*: it ends at a known time unless it is renewed. This crate acquires,
//! renews and releases leases, and gives each a fencing token.
//!
//! ```no_run
//! # async fn example() -> Result<(), leasehold::Error> {
//! use std::time::Duration;
//! use leasehold::Locker;
//!
//! let locker = Locker::connect("redis://127.0.0.1:6379").await?;
//! let guard = locker.lock("invoice:42").ttl(Duration::from_secs(10)).await?;
//! // Pass the token to the resource, which refuses a smaller one than it has seen.
//! println!("token {}, for another {:?}", guard.fence(), guard.remaining());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What holds, and what does not
//!
//! [`Guard::is_lost`] is true at the lease's end at the latest, and no other client is granted the lock
//! before that, while the server keeps its memory, and its clock runs within 1 % and 2 ms of this machine's for one
//! TTL. A process can be paused right after the check. So work that must never be done twice needs [`Guard::fence`], and
//! a resource that refuses smaller tokens.
//! [`guide::guarantees`] lists each guarantee, its condition and the tests that show it. The
//! [`guide`] says how to choose servers, quorum and TTL, what goes wrong, and when to use something
//! else.
//!
//! # Cancel safety
//!
//! In this crate, *cancel safe* means: a future may be dropped at any of its await points; no
//! other caller's reply is affected, and nothing stays held. Each async method says what it may have
//! sent by then. A dropped acquire queues the release of whatever it may have been granted.
//!
//! # Runtimes
//!
//! A [`Locker`] lives on the tokio runtime on which it was connected, with I/O and time enabled: a task there reads
//! replies and renews leases. That runtime has to be driven while the locker is used. A `new_multi_thread` runtime drives
//! itself; a [`new_current_thread`](https://docs.rs/tokio/latest/tokio/runtime/struct.Builder.html#method.new_current_thread)
//! runtime is driven only while a thread is in its `block_on`. While it is not driven, leases expire, and calls from
//! other runtimes end at their limits, with unknown outcomes; once it has ended, calls say so at once.
//!
//! Calls may come from any tokio runtime with time enabled, and from an executor of another kind, such as
//! `futures::executor::block_on`, while the locker's runtime is driven. Guards
//! are [`Send`] and may be dropped anywhere. Outside of a tokio runtime [`Locker::connect`] is an error. If the locker lives on a
//! `current_thread` runtime, requests, extensions and releases from outside of any runtime are errors, too;
//! [`Guard::lost`], [`Guard::run`] and [`Locker::shutdown`] are not, but they wake only while that runtime is driven.
//! Once it has ended, these three end at once.
//!
//! # Panics
//!
//! [`Locker::connect`] panics in a tokio runtime without I/O or time. In a runtime without time, a future panics as soon
//! as it has to wait for some time. A request panics if the operating system has no random bits to give.
//!
//! # Features
//!
//! A default build is for one server, and for Redlock over several. All features are off by default; features whose names
//! begin with `_` are no part of the interface.
//!
//! | Feature | Adds |
//! |---|---|
//! | `blocking` | [`blocking`]: locks for programs without async |
//! | `cluster` | `redis-cluster://` URLs: a Redis Cluster, whose slots move |
//! | `sentinel` | `redis-sentinel://` URLs: a server that Sentinels watch, and replace |
//! | `tls` | `rediss://` and `valkeys://` URLs, by rustls |
//! | `credentials` | `Builder::credentials`: passwords and tokens that change, from a function of yours |
//! | `streams` | `Builder::connector`: connections that the caller opens, through an SSH tunnel or a proxy |
//! | `sharing` | `Locker::read`, `write` and `semaphore`: [readers, writers and permits](guide::sharing) |
//! | `election` | `Locker::elect`: [one of several candidates leads](guide::family#elections) |
//! | `family` | `Locker::limit`, `once`, `idempotent`, `latch` and `barrier`: [beside locks](guide::family) |
//! | `grace` | `Builder::failover_grace`: exclusion that survives the failover of one primary with asynchronous replicas |
//! | `scriptless` | `Builder::scriptless`: locks on servers without Lua that compare in `SET` (Redis 8.4, Valkey 8.1, or later) |
//! | `groups` | `Locker::lock_all` and `lock_any`: several locks, all of them or one |
//! | `takeover` | `LockRequest::steal`, `Guard::into_ticket` and `Locker::adopt`: a lock that passes to another process, with its holder's consent or without |
//! | `replicas` | `Guard::replicated`: how many replicas have the lease |
//! | `adaptive` | `AdaptiveTtl`: a TTL that follows how long leases are held |
//! | `tokio-util` | `Guard::cancellation_token`: tells tasks and threads, which `Guard::run` cannot end, of a loss |
//! | `metrics` | counters, gauges and histograms by the crate `metrics` |
//! | `tracing` | spans for acquire, hold, renew and release by the crate `tracing` |
//! | `examine` | `Builder::examine`: checks whether servers are fit for locks; `check_coexistence`: whether two sets of servers may be in use at once |
//! | `inspect` | `Locker::inspect`, `watch`, `list` and `break_lease`: the holder of each lock |
//! | `testing` | [`testing`]: servers in memory, for tests of your own code |
//! | `serde` | `FencingToken` is `Serialize` and `Deserialize` |
//! | `full` | all of these but `testing` |
//!
//! An address that needs a feature is refused without it, by an error that names the feature; a call that needs one is
//! not there without it.
//!
//! The command `leasehold` is the crate `leasehold-cli`.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(feature = "full", feature = "testing")),
    allow(
        rustdoc::broken_intra_doc_links,
        reason = "what a feature adds is linked to where it is: the build with all features has all links"
    )
)]
#![cfg_attr(
    not(all(
        feature = "cluster",
        feature = "election",
        feature = "family",
        feature = "groups",
        feature = "sentinel",
        feature = "sharing",
        feature = "takeover"
    )),
    allow(
        dead_code,
        unused_imports,
        reason = "what is there for a feature that is off alone: the compiler drops it"
    )
)]
// An address is one of two kinds elsewhere.
#![cfg_attr(
    not(unix),
    allow(dead_code, irrefutable_let_patterns, reason = "there are no Unix sockets")
)]

#[cfg(any(test, feature = "adaptive"))]
mod adaptive;
mod api;
#[cfg(feature = "blocking")]
pub mod blocking;
mod box_future;
mod builder;
mod clock;
#[cfg(any(test, feature = "cluster"))]
mod cluster;
mod defaults;
mod driver;
mod endpoint;
mod error;
#[cfg(feature = "examine")]
pub mod examine;
mod extra;
#[cfg(any(test, feature = "election", feature = "family"))]
mod family;
mod fencing;
mod fingerprint;
mod guard;
mod locker;
mod machine;
mod mutex;
mod names;
mod net;
#[cfg(any(test, feature = "election", feature = "family"))]
mod owner;
mod policy;
mod race;
mod request;
mod scripts;
mod sha1;
mod shutdown;
#[cfg(any(test, feature = "testing"))]
mod sim;
mod spans;
mod stats;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(any(test, feature = "takeover"))]
mod ticket;

#[cfg(test)]
use leasehold_testing as support;

/// What the fuzz targets drive; no part of the library.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub mod cluster {
        pub use crate::cluster::{host_port, map, redirect, slot};
    }

    pub mod endpoint {
        pub use crate::endpoint::*;
    }

    pub use crate::machine::fuzzed as machine;
}

pub mod guide {
    #![doc = include_str!("guide.md")]

    // Of two definitions of a label the first counts: one at the end of a page is for GitHub then.
    pub mod guarantees {
        //! [failover]: crate::guide::pictures#a-failover
        //! [sharing]: crate::guide::sharing
        //! [family]: crate::guide::family
        //!
        #![doc = include_str!("../docs/guarantees.md")]
    }

    // Its snippets are tests, which need the features.
    #[cfg(any(not(doctest), all(feature = "election", feature = "family")))]
    pub mod family {
        //! [sharing]: crate::guide::sharing
        //! [guarantees]: crate::guide::guarantees
        //! [limit]: crate::Locker::limit
        //! [once]: crate::Locker::once
        //! [idempotent]: crate::Locker::idempotent
        //! [elect]: crate::Locker::elect
        //! [latch]: crate::Locker::latch
        //! [barrier]: crate::Locker::barrier
        //!
        #![doc = include_str!("../docs/family.md")]
    }

    #[cfg(any(not(doctest), feature = "sharing"))]
    pub mod sharing {
        #![doc = include_str!("../docs/sharing.md")]
    }

    pub mod pictures {
        //! A lease's life, a quorum, a hand-over, and a failover, in pictures.
        //!
        //! # A lease
        //!
        //! The client counts from before it sent the request, and takes clock drift off. So the lease
        //! ends for its holder before the key expires on the server, whenever replies come.
        //!
        #![doc = include_str!("../docs/pictures/lease.svg")]
        //!
        //! # A quorum
        //!
        //! Any two quorums share servers. Larger quorums share more, so more servers may forget a
        //! lease, but fewer may be down ([`Builder::quorum`](crate::Builder::quorum)).
        //!
        #![doc = include_str!("../docs/pictures/quorum.svg")]
        //!
        //! # A hand-over
        //!
        //! Within a process the next task takes the lease over as it stands, without a command, up to 15 times (16 without a
        //! token) in a row or for a second. If the next task asked for another kind of lease, or less than half of the TTL is
        //! left, one command passes the lock from one owner to the other. Other processes are told by the server.
        //!
        #![doc = include_str!("../docs/pictures/hand-over.svg")]
        //!
        //! # A failover
        //!
        //! A replica that is promoted may not have heard of a lease. With `Builder::failover_grace` it grants nothing
        //! new for as long as such a lease may last, and the holder tells it of the lease.
        //!
        #![doc = include_str!("../docs/pictures/failover.svg")]
    }
}

/// Pages of the repository, whose snippets are tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[cfg(feature = "blocking")]
    #[doc = include_str!("../docs/blocking.md")]
    mod blocking {}
    #[cfg(feature = "streams")]
    #[doc = include_str!("../docs/faq.md")]
    mod faq {}
    #[doc = include_str!("../docs/migration.md")]
    mod migration {}
}

#[cfg(any(test, feature = "adaptive"))]
pub use adaptive::AdaptiveTtl;
pub use builder::Builder;
#[cfg(any(test, feature = "credentials"))]
pub use endpoint::credentials::Credentials;
pub use error::{Error, ErrorKind, FailureKind, Holder, Report, ServerReport, Vote};
pub use fencing::{Fenced, Fencing, FencingToken, Unfenced};
pub use guard::Guard;
pub use locker::Locker;
#[cfg(feature = "tls")]
pub use net::tls::Tls;
#[cfg(any(test, feature = "examine"))]
pub use policy::{CoexistenceError, check_coexistence};
pub use policy::{Loss, Retry, Tolerance};
pub use request::{Acquire, LockRequest};
pub use shutdown::{Shutdown, Unreleased};
#[cfg(any(test, feature = "election", feature = "family"))]
pub use stats::Primitive;
#[cfg(feature = "metrics")]
pub use stats::SECONDS_BUCKETS;
pub use stats::{BreakerState, Event, Latencies, Observer, ServerStats, Stats};
#[cfg(any(test, feature = "takeover"))]
pub use ticket::Ticket;

/// Locks that several holders share: readers, and permits of a semaphore.
///
/// [`Locker::read`](crate::Locker::read), [`Locker::write`](crate::Locker::write) and
/// [`Locker::semaphore`](crate::Locker::semaphore) need the feature `sharing`:
/// [what is promised](crate::guide::sharing).
pub mod sharing {
    pub use crate::error::Shared;
    #[cfg(any(test, feature = "sharing"))]
    pub use crate::locker::sharing::Semaphore;
}

/// Elections, by [`Locker::elect`](crate::Locker::elect): of several candidates one leads at a time.
/// [What is promised](crate::guide::family#elections).
#[cfg(any(test, feature = "election"))]
pub mod election {
    pub use crate::locker::elect::{Campaign, Campaigning, Election, Leadership};
    #[cfg(feature = "inspect")]
    pub use crate::locker::seat::{ElectionWatch, Leader, LeaderState};
}

/// Rate limits, by [`Locker::limit`]. [What is promised](crate::guide::family#limits).
#[cfg(any(test, feature = "family"))]
pub mod limits {
    pub use crate::family::limit::{Allowance, RateLimit, Reservation};
    pub use crate::family::rate::Rate;
}

/// What is done once: a [job](Locker::once) in each slot of its schedule, and a [request](Locker::idempotent) under
/// its idempotency key. [What is promised](crate::guide::family#jobs).
#[cfg(any(test, feature = "family"))]
pub mod once {
    pub use crate::family::idempotency::{Attempt, IdempotentRequest, RequestOutcome};
    pub use crate::family::once::{Job, JobOutcome, Run, Slot};
}

/// Waiting for others: [latches](Locker::latch), which open once, and [barriers](Locker::barrier), which open again and
/// again. [What is promised](crate::guide::family#latches).
#[cfg(any(test, feature = "family"))]
pub mod barriers {
    pub use crate::family::barrier::{Barrier, Generation, Party};
    pub use crate::family::latch::{Latch, LatchState};
}

/// What servers show of locks, by [`Locker::inspect`], [`Locker::list`] and [`Locker::watch`], and of what is beside
/// them.
#[cfg(feature = "inspect")]
pub mod inspect {
    #[cfg(any(test, feature = "family"))]
    pub use crate::family::kept::{PrimitiveState, WorkState};
    #[cfg(any(test, feature = "family"))]
    pub use crate::locker::primitives::{PrimitiveView, Primitives};
    pub use crate::locker::{
        list::List,
        view::{Broken, HolderView, LockView, ServerFailure},
        watch::LockWatch,
    };
    pub use crate::policy::LockState;
}
