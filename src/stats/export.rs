//! The same figures for the crate `metrics`, which feeds Prometheus among others; nothing where the
//! feature is off.

#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;

use std::time::Duration;

#[cfg(not(feature = "metrics"))]
pub(crate) use off::AtServer;
#[cfg(not(feature = "metrics"))]
pub(super) use off::{describe, export};
#[cfg(feature = "metrics")]
pub(crate) use on::AtServer;
#[cfg(feature = "metrics")]
pub use on::SECONDS_BUCKETS;
#[cfg(feature = "metrics")]
pub(super) use on::{describe, export};

use super::{Counter, Primitive};
use crate::policy::Loss;

/// What is added to a counter, a gauge or a histogram.
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody is told"))]
#[derive(Clone, Copy)]
pub(super) enum Figure {
    Counted(Counter),
    Granted(Duration),
    Refused,
    Cancelled,
    Released(Duration),
    Renewed(Duration),
    LoginRenewed,
    LoginFailed,
    Lost(Loss),
    /// So many more, or less; so with the next.
    Waiting(i32),
    Held(i32),
    Answered(Primitive, &'static str),
}
