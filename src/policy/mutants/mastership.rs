//! Mastership with a known bug: Sentinels' answers count for too much.

use super::Mutant;
use crate::policy::Moment;
use crate::policy::mastership::{self, Evidence, Role, Step, Successor};

/// As [`mastership::Mastership`], but for the bug.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mastership<A>(mastership::Mastership<A>);

impl<A: Clone + Eq> Mastership<A> {
    pub(crate) fn new(sentinels: usize) -> Self {
        Self(mastership::Mastership::new(sentinels))
    }

    pub(crate) fn follow(&mut self, successor: &Successor<A>) {
        self.0.follow(successor);
    }

    pub(crate) fn next(&mut self, evidence: &Evidence<A>, now: Moment) -> Step<A> {
        let step = self.step(evidence, now);
        let Step::Follow(successor) = &step else { return step };
        let is_reached = |(server, role): &(A, Role)| {
            *server != successor.master || matches!(role, Role::Master | Role::Replica)
        };
        match Mutant::UnreachableSuccessorIsIgnored.is_on() {
            true if !evidence.roles.iter().all(is_reached) => Step::AskAgain,
            _ => step,
        }
    }

    fn step(&mut self, evidence: &Evidence<A>, now: Moment) -> Step<A> {
        let Some((followed, epoch)) = self.0.followed.clone() else {
            let mut believed = evidence.clone();
            let begins_at_once = Mutant::NewcomerGrantsAtOnce.is_on();
            believed.words.iter_mut().for_each(|word| word.is_new &= !begins_at_once);
            return self.0.next(&believed, now);
        };
        let mut believed = evidence.clone();
        for word in &mut believed.words {
            if Mutant::OlderOneReturns.is_on() && word.master != followed {
                word.epoch = word.epoch.max(epoch + 1);
            }
            word.is_down |= Mutant::RefusedIsDead.is_on() && word.watched == followed;
        }
        self.0.is_down |= Mutant::RefusedIsDead.is_on();
        for (_, role) in &mut believed.roles {
            if Mutant::SilentIsDead.is_on() && *role == Role::Silent {
                *role = Role::Refused;
            }
        }
        if Mutant::FormerMasterIsFollowed.is_on() {
            self.0.replicas = evidence.replicas.clone().unwrap_or_default();
        }
        let sentinels = self.0.sentinels;
        if Mutant::OneSentinelIsEnough.is_on() {
            self.0.sentinels = 1;
        }
        let step = self.0.next(&believed, now);
        self.0.sentinels = sentinels;
        step
    }
}
