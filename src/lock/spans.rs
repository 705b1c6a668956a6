//! The life of a lease as spans of the crate `tracing`; nothing where the feature is off.
//!
//! Spans are made and recorded to, and never entered: nothing else happens inside of them, and an
//! acquire is polled on whichever thread comes by.

#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;

use std::time::Duration;

#[cfg(not(feature = "tracing"))]
use off::AcquireSpan;
#[cfg(not(feature = "tracing"))]
pub(super) use off::{HoldSpan, Step};
#[cfg(feature = "tracing")]
use on::AcquireSpan;
#[cfg(feature = "tracing")]
pub(super) use on::{HoldSpan, Step};

use super::core::Core;
use super::names::Names;
use super::order::Wish;
use crate::error::{Error, Holder};

/// A request that is under way. One that is dropped before it was answered was cancelled.
pub(super) struct Asking<'a> {
    core: &'a Core,
    span: AcquireSpan,
    is_answered: bool,
}

impl<'a> Asking<'a> {
    pub(super) fn begin(core: &'a Core, wish: &Wish) -> Self {
        Self { core, span: AcquireSpan::open(core, wish), is_answered: false }
    }

    pub(super) fn granted(
        mut self,
        hold: &HoldSpan,
        names: &[Names],
        token: Option<u64>,
        waited: Duration,
    ) {
        self.is_answered = true;
        self.span.granted(hold, names, token, waited);
    }

    pub(super) fn stolen(&self, names: &[Names], from: &Holder) {
        self.span.stolen(names, from);
    }

    pub(super) fn refused(mut self, error: &Error) {
        self.is_answered = true;
        self.span.refused(error);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.core.meter().note_cancelled();
            self.span.cancelled();
        }
    }
}
