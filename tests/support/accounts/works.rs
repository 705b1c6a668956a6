//! Work for one caller at a time, and its result.

use super::{At, Broken};
use crate::leases::{self, Lease, Part};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trade {
    /// The run of a slot at most once.
    Once,
    /// The run of a slot at least once.
    AtLeastOnce,
    /// An attempt at a request.
    Request,
}

#[derive(Clone, Debug)]
pub struct Work {
    pub trade: Trade,
    /// The number of the job or request.
    pub name: usize,
    /// The slot of a job; the fencing token of an attempt.
    pub number: u64,
    /// Read before the call.
    pub begun: At,
    /// Read when the work began.
    pub granted: At,
    /// Until this moment it was under its lease.
    pub until: At,
    /// When the caller had the answer that it is finished.
    pub finished: Option<At>,
}

impl Lease for Work {
    fn name(&self) -> usize {
        self.name
    }

    fn part(&self) -> Part {
        Part::Whole
    }

    fn token(&self) -> u64 {
        self.number
    }

    fn begun(&self) -> At {
        self.begun
    }

    fn granted(&self) -> At {
        self.granted
    }

    fn until(&self) -> At {
        self.until
    }
}

/// The result of a request, as a caller got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub name: usize,
    pub fingerprint: &'static str,
    pub text: Vec<u8>,
    pub told: At,
}

fn of(works: &[Work], trade: Trade) -> Vec<Work> {
    works.iter().filter(|work| work.trade == trade).cloned().collect()
}

fn pairs(what: &'static str, pairs: Vec<(&Work, &Work)>) -> Vec<Broken> {
    pairs.into_iter().map(|(work, other)| (what, format!("{other:?} and {work:?}"))).collect()
}

/// Runs of one job at least once, and attempts at one request, do not overlap.
pub(super) fn beside_one_another(works: &[Work]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for trade in [Trade::AtLeastOnce, Trade::Request] {
        let works = of(works, trade);
        let crowds = leases::crowds(&works, 1);
        broken.extend(crowds.iter().map(|crowd| ("worked on by two", format!("{crowd:?}"))));
    }
    broken
}

/// Later runs have later slots, or the same slot if it may run again; later attempts have larger tokens.
pub(super) fn out_of_order(works: &[Work]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for trade in [Trade::Once, Trade::Request] {
        let works = of(works, trade);
        broken.extend(pairs("worked out of order", leases::out_of_order(&works)));
        broken.extend(pairs("worked on twice", leases::of_one_token(&works)));
    }
    let works = of(works, Trade::AtLeastOnce);
    let disordered = leases::out_of_order(&works);
    let earlier = disordered.into_iter().filter(|(work, other)| work.number < other.number);
    broken.extend(pairs("worked out of order", earlier.collect()));
    broken
}

/// Work does not begin after a caller was told that it is finished.
pub(super) fn repeated(works: &[Work], answers: &[Answer]) -> Vec<Broken> {
    let is_again = |work: &Work| match work.trade {
        Trade::Once => false,
        Trade::AtLeastOnce => works.iter().any(|other| {
            let is_same = (other.trade, other.name, other.number)
                == (Trade::AtLeastOnce, work.name, work.number);
            is_same && other.finished.is_some_and(|finished| finished < work.begun)
        }),
        Trade::Request => {
            answers.iter().any(|answer| answer.name == work.name && answer.told < work.begun)
        }
    };
    let again = works.iter().filter(|work| is_again(work));
    again.map(|work| ("worked on again", format!("{work:?}"))).collect()
}

/// All callers of a request get the same result.
pub(super) fn differing(answers: &[Answer]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for answer in answers {
        let first = answers.iter().find(|first| first.name == answer.name);
        let what = |it: &Answer| (it.fingerprint, it.text.clone());
        if let Some(first) = first.filter(|first| what(first) != what(answer)) {
            broken.push(("two results", format!("{first:?} and {answer:?}")));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> At {
        At::from_millis(millis)
    }

    fn work(trade: Trade, number: u64, (begun, granted, until): (u64, u64, u64)) -> Work {
        let (begun, granted, until) = (at(begun), at(granted), at(until));
        Work { trade, name: 0, number, begun, granted, until, finished: None }
    }

    #[test]
    fn work_that_overlaps_is_found_unless_nothing_keeps_it_apart() {
        let overlaps = |trade| {
            let works = [work(trade, 1, (0, 10, 20)), work(trade, 2, (5, 19, 30))];
            let named = Work { name: 1, ..works[1].clone() };
            assert!(beside_one_another(&[works[0].clone(), named]).is_empty());
            beside_one_another(&works).len()
        };
        let all = [Trade::Once, Trade::AtLeastOnce, Trade::Request];
        assert_eq!(all.map(overlaps), [0, 1, 1]);
        let mixed =
            [work(Trade::AtLeastOnce, 1, (0, 10, 20)), work(Trade::Request, 2, (5, 19, 30))];
        assert!(beside_one_another(&mixed).is_empty());
    }

    #[test]
    fn a_slot_that_is_run_twice_or_after_a_later_one_is_found() {
        let order = |trade, then, now| {
            let works = [work(trade, then, (0, 10, 20)), work(trade, now, (30, 40, 50))];
            out_of_order(&works).len()
        };
        assert_eq!([order(Trade::Once, 1, 2), order(Trade::AtLeastOnce, 1, 2)], [0, 0]);
        assert_eq!([order(Trade::Once, 2, 1), order(Trade::AtLeastOnce, 2, 1)], [1, 1]);
        assert_eq!([order(Trade::Once, 2, 2), order(Trade::AtLeastOnce, 2, 2)], [2, 0]);
        assert_eq!(order(Trade::Request, 2, 2), 2);
    }

    #[test]
    fn what_is_begun_again_though_it_is_finished_is_found() {
        let run = |number, asked| work(Trade::AtLeastOnce, number, (asked, asked + 5, asked + 9));
        let finished = Work { finished: Some(at(20)), ..run(1, 0) };
        let again = |other: Work| repeated(&[finished.clone(), other], &[]).len();
        assert_eq!([again(run(1, 21)), again(run(1, 19)), again(run(2, 21))], [1, 0, 0]);
        let answer = Answer { name: 0, fingerprint: "a", text: b"x".to_vec(), told: at(20) };
        let tried = |asked| {
            let attempt = work(Trade::Request, 1, (asked, asked + 5, asked + 9));
            repeated(&[attempt], std::slice::from_ref(&answer)).len()
        };
        assert_eq!([tried(21), tried(19)], [1, 0]);
    }

    #[test]
    fn two_results_of_one_request_are_found() {
        let answer = Answer { name: 0, fingerprint: "a", text: b"x".to_vec(), told: at(20) };
        let with = |other: Answer| differing(&[answer.clone(), other]).len();
        assert_eq!(with(answer.clone()), 0);
        assert_eq!(with(Answer { text: b"y".to_vec(), ..answer.clone() }), 1);
        assert_eq!(with(Answer { fingerprint: "b", ..answer.clone() }), 1);
        assert_eq!(with(Answer { name: 1, text: b"y".to_vec(), ..answer.clone() }), 0);
    }
}
