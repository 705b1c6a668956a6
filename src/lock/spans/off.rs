//! Without the feature `tracing` there are no spans.

use std::time::Duration;

use super::super::core::Core;
use super::super::names::Names;
use super::super::order::Wish;
use crate::error::{Error, Holder};
use crate::policy::Loss;

#[derive(Default)]
pub(in crate::lock) struct AcquireSpan(());

impl AcquireSpan {
    #[inline(always)]
    pub(in crate::lock) fn open(_core: &Core, _wish: &Wish) -> Self {
        Self(())
    }

    #[inline(always)]
    pub(in crate::lock) fn granted(
        &self,
        _hold: &HoldSpan,
        _names: &[Names],
        _token: Option<u64>,
        _waited: Duration,
    ) {
    }

    #[inline(always)]
    pub(in crate::lock) fn stolen(&self, _names: &[Names], _from: &Holder) {}

    #[inline(always)]
    pub(in crate::lock) fn refused(&self, _error: &Error) {}

    #[inline(always)]
    pub(in crate::lock) fn cancelled(&self) {}
}

#[derive(Default)]
pub(in crate::lock) struct HoldSpan(());

impl HoldSpan {
    #[inline(always)]
    pub(in crate::lock) fn close(&self, _outcome: &'static str) {}

    #[inline(always)]
    pub(in crate::lock) fn lost(&self, _names: &[Names], _reason: Loss) {}

    #[inline(always)]
    pub(in crate::lock) fn renew(&self) -> Step {
        Step(())
    }

    #[inline(always)]
    pub(in crate::lock) fn release(&self) -> Step {
        Step(())
    }
}

#[derive(Default)]
pub(in crate::lock) struct Step(());

impl Step {
    #[inline(always)]
    pub(in crate::lock) fn end(&mut self, _outcome: &'static str) {}
}
