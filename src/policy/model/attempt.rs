//! The models' calls of the shipped attempt: whether a round that some servers granted is a lease.

use std::time::Duration;

use super::super::{Conditions, Moment, Quorum, Tally, Term, VoteReply};

/// Long after all moments that a model looks back to.
pub(super) const NOW: Moment = Moment::from_nanos(1 << 60);

/// The conditions of an attempt at `servers`, by an owner that takes over from nobody.
pub(super) fn conditions(servers: usize, quorum: usize, ttl: Duration) -> Conditions {
    Conditions {
        quorum: Quorum::new(servers, Some(quorum)).expect("the bounds are a quorum"),
        term: Term::new(ttl, None).expect("the bounds are a term"),
        servers_choose: false,
        ends_at: None,
        round_max: ttl,
    }
}

/// A round that began `age` ago: some servers have granted these tokens, and no other has answered.
pub(super) fn round(
    conditions: &Conditions,
    tokens: impl Iterator<Item = u64> + Clone,
    age: Duration,
) -> Tally {
    let verdict = conditions.quorum.verdict(tokens.clone().count(), 0);
    let mut tally = Tally::default();
    tally.conclude(verdict);
    let asked_at = ago(age);
    for token in tokens {
        tally.add(VoteReply::Granted { token: Some(token) }, token, Some(asked_at), NOW);
    }
    tally
}

/// The moment `age` ago.
pub(super) fn ago(age: Duration) -> Moment {
    let age = u64::try_from(age.as_nanos()).expect("spans are short");
    Moment::from_nanos(NOW.as_nanos() - age)
}
