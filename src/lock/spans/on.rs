//! With the feature `tracing`, what happens to a lease is a span or an event of target `leasehold`.
//!
//! What is said in one is the lock, its token, numbers and outcomes, and of errors the text, which
//! names servers by their addresses: no URLs, which may hold passwords, and no ids of our own owners.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tracing::field::{Empty, display};
use tracing::{Span, debug, debug_span, info_span, warn};

use super::super::core::Core;
use super::super::names::{Names, title};
use super::super::order::Wish;
use crate::error::{Error, ErrorKind, Holder};
use crate::mutex::lock;
use crate::policy::Loss;

/// `leasehold.acquire`: from the request's first poll to its answer.
pub(in crate::lock) struct AcquireSpan(Span);

impl Default for AcquireSpan {
    fn default() -> Self {
        Self(Span::none())
    }
}

impl AcquireSpan {
    pub(in crate::lock) fn open(core: &Core, wish: &Wish) -> Self {
        let (quorum, order) = (core.quorum(), &wish.order);
        Self(info_span!(
            target: "leasehold",
            "leasehold.acquire",
            lock = %title(&wish.names),
            locks = wish.names.len(),
            label = order.label.as_deref(),
            ttl_ms = order.term.ttl_ms(),
            servers = core.places().len(),
            quorum = quorum.needed(),
            outcome = Empty,
            token = Empty,
            waited_us = Empty,
            error = Empty,
        ))
    }

    /// The span of its hold begins, beside this one and not within it.
    pub(in crate::lock) fn granted(
        &self,
        hold: &HoldSpan,
        names: &[Names],
        token: Option<u64>,
        waited: Duration,
    ) {
        self.0.record("outcome", "granted");
        self.0.record("token", token);
        self.0.record("waited_us", micros(waited));
        hold.open(names, token, &self.0);
    }

    /// The lock was another holder's until then.
    pub(in crate::lock) fn stolen(&self, names: &[Names], from: &Holder) {
        warn!(target: "leasehold", parent: &self.0, lock = %title(names), %from, "a lock is stolen");
    }

    pub(in crate::lock) fn refused(&self, error: &Error) {
        let outcome = match error.kind() {
            ErrorKind::Contended if error.is_timeout() => "timed_out",
            ErrorKind::Contended => "contended",
            _ => "failed",
        };
        self.0.record("outcome", outcome);
        self.0.record("error", display(error));
    }

    pub(in crate::lock) fn cancelled(&self) {
        self.0.record("outcome", "cancelled");
    }
}

/// `leasehold.hold`: from the grant to the release or the loss. None before and none after.
#[derive(Default)]
pub(in crate::lock) struct HoldSpan(Mutex<Option<Span>>);

impl HoldSpan {
    fn slot(&self) -> MutexGuard<'_, Option<Span>> {
        lock(&self.0)
    }

    fn open(&self, names: &[Names], token: Option<u64>, acquire: &Span) {
        let span = info_span!(
            target: "leasehold",
            "leasehold.hold",
            lock = %title(names),
            token = token,
            outcome = Empty,
            reason = Empty,
        );
        span.follows_from(acquire);
        *self.slot() = Some(span);
    }

    pub(in crate::lock) fn close(&self, outcome: &'static str) {
        if let Some(span) = self.slot().take() {
            span.record("outcome", outcome);
        }
    }

    pub(in crate::lock) fn lost(&self, names: &[Names], reason: Loss) {
        let span = self.slot().take().unwrap_or_else(Span::none);
        span.record("outcome", "lost");
        span.record("reason", display(reason));
        if reason == Loss::ShutDown {
            // As it was meant to be.
            debug!(target: "leasehold", parent: &span, lock = %title(names), "a lease is ended");
        } else {
            warn!(target: "leasehold", parent: &span, lock = %title(names), %reason, "a lease is lost");
        }
    }

    /// A renewal of it begins.
    pub(in crate::lock) fn renew(&self) -> Step {
        let Some(hold) = &*self.slot() else { return Step::default() };
        Step::of(debug_span!(target: "leasehold", parent: hold, "leasehold.renew", outcome = Empty))
    }

    /// Its release begins.
    pub(in crate::lock) fn release(&self) -> Step {
        let Some(hold) = &*self.slot() else { return Step::default() };
        Step::of(
            info_span!(target: "leasehold", parent: hold, "leasehold.release", outcome = Empty),
        )
    }
}

/// Something that is done with a lease: its span ends with this.
pub(in crate::lock) struct Step {
    span: Span,
    outcome: &'static str,
}

impl Default for Step {
    fn default() -> Self {
        Self::of(Span::none())
    }
}

impl Step {
    fn of(span: Span) -> Self {
        Self { span, outcome: "cancelled" }
    }

    pub(in crate::lock) fn end(&mut self, outcome: &'static str) {
        self.outcome = outcome;
        *self = Self::default();
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.span.record("outcome", self.outcome);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
