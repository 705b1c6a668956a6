//! Redelivery with a known bug: a release that has to be sent again is forgotten.

use std::ops::Deref;

use super::Mutant;
use crate::policy::Moment;
use crate::policy::redelivery;

/// As [`redelivery::Redelivery`], but for the bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redelivery(redelivery::Redelivery);

impl Deref for Redelivery {
    type Target = redelivery::Redelivery;

    fn deref(&self) -> &redelivery::Redelivery {
        &self.0
    }
}

impl Redelivery {
    pub fn new(pointless_at: Moment, is_doubtful: bool) -> Self {
        let is_doubtful = is_doubtful && !Mutant::AnAnswerSettlesEveryRelease.is_on();
        Self(redelivery::Redelivery::new(pointless_at, is_doubtful))
    }

    pub(crate) fn after_refusal(&mut self, now: Moment, random: u64) -> Moment {
        let due_at = self.0.after_refusal(now, random);
        if Mutant::RefusedReleaseForgotten.is_on() { self.pointless_at } else { due_at }
    }

    pub(crate) fn after_refusal_elsewhere(&mut self, now: Moment, random: u64) -> Moment {
        let due_at = self.0.after_refusal_elsewhere(now, random);
        if Mutant::RefusedReleaseForgotten.is_on() { self.pointless_at } else { due_at }
    }

    pub(crate) fn was_sent(&mut self, now: Moment) -> Option<(Moment, Self)> {
        self.0.was_sent(now).map(|(due_at, again)| (due_at, Self(again)))
    }
}
