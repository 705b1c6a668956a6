//! Exposure with a known bug: the last refusal speaks for all questions before it.

use super::Mutant;
use crate::policy::exposure;

/// As [`exposure::Exposure`], but for the bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exposure(exposure::Exposure);

impl Exposure {
    pub(crate) fn is_none(self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn ask(&mut self) {
        self.0.ask();
    }

    pub(crate) fn was_not_run(&mut self) -> bool {
        if Mutant::LastRefusalSpeaksForAll.is_on() {
            self.0 = exposure::Exposure::default();
        }
        self.0.was_not_run()
    }
}
