//! Where no primary has a grace.

use std::time::Duration;

use super::answer::Answer;
use super::command::{Command, Scripts};
use super::core::Machine;
use super::ids::LeaseId;
use super::lease::{Doubt, Lease};
use super::link::Link;
use super::talk::What;
use crate::policy::{Failing, Moment};

impl Link {
    pub(super) fn refusal_of_locks(&self, now: Moment) -> Option<Failing> {
        self.refusal(now)
    }

    pub(super) fn may_grant(&self, now: Moment) -> bool {
        self.refusal(now).is_none()
    }

    pub(super) fn grace_left(&self, _: Moment) -> Option<Duration> {
        None
    }

    pub(super) fn awaits_reign(&self) -> bool {
        false
    }

    pub(super) fn forgets_reign(&mut self) {}
}

impl Lease {
    pub(super) fn is_only_freed(
        &self,
        _: (LeaseId, usize),
        _: &mut Link,
        _: &mut Command,
        _: &Scripts,
        _: Moment,
    ) -> (bool, bool) {
        (false, false)
    }
}

impl Machine {
    pub(super) fn meets_reign(&mut self, _: usize, _: Moment) {}

    #[cfg(feature = "cluster")]
    pub(super) fn look(&mut self, _: usize, _: Moment) {}

    #[cfg(feature = "cluster")]
    pub(super) fn looks_anew(&mut self, _: Moment) {}

    pub(super) fn must_look(&mut self, _: LeaseId, _: Moment) -> Option<usize> {
        None
    }

    pub(crate) fn entry_must_look(&mut self, _: LeaseId, _: usize, _: Moment) -> bool {
        false
    }

    pub(crate) fn is_given_by_queue(&self, _: usize, _: Moment) -> bool {
        true
    }

    pub(super) fn believed(
        &mut self,
        _: (LeaseId, usize),
        _: (u32, What),
        answer: Answer,
        _: Moment,
    ) -> Answer {
        answer
    }

    pub(super) fn doubt_of_extensions(&self) -> Doubt {
        Doubt::Extension
    }

    pub(super) fn reasserted_by(
        &mut self,
        _: usize,
        _: usize,
        _: &[LeaseId],
        _: Moment,
    ) -> Option<u64> {
        None
    }
}
