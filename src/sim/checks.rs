//! Checks of histories, as pure functions; a test shows each one to fire on a bad history.

use std::time::Duration;

use super::history::{Breach, Claim, Lease, Part, Rest, Signal};
use crate::support::leases;

/// How late a timer may be: tokio's count in milliseconds, and by the wrong rate.
pub(super) fn timer_slack(span: Duration) -> Duration {
    Duration::from_millis(3) + span / 200
}

fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

fn breaches(check: &'static str, pairs: Vec<(&Lease, &Lease)>) -> Vec<Breach> {
    let text = |(lease, other)| format!("{other:?} and {lease:?}");
    pairs.into_iter().map(|pair| Breach { check, text: text(pair) }).collect()
}

/// A holder of the whole lock is alone, and no more permits are held than there are.
pub(crate) fn crowds(leases: &[Lease], limit: u32) -> Vec<Breach> {
    let check = |crowd: &[&Lease]| match crowd.iter().filter(|it| it.part == Part::Whole).count() {
        0 => "too many permits",
        1 => "writer beside another",
        _ => "two holders",
    };
    let found = leases::crowds(leases, limit).into_iter();
    found.map(|crowd| Breach { check: check(&crowd), text: format!("{crowd:?}") }).collect()
}

/// No token of a lock is issued twice.
pub(crate) fn tokens_repeat(leases: &[Lease]) -> Vec<Breach> {
    breaches("one token twice", leases::of_one_token(leases))
}

/// A lease that was requested after another had been granted has the larger token.
pub(crate) fn tokens_disobey_time(leases: &[Lease]) -> Vec<Breach> {
    breaches("token out of order", leases::out_of_order(leases))
}

/// No guard claims more than the TTL less drift from when its command was written.
pub(crate) fn claims_too_long(claims: &[Claim]) -> Vec<Breach> {
    let most = |claim: &Claim| claim.asked_by.after(claim.ttl - drift(claim.ttl));
    let long = claims.iter().filter(|claim| claim.deadline > most(claim));
    long.map(|claim| Breach { check: "deadline", text: format!("{claim:?}") }).collect()
}

/// A loss is signalled by the lease's end, as exactly as a timer can.
pub(crate) fn signals_too_late(signals: &[Signal]) -> Vec<Breach> {
    let latest = |signal: &Signal| {
        let end = signal.asked_by.after(signal.ttl - drift(signal.ttl));
        end.after(timer_slack(signal.ttl))
    };
    let late = signals.iter().filter(|signal| signal.at > latest(signal));
    late.map(|signal| Breach { check: "late loss", text: format!("{signal:?}") }).collect()
}

/// Nobody is granted a lock that has to stay taken.
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
        Lease { name, client: 0, part: Part::Whole, token, begun, granted, until }
    }

    #[test]
    fn windows_that_overlap_are_found_and_those_that_touch_are_not() {
        let first = lease(0, 1, (0, 10, 20));
        let overlaps = |other| crowds(&[other, first.clone()], 1).len();
        assert_eq!(overlaps(lease(0, 2, (0, 19, 30))), 1);
        assert_eq!(overlaps(lease(0, 2, (0, 12, 13))), 1);
        assert_eq!(overlaps(lease(0, 2, (0, 20, 30))), 0);
        assert_eq!(overlaps(lease(1, 2, (0, 19, 30))), 0, "another name");
        let hidden = [first, lease(0, 2, (0, 11, 12)), lease(0, 3, (0, 15, 16))];
        assert_eq!(crowds(&hidden, 1).len(), 2, "a long window counts past a short one");
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

    fn of_part(part: Part, token: u64, times: (u64, u64, u64)) -> Lease {
        Lease { part, ..lease(0, token, times) }
    }

    #[test]
    fn a_writer_beside_another_and_more_permits_than_there_are_are_found() {
        let reader = of_part(Part::Reader, 1, (0, 10, 20));
        let overlaps = |other| crowds(&[reader.clone(), other], 2).len();
        assert_eq!(overlaps(of_part(Part::Reader, 1, (0, 15, 30))), 0);
        assert_eq!(overlaps(of_part(Part::Whole, 2, (0, 19, 30))), 1);
        assert_eq!(overlaps(of_part(Part::Whole, 2, (0, 20, 30))), 0);
        assert_eq!(overlaps(of_part(Part::Whole, 2, (0, 5, 11))), 1);
        let permits = |weight| {
            let first = of_part(Part::Permit(1), 1, (0, 10, 20));
            crowds(&[first, of_part(Part::Permit(weight), 2, (0, 15, 30))], 2).len()
        };
        assert_eq!([permits(1), permits(2)], [0, 1]);
    }

    #[test]
    fn tokens_of_readers_that_a_writer_passed_are_found() {
        let found = |one: (Part, u64), other: (Part, u64)| {
            let leases = [of_part(one.0, one.1, (0, 1, 2)), of_part(other.0, other.1, (3, 4, 5))];
            (tokens_disobey_time(&leases).len(), tokens_repeat(&leases).len())
        };
        assert_eq!(found((Part::Whole, 7), (Part::Reader, 7)), (0, 0));
        assert_eq!(found((Part::Whole, 7), (Part::Reader, 6)), (1, 0));
        assert_eq!(found((Part::Reader, 7), (Part::Reader, 6)), (0, 0), "both of one time");
        assert_eq!(found((Part::Reader, 7), (Part::Whole, 7)), (1, 0));
        assert_eq!(found((Part::Permit(1), 7), (Part::Permit(2), 7)), (1, 1));
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
