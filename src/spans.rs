//! The life of a lease as spans of the crate `tracing`; nothing where the feature is off.
//!
//! Spans are made and recorded to, and never entered: nothing else happens inside of them, and an
//! acquire is polled on whichever thread comes by.

#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;

#[cfg(not(feature = "tracing"))]
use off as present;
#[cfg(feature = "tracing")]
use on as present;

pub(crate) use present::{AcquireSpan, Holds};
