//! What a history must never show. Pure functions; each is shown to fire on a bad history.

use std::time::Duration;

use crate::history::{Answer, At, Claim, Disturbance, Lease};
use leasehold_testing::leases;

#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) name: usize,
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) text: String,
}

fn violation(lease: &Lease, other: &Lease, what: &str) -> Violation {
    let text = format!(
        "{what}: client {} with token {} and client {} with token {}",
        other.client, other.token, lease.client, lease.token
    );
    let from = lease.granted.min(other.granted);
    Violation { name: lease.name, from, to: lease.granted.max(other.granted), text }
}

fn violations(pairs: Vec<(&Lease, &Lease)>, what: &str) -> Vec<Violation> {
    pairs.into_iter().map(|(lease, other)| violation(lease, other, what)).collect()
}

/// A holder of a whole lock is alone, and no more permits are held than there are.
pub(crate) fn crowds(leases: &[Lease], permits: u32) -> Vec<Violation> {
    let told = |crowd: Vec<&Lease>| {
        let last = crowd[crowd.len() - 1];
        let holders: Vec<String> = crowd
            .iter()
            .map(|it| format!("client {} with {:?} and token {}", it.client, it.part, it.token))
            .collect();
        let text = format!("{} hold it at once: {}", crowd.len(), holders.join(", "));
        Violation { name: last.name, from: crowd[0].granted, to: last.granted, text }
    };
    leases::crowds(leases, permits).into_iter().map(told).collect()
}

/// No token of a name is issued twice.
pub(crate) fn tokens_repeat(leases: &[Lease]) -> Vec<Violation> {
    violations(leases::of_one_token(leases), "one token twice")
}

/// A lease that was asked for after another had been granted has the larger token.
pub(crate) fn tokens_disobey_time(leases: &[Lease]) -> Vec<Violation> {
    violations(leases::out_of_order(leases), "the later one has no larger token")
}

/// A lease whose keys nobody took is never told that they are gone before it ends: were a release
/// of one owner to delete another's key, this is where it would show.
pub(crate) fn lost_undisturbed(
    answers: &[Answer],
    leases: &[Lease],
    disturbances: &[Disturbance],
) -> Vec<Violation> {
    let early = answers.iter().filter(|answer| answer.is_lost && answer.returned < answer.until);
    let unexplained = early.filter(|answer| {
        !disturbances.iter().any(|disturbance| {
            disturbance.name.is_none_or(|name| name == answer.name)
                && disturbance.begun <= answer.returned
                && disturbance.ended >= lasted_since(answer, leases)
        })
    });
    unexplained
        .map(|answer| {
            let Answer { name, client, token, call, since, returned, .. } = answer;
            let text = format!("{call} of client {client} with token {token}: its key was taken");
            Violation { name: *name, from: *since, to: *returned, text }
        })
        .collect()
}

/// Servers know a lease that is passed on within a process as one with those before it, whose tokens are the ones before.
fn lasted_since(answer: &Answer, leases: &[Lease]) -> At {
    let (mut token, mut since) = (answer.token, answer.since);
    let before =
        |token| leases.iter().find(|lease| lease.name == answer.name && lease.token + 1 == token);
    while let Some(lease) = before(token) {
        (token, since) = (lease.token, since.min(lease.begun));
    }
    since
}

/// No guard claims more than its TTL less drift from when its question had been answered: less
/// than what it may claim, and all that can be known from outside.
pub(crate) fn claims_too_long(claims: &[Claim]) -> Vec<Violation> {
    let most = |claim: &Claim| {
        let drift = claim.ttl / 100 + Duration::from_millis(2);
        claim.returned + claim.ttl - drift
    };
    claims
        .iter()
        .filter(|claim| claim.until > most(claim))
        .map(|claim| {
            let Claim { name, token, returned, ttl, until } = claim;
            let text = format!("token {token} of TTL {ttl:?} claims {:?}", *until - *returned);
            Violation { name: *name, from: *returned, to: *until, text }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_testing::leases::Part;

    const fn at(ms: u64) -> At {
        Duration::from_millis(ms)
    }

    fn lease(name: usize, token: u64, (begun, granted, until): (u64, u64, u64)) -> Lease {
        let (begun, granted, until) = (at(begun), at(granted), at(until));
        let part = Part::Whole;
        Lease { name, client: 0, part, token, begun, granted, until, extended: 0, end: "released" }
    }

    #[test]
    fn windows_that_overlap_are_found_and_those_that_touch_are_not() {
        let first = lease(0, 1, (0, 10, 20));
        let overlaps = |other| crowds(&[other, first.clone()], 1).len();
        assert_eq!(overlaps(lease(0, 2, (0, 19, 30))), 1);
        assert_eq!(overlaps(lease(0, 2, (0, 12, 13))), 1);
        assert_eq!(overlaps(lease(0, 2, (0, 20, 30))), 0);
        assert_eq!(overlaps(lease(1, 2, (0, 19, 30))), 0, "another name");
        assert_eq!(overlaps(lease(0, 2, (0, 15, 15))), 0, "it was never told that it holds");
        let hidden = [first, lease(0, 2, (0, 11, 12)), lease(0, 3, (0, 15, 16))];
        assert_eq!(crowds(&hidden, 1).len(), 2, "a long window counts past a short one");
    }

    #[test]
    fn three_holders_of_two_permits_are_found_and_a_writer_beside_a_reader() {
        let share = |part, times| Lease { part, ..lease(0, 1, times) };
        let permit = |times| share(Part::Permit(1), times);
        let two = [permit((0, 10, 30)), permit((0, 20, 40))];
        assert_eq!((crowds(&two, 2).len(), crowds(&two, 1).len()), (0, 1));
        let third = |granted| [&two[..], &[permit((0, granted, 50))]].concat();
        assert_eq!(crowds(&third(29), 2).len(), 1);
        assert_eq!(crowds(&third(30), 2).len(), 0, "the first has ended");
        let reader = share(Part::Reader, (0, 10, 30));
        let beside = |part| crowds(&[reader.clone(), share(part, (0, 20, 40))], 1).len();
        assert_eq!((beside(Part::Reader), beside(Part::Whole)), (0, 1));
    }

    #[test]
    fn a_token_that_is_issued_twice_is_found() {
        let first = lease(0, 7, (0, 10, 20));
        let repeats = |other| tokens_repeat(&[first.clone(), other]).len();
        assert_eq!(repeats(lease(0, 7, (30, 40, 50))), 1);
        assert_eq!(repeats(lease(0, 8, (30, 40, 50))), 0);
        assert_eq!(repeats(lease(1, 7, (30, 40, 50))), 0);
    }

    #[test]
    fn a_later_lease_with_a_smaller_token_is_found() {
        let first = lease(0, 7, (0, 10, 20));
        let disobeys = |other| tokens_disobey_time(&[other, first.clone()]).len();
        assert_eq!(disobeys(lease(0, 6, (11, 40, 50))), 1);
        assert_eq!(disobeys(lease(0, 7, (11, 40, 50))), 1);
        assert_eq!(disobeys(lease(0, 8, (11, 40, 50))), 0);
        assert_eq!(disobeys(lease(0, 6, (9, 40, 50))), 0, "it was asked for before");
        assert_eq!(disobeys(lease(1, 6, (11, 40, 50))), 0, "another name");
        let between = [first, lease(0, 3, (11, 12, 13)), lease(0, 5, (14, 15, 16))];
        assert_eq!(tokens_disobey_time(&between).len(), 2, "the highest counts, not the last");
    }

    #[test]
    fn a_key_that_was_taken_by_nobody_known_is_found() {
        let answer = Answer {
            name: 0,
            client: 0,
            token: 1,
            call: "release",
            since: at(100),
            returned: at(200),
            until: at(300),
            is_lost: true,
        };
        let taken = |name, begun, ended| {
            let disturbance = Disturbance { name, begun: at(begun), ended: at(ended) };
            lost_undisturbed(std::slice::from_ref(&answer), &[], &[disturbance]).len()
        };
        assert_eq!(lost_undisturbed(std::slice::from_ref(&answer), &[], &[]).len(), 1);
        assert_eq!(taken(Some(0), 90, 99), 1, "before");
        assert_eq!(taken(Some(0), 201, 202), 1, "after");
        assert_eq!(taken(Some(1), 150, 151), 1, "another name");
        assert_eq!(taken(Some(0), 150, 151), 0);
        assert_eq!(taken(None, 90, 100), 0);
        let late = Answer { returned: at(300), ..answer.clone() };
        assert_eq!(lost_undisturbed(&[late], &[], &[]).len(), 0, "it had ended by itself");
        let held = Answer { is_lost: false, ..answer };
        assert_eq!(lost_undisturbed(&[held], &[], &[]).len(), 0);
    }

    #[test]
    fn a_key_that_was_taken_before_its_lease_was_passed_on_explains_a_loss() {
        let answer = Answer {
            name: 0,
            client: 0,
            token: 3,
            call: "release",
            since: at(100),
            returned: at(200),
            until: at(300),
            is_lost: true,
        };
        let before = [lease(0, 1, (0, 10, 50)), lease(0, 2, (50, 60, 101))];
        let found = |leases: &[Lease], ended| {
            let taken = Disturbance { name: Some(0), begun: at(ended), ended: at(ended) };
            lost_undisturbed(std::slice::from_ref(&answer), leases, &[taken]).len()
        };
        assert_eq!((found(&before, 5), found(&before[1..], 5), found(&[], 70)), (0, 1, 1));
        assert_eq!(found(&[lease(1, 2, (0, 10, 101))], 70), 1, "another name");
    }

    #[test]
    fn a_guard_that_claims_more_than_its_ttl_less_drift_is_found() {
        let claim = |until| Claim { name: 0, token: 1, returned: at(50), ttl: at(1000), until };
        assert_eq!(claims_too_long(&[claim(at(50 + 988))]).len(), 0);
        assert_eq!(claims_too_long(&[claim(at(50 + 989))]).len(), 1);
    }
}
