//! The same figures for the crate `metrics`, which feeds Prometheus among others; nothing where the
//! feature is off.

#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;

use std::time::Duration;

use crate::policy::Loss;

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

/// What is added to a counter, a gauge or a histogram.
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody is told"))]
#[derive(Clone, Copy)]
pub(super) enum Figure {
    Attempt,
    Contended,
    Unknown,
    Granted(Duration),
    Refused,
    TimedOut,
    Failed,
    Cancelled,
    LeaseBegan,
    LeaseEnded,
    Released(Duration),
    HandedOver,
    Renewed(Duration),
    RenewalFailed,
    Repaired,
    LoginRenewed,
    LoginFailed,
    Lost(Loss),
    WaiterJoined,
    WaiterLeft,
    Woken,
}
