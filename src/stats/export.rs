//! The same figures for the crate `metrics`, for Prometheus among others; nothing without the feature.

mod figure;
#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;

pub(crate) use figure::Counter;
pub(super) use figure::Figure;
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
