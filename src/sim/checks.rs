//! What a history must never show. Pure functions; each is shown to fire on a bad history.

use std::time::Duration;

use super::history::{Breach, Claim, Lease, Part, Rest, Shared, Signal};
use crate::support::leases;

/// A timer may be this much late: tokio's count in milliseconds, and by the wrong rate.
const TIMER_SLACK: Duration = Duration::from_millis(3);
const TIMER_RATE_SHARE: u32 = 200;

fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

fn breaches(check: &'static str, pairs: Vec<(&Lease, &Lease)>) -> Vec<Breach> {
    let text = |(lease, other)| format!("{other:?} and {lease:?}");
    pairs.into_iter().map(|pair| Breach { check, text: text(pair) }).collect()
}

/// No two hold one lock at one moment.
pub(crate) fn windows_overlap(leases: &[Lease]) -> Vec<Breach> {
    breaches("two holders", leases::overlapping(leases))
}

/// No token of a lock is issued twice.
pub(crate) fn tokens_repeat(leases: &[Lease]) -> Vec<Breach> {
    breaches("one token twice", leases::of_one_token(leases))
}

/// A lease that was asked for after another had been granted has the larger token.
pub(crate) fn tokens_disobey_time(leases: &[Lease]) -> Vec<Breach> {
    breaches("token out of order", leases::out_of_order(leases))
}

/// A holder of the whole lock is alone, and no more permits are held than there are.
pub(crate) fn shares_overlap(shares: &[Shared], limit: u32) -> Vec<Breach> {
    let mut found = Vec::new();
    for one in shares.iter().filter(|one| one.lease.granted < one.lease.until) {
        let holds = |other: &&Shared| {
            let (one, other) = (&one.lease, &other.lease);
            other.name == one.name && other.granted <= one.granted && one.granted < other.until
        };
        let holding: Vec<_> = shares.iter().filter(holds).collect();
        let weight: u32 = holding.iter().map(|other| other.part.weight()).sum();
        let has_whole = holding.iter().any(|other| other.part == Part::Whole);
        if has_whole && holding.len() > 1 {
            found.push(Breach { check: "writer beside another", text: format!("{holding:?}") });
        } else if weight > limit {
            found.push(Breach { check: "too many permits", text: format!("{holding:?}") });
        }
    }
    found
}

/// A token is above those of all writers before, or a reader's the last one of these, and below those of
/// all writers after.
pub(crate) fn share_tokens_disobey_time(shares: &[Shared]) -> Vec<Breach> {
    let is_wrong = |before: &Shared, after: &Shared| {
        let (first, then) = (&before.lease, &after.lease);
        let is_ordered = before.part != Part::Reader || after.part == Part::Whole;
        let is_right = match after.part {
            Part::Reader => first.token <= then.token,
            _ => first.token < then.token,
        };
        first.name == then.name && first.granted < then.begun && is_ordered && !is_right
    };
    let pairs = shares.iter().flat_map(|one| shares.iter().map(move |other| (one, other)));
    let wrong = pairs.filter(|(one, other)| is_wrong(one, other));
    let text = |(one, other)| format!("{one:?} and {other:?}");
    wrong.map(|pair| Breach { check: "share's token", text: text(pair) }).collect()
}

/// No guard claims more than the TTL less drift from when its question was written.
pub(crate) fn claims_too_long(claims: &[Claim]) -> Vec<Breach> {
    let most = |claim: &Claim| claim.asked_by.after(claim.ttl - drift(claim.ttl));
    let long = claims.iter().filter(|claim| claim.deadline > most(claim));
    long.map(|claim| Breach { check: "deadline", text: format!("{claim:?}") }).collect()
}

/// A loss is signalled at the lease's end at the latest, as far as a timer can.
pub(crate) fn signals_too_late(signals: &[Signal]) -> Vec<Breach> {
    let latest = |signal: &Signal| {
        let end = signal.asked_by.after(signal.ttl - drift(signal.ttl));
        end.after(TIMER_SLACK + signal.ttl / TIMER_RATE_SHARE)
    };
    let late = signals.iter().filter(|signal| signal.at > latest(signal));
    late.map(|signal| Breach { check: "late loss", text: format!("{signal:?}") }).collect()
}

/// Nobody is granted a lock that is to stay taken.
pub(crate) fn rests_are_broken(rests: &[Rest], leases: &[Lease]) -> Vec<Breach> {
    let breaks = |rest: &Rest, lease: &Lease| {
        lease.name == rest.name && rest.from < lease.granted && lease.granted < rest.until
    };
    let pairs = rests.iter().flat_map(|rest| leases.iter().map(move |lease| (rest, lease)));
    let broken = pairs.filter(|(rest, lease)| breaks(rest, lease));
    let text = |(rest, lease)| format!("{lease:?} in {rest:?}");
    broken.map(|pair| Breach { check: "taken too soon", text: text(pair) }).collect()
}

mod tests {
    use super::*;
    use crate::policy::Moment;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(0).after(ms(millis))
    }

    fn lease(name: usize, token: u64, (begun, granted, until): (u64, u64, u64)) -> Lease {
        let (begun, granted, until) = (ms(begun), ms(granted), ms(until));
        Lease { name, client: 0, token, begun, granted, until }
    }

    #[test]
    fn windows_that_overlap_are_found_and_those_that_touch_are_not() {
        let first = lease(0, 1, (0, 10, 20));
        let overlaps = |other| windows_overlap(&[other, first.clone()]).len();
        assert_eq!(overlaps(lease(0, 2, (0, 19, 30))), 1);
        assert_eq!(overlaps(lease(0, 2, (0, 12, 13))), 1);
        assert_eq!(overlaps(lease(0, 2, (0, 20, 30))), 0);
        assert_eq!(overlaps(lease(1, 2, (0, 19, 30))), 0, "another name");
        let hidden = [first, lease(0, 2, (0, 11, 12)), lease(0, 3, (0, 15, 16))];
        assert_eq!(windows_overlap(&hidden).len(), 2, "a long window counts past a short one");
    }

    #[test]
    fn tokens_that_repeat_or_fall_are_found() {
        let first = lease(0, 7, (0, 10, 20));
        let found = |other: Lease| {
            let leases = [first.clone(), other];
            (tokens_repeat(&leases).len(), tokens_disobey_time(&leases).len())
        };
        assert_eq!(found(lease(0, 7, (30, 40, 50))), (1, 1));
        assert_eq!(found(lease(0, 6, (11, 40, 50))), (0, 1));
        assert_eq!(found(lease(0, 8, (11, 40, 50))), (0, 0));
        assert_eq!(found(lease(0, 6, (9, 40, 50))), (0, 0), "it was asked for before");
        assert_eq!(found(lease(1, 7, (30, 40, 50))), (0, 0), "another name");
    }

    fn shared(part: Part, token: u64, times: (u64, u64, u64)) -> Shared {
        Shared { lease: lease(0, token, times), part }
    }

    #[test]
    fn a_writer_beside_another_and_more_permits_than_there_are_are_found() {
        let reader = shared(Part::Reader, 1, (0, 10, 20));
        let overlaps = |other| shares_overlap(&[reader.clone(), other], 2).len();
        assert_eq!(overlaps(shared(Part::Reader, 1, (0, 15, 30))), 0);
        assert_eq!(overlaps(shared(Part::Whole, 2, (0, 19, 30))), 1);
        assert_eq!(overlaps(shared(Part::Whole, 2, (0, 20, 30))), 0);
        assert_eq!(overlaps(shared(Part::Whole, 2, (0, 5, 11))), 1);
        let permits = |weight| {
            let first = shared(Part::Permit(1), 1, (0, 10, 20));
            shares_overlap(&[first, shared(Part::Permit(weight), 2, (0, 15, 30))], 2).len()
        };
        assert_eq!([permits(1), permits(2)], [0, 1]);
    }

    #[test]
    fn tokens_of_readers_that_a_writer_passed_are_found() {
        let found = |one: (Part, u64), other: (Part, u64)| {
            let shares = [shared(one.0, one.1, (0, 1, 2)), shared(other.0, other.1, (3, 4, 5))];
            share_tokens_disobey_time(&shares).len()
        };
        assert_eq!(found((Part::Whole, 7), (Part::Reader, 7)), 0);
        assert_eq!(found((Part::Whole, 7), (Part::Reader, 6)), 1);
        assert_eq!(found((Part::Reader, 7), (Part::Reader, 6)), 0, "both of one time");
        assert_eq!(found((Part::Reader, 7), (Part::Whole, 7)), 1);
        assert_eq!(found((Part::Permit(1), 7), (Part::Permit(2), 7)), 1);
    }

    #[test]
    fn a_guard_that_claims_more_than_its_ttl_less_drift_is_found() {
        let found = |deadline| {
            let (ttl, asked_by, deadline) = (ms(1000), at(50), at(deadline));
            claims_too_long(&[Claim { name: 0, token: 1, ttl, deadline, asked_by }]).len()
        };
        assert_eq!((found(50 + 988), found(50 + 989)), (0, 1));
    }

    #[test]
    fn a_loss_that_is_signalled_after_the_end_is_found() {
        let found = |moment| {
            let (ttl, asked_by) = (ms(1000), at(50));
            signals_too_late(&[Signal { name: 0, token: 1, ttl, at: at(moment), asked_by }]).len()
        };
        assert_eq!((found(50 + 988 + 8), found(50 + 988 + 9)), (0, 1));
    }

    #[test]
    fn a_grant_in_the_time_that_a_lock_stays_taken_is_found() {
        let rest = Rest { name: 0, from: ms(20), until: ms(30) };
        let found = |name, granted| {
            let taken = lease(name, 1, (0, granted, 40));
            rests_are_broken(std::slice::from_ref(&rest), &[taken]).len()
        };
        assert_eq!([found(0, 20), found(0, 21), found(0, 29), found(0, 30)], [0, 1, 1, 0]);
        assert_eq!(found(1, 25), 0, "another name");
    }
}
