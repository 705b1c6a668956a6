//! Without the feature `tracing` spans do nothing.

use std::time::Duration;

use crate::error::{Error, Holder};
use crate::names::Names;
use crate::policy::{End, Loss, TimerKey};

#[derive(Default)]
pub(crate) struct AcquireSpan(());

impl AcquireSpan {
    pub(crate) fn open(
        _names: &[Names],
        _label: Option<&str>,
        _ttl_ms: u64,
        _is_fenced: bool,
        _quorum: impl FnOnce() -> (usize, usize),
        _server: impl FnOnce() -> Option<String>,
    ) -> Self {
        Self(())
    }

    #[cfg(any(test, feature = "takeover"))]
    pub(crate) fn stolen(&self, _from: &Holder) {}

    pub(crate) fn refused(&self, _error: &Error) {}

    pub(crate) fn cancelled(&self) {}
}

#[derive(Default)]
pub(crate) struct Holds(());

impl Holds {
    pub(crate) fn granted(
        &self,
        _id: TimerKey,
        _acquire: &AcquireSpan,
        _token: Option<u64>,
        _waited: Duration,
    ) {
    }

    #[cfg(any(test, feature = "_kinds"))]
    pub(crate) fn goes_on(&self, _id: TimerKey, _other: TimerKey, _token: Option<u64>) {}

    pub(crate) fn ends(&self, _id: TimerKey, _end: End) {}

    pub(crate) fn lost(&self, _id: TimerKey, _names: &Names, _reason: Loss) {}

    pub(crate) fn renew(&self, _id: TimerKey) -> Step {
        Step(())
    }

    #[cfg(test)]
    pub(crate) fn renews(&self, _id: TimerKey) {}

    pub(crate) fn renewed(&self, _id: TimerKey, _outcome: &'static str) {}

    pub(crate) fn release_asked(&self, _id: TimerKey, _names: &Names) -> Step {
        Step(())
    }

    pub(crate) fn release(&self, _id: TimerKey) -> Step {
        Step(())
    }
}

#[derive(Default)]
pub(crate) struct Step(());

impl Step {
    pub(crate) fn end(&mut self, _outcome: &'static str) {}

    pub(crate) fn ends(&mut self, _end: End) {}
}
