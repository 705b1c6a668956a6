//! Where no primary has a grace.

use crate::policy::Moment;

pub(super) struct Met {}

impl Met {
    #[inline]
    pub(super) fn new() -> Self {
        Self {}
    }

    #[inline]
    pub(super) fn end(&mut self) {}

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        false
    }

    #[inline]
    pub(super) fn is_unsure(&self, _: Moment) -> bool {
        false
    }
}
