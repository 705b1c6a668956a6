//! Leases that were given back a moment ago.
//!
//! A replica that is promoted knows nothing of what the old master was told after that, also not of
//! releases: it has locks that nobody holds any more, for as long as their TTL. So where masters are
//! followed, what was given back lately is remembered, to be given back to the successor too.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::names::Names;
use super::one_or_many::OneOrMany;
use super::owner::Owner;
use super::rare::Rest;
use super::row::Sharing;
use crate::mutex::lock;
use crate::policy::Moment;

/// A successor that serves for longer than this is followed by then.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Maximum endings that are remembered: the oldest are forgotten.
const REMEMBERED_MAX: usize = 2048;

/// A lease that was given back, or an acquire that may have been one.
pub(super) struct Ended {
    pub(super) owner: Owner,
    pub(super) names: OneOrMany<Names>,
    /// Its keys' longest life.
    pub(super) key_life: Duration,
    /// Where its locks are to stay taken for a while.
    pub(super) rest: Option<Rest>,
    pub(super) sharing: Option<Sharing>,
    pub(super) at: Moment,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct RecentlyEnded(Mutex<VecDeque<Ended>>);

impl RecentlyEnded {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        lock(&self.0)
    }

    pub(super) fn add(&self, ended: Ended) {
        let now = ended.at;
        let mut all = self.lock();
        let is_old = |first: &Ended| now.since(first.at) > REMEMBERED_FOR;
        while all.len() >= REMEMBERED_MAX || all.front().is_some_and(is_old) {
            all.pop_front();
        }
        all.push_back(ended);
    }

    /// Those of which the successor that is followed from `now` on may not have heard.
    pub(super) fn take(&self, now: Moment) -> impl Iterator<Item = Ended> {
        let all = std::mem::take(&mut *self.lock());
        all.into_iter().filter(move |ended| now.since(ended.at) <= REMEMBERED_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::owner::Mark;

    #[test]
    fn what_ended_lately_is_remembered_up_to_a_bound_and_taken_once() {
        let recently = RecentlyEnded::default();
        let at = |ms: u64| Moment::from_nanos(0).after(Duration::from_millis(ms));
        let add = |ms| {
            let names = [Names::new(b"", b"a").unwrap()].into_iter().collect();
            let (owner, key_life) = (Owner::fresh(Mark::default()), Duration::from_secs(10));
            recently.add(Ended { owner, names, key_life, rest: None, sharing: None, at: at(ms) });
        };
        let taken = |ms| recently.take(at(ms)).map(|ended| ended.at).collect::<Vec<_>>();
        add(0);
        add(4000);
        assert_eq!(taken(6000), [at(4000)]);
        assert_eq!(taken(6000), []);
        add(0);
        add(5001);
        assert_eq!(recently.lock().len(), 1, "what is old makes room");
        (0..3000).for_each(|_| add(5002));
        assert_eq!(taken(5003).len(), REMEMBERED_MAX);
    }
}
