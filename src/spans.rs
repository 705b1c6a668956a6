//! The life of a lease as spans of the crate `tracing`; nothing where the feature is off.
//!
//! Spans are created and recorded to, but never entered: an acquire may be polled on any thread, and other code must
//! not appear inside its span.

#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;

#[cfg(not(feature = "tracing"))]
use off as present;
#[cfg(feature = "tracing")]
use on as present;

pub(crate) use present::{AcquireSpan, Holds};
