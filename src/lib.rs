//! x
#![forbid(unsafe_code)]

mod clock;
mod error;
mod lock;
mod locker;
mod net;
mod policy;
mod request;
mod server;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

/// What the fuzz targets drive; no part of the library.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::net::{outbox, outcome, pipeline};
    pub use crate::policy::Moment;
    pub use crate::server::endpoint;
}

pub use error::{Error, FailureKind, Holder, Report, ServerReport, Vote};
pub use lock::guard::{Fenced, Fencing, FencingToken, Guard, Unfenced};
pub use locker::{Builder, Locker};
pub use request::LockRequest;
