//! The writers on one connection that still want to know how many replicas have what they wrote: a state
//! machine with no I/O.
//!
//! The reply to a `WAIT` is true of all that its connection wrote before it. So one is under way at a
//! time, and answers for all members that joined before it was sent; the next answers for those that join
//! meanwhile. A `WAIT` keeps all behind it waiting, so it is a short one, and is followed by
//! another while anybody's time lasts.
//!
//! Call order: a caller that has sent a write joins ([`Muster::join`]). A member that finds no `WAIT` under way
//! asks for one ([`Muster::next`]) and sends it. Its reply is handed to [`Muster::settle`]. A member
//! takes its verdict ([`Muster::take`]), or leaves.

use std::time::Duration;

use leasehold_resp::Frame;

use super::outcome::Outcome;
use crate::policy::Moment;

/// A `WAIT` for no time at all would be one for ever.
const SHORTEST: Duration = Duration::from_millis(1);

/// See the module's documentation.
pub struct Muster<W> {
    /// In the order in which they joined.
    members: Vec<Member<W>>,
    /// How many have ever joined: the number of the next.
    joined: u64,
    /// The `WAIT` under way answers for members with smaller numbers than this.
    covers: Option<u64>,
}

struct Member<W> {
    number: u64,
    needed: u32,
    within: Duration,
    /// Known once a `WAIT` is sent that answers for it.
    until: Option<Moment>,
    verdict: Option<Outcome>,
    waker: Option<W>,
}

/// A `WAIT` to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Replicas that are waited for.
    pub replicas: u32,
    /// The most time that the server may take.
    pub within: Duration,
}

impl<W> Default for Muster<W> {
    fn default() -> Self {
        Self { members: Vec::new(), joined: 0, covers: None }
    }
}

impl<W> Muster<W> {
    /// A caller that sent a write before this call wants it on `needed` replicas, at least one, and
    /// gives them `within` from when they are asked. Returns the caller's number here.
    pub fn join(&mut self, needed: u32, within: Duration) -> u64 {
        let number = self.joined;
        self.joined += 1;
        let (until, verdict, waker) = (None, None, None);
        self.members.push(Member { number, needed, within, until, verdict, waker });
        number
    }

    /// A member leaves without a verdict. Its waker is given back, to be dropped where no mutex
    /// is held.
    pub fn leave(&mut self, number: u64) -> Option<W> {
        let index = self.index(number)?;
        self.members.remove(index).waker
    }

    /// Whether nobody is left. What came of the `WAIT` under way is of no interest then.
    pub fn is_over(&mut self) -> bool {
        let is_over = self.members.is_empty();
        if is_over {
            self.covers = None;
        }
        is_over
    }

    /// The `WAIT` to send now, for at most this `slice` of time; none where one is under way, or
    /// nobody wants to know.
    pub fn next(&mut self, now: Moment, slice: Duration) -> Option<Wait> {
        if self.covers.is_some() {
            return None;
        }
        let mut wait = Wait { replicas: 0, within: slice };
        for member in self.members.iter_mut().filter(|member| member.verdict.is_none()) {
            let until = *member.until.get_or_insert(now.after(member.within));
            wait.replicas = wait.replicas.max(member.needed);
            wait.within = wait.within.min(until.since(now));
        }
        if wait.replicas == 0 {
            return None;
        }
        self.covers = Some(self.joined);
        Some(Wait { within: wait.within.max(SHORTEST), ..wait })
    }

    /// What came of the `WAIT` under way: a verdict for those members that have as many
    /// replicas as they need, or no time left; for all of those where it is no number of replicas.
    /// Then all have to look: those that have none yet want the next `WAIT`.
    pub fn settle(&mut self, outcome: &Outcome, now: Moment) {
        let Some(covers) = self.covers.take() else { return };
        let acknowledged = outcome.as_ref().ok().and_then(Frame::as_integer);
        for member in self.members.iter_mut().filter(|member| member.number < covers) {
            let is_over = member.until.is_some_and(|until| until <= now);
            let is_enough = acknowledged.is_none_or(|count| count >= member.needed.into());
            if member.verdict.is_none() && (is_enough || is_over) {
                member.verdict = Some(outcome.clone());
            }
        }
    }

    /// The member's verdict, with which it leaves; where there is none yet, `keep` stores the waker
    /// for when there is something to look at.
    pub fn take(&mut self, number: u64, keep: impl FnOnce(&mut Option<W>)) -> Option<Outcome> {
        let index = self.index(number)?;
        let member = &mut self.members[index];
        if member.verdict.is_none() {
            keep(&mut member.waker);
            return None;
        }
        self.members.remove(index).verdict
    }

    /// All that are to look, to be woken where no mutex is held.
    pub fn wake_all(&mut self) -> Vec<W> {
        self.members.iter_mut().filter_map(|member| member.waker.take()).collect()
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.members.binary_search_by_key(&number, |member| member.number).ok()
    }
}

#[cfg(test)]
mod tests;
