//! Where no primary has a grace.

use crate::policy::Moment;

pub(super) struct Met {}

impl Met {
    pub(super) fn new() -> Self {
        Self {}
    }

    pub(super) fn end(&mut self) {}

    pub(super) fn is_open(&self) -> bool {
        false
    }

    pub(super) fn is_unsure(&self, _: Moment) -> bool {
        false
    }
}
