//! What a history must never show. Pure functions; each is shown to fire on a bad history.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{Breach, Claim, Lease, Signal};

/// A timer may be this much late: tokio's count in milliseconds, and by the wrong rate.
const TIMER_SLACK: Duration = Duration::from_millis(3);
const TIMER_RATE_SHARE: u32 = 200;

fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

fn by_name(leases: &[Lease]) -> impl Iterator<Item = Vec<&Lease>> {
    let mut groups: BTreeMap<usize, Vec<&Lease>> = BTreeMap::new();
    for lease in leases {
        groups.entry(lease.name).or_default().push(lease);
    }
    groups.into_values()
}

fn breach(check: &'static str, lease: &Lease, other: &Lease) -> Breach {
    Breach { check, text: format!("{other:?} and {lease:?}") }
}

/// No two hold one lock at one moment.
pub(crate) fn windows_overlap(leases: &[Lease]) -> Vec<Breach> {
    let mut found = Vec::new();
    for mut of_name in by_name(leases) {
        of_name.sort_by_key(|lease| lease.granted);
        let mut longest: Option<&Lease> = None;
        for lease in of_name.into_iter().filter(|lease| lease.until > lease.granted) {
            if let Some(other) = longest.filter(|other| lease.granted < other.until) {
                found.push(breach("two holders", lease, other));
            }
            if longest.is_none_or(|other| other.until < lease.until) {
                longest = Some(lease);
            }
        }
    }
    found
}

/// No token of a lock is issued twice.
pub(crate) fn tokens_repeat(leases: &[Lease]) -> Vec<Breach> {
    let mut found = Vec::new();
    for mut of_name in by_name(leases) {
        of_name.sort_by_key(|lease| lease.token);
        let twins = of_name.windows(2).filter(|pair| pair[0].token == pair[1].token);
        found.extend(twins.map(|pair| breach("one token twice", pair[0], pair[1])));
    }
    found
}

/// A lease that was asked for after another had been granted has the larger token.
pub(crate) fn tokens_disobey_time(leases: &[Lease]) -> Vec<Breach> {
    let mut found = Vec::new();
    for of_name in by_name(leases) {
        let (mut by_grant, mut by_question) = (of_name.clone(), of_name);
        by_grant.sort_by_key(|lease| lease.granted);
        by_question.sort_by_key(|lease| lease.begun);
        let mut granted = by_grant.into_iter().peekable();
        let mut highest: Option<&Lease> = None;
        for lease in by_question {
            while let Some(earlier) = granted.next_if(|other| other.granted < lease.begun) {
                if highest.is_none_or(|other| other.token < earlier.token) {
                    highest = Some(earlier);
                }
            }
            if let Some(other) = highest.filter(|other| other.token >= lease.token) {
                found.push(breach("token out of order", lease, other));
            }
        }
    }
    found
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
}
