//! Each server's answer to the last command of a request, put together when a report is asked for.

use std::time::Duration;

use leasehold_resp::Frame;

use super::answer::{Answer, Kept, Place};
use super::core::Machine;
use super::ids::LeaseId;
use super::lease::{Lease, Phase, Refusal, Votes};
use super::link::Link;
use super::session::Fault;
use super::talk::What;
use crate::policy::{Code, Failing, Moment, Setback};

/// One server's answer.
pub(crate) struct ServerAnswer<'a> {
    /// The server's link.
    pub(crate) link: usize,
    pub(crate) said: Said<'a>,
    /// From before the first byte of the command was written until its reply was read.
    pub(crate) round_trip: Option<Duration>,
}

pub(crate) enum Said<'a> {
    Granted,
    /// An answer other than a plain grant.
    Kept(&'a Kept),
    Refused(&'a [u8]),
    /// It has not answered yet.
    Pending,
    /// The answer did not come within the first time. If that was a whole command timeout, the second is how long the first
    /// reply of the connection took.
    Late(Duration, Duration),
    /// The connection ended before the answer; and why, if there is no other connection yet.
    Unknown(Option<&'a Fault>),
    /// Not asked: it may vote after this time.
    Quarantined(Duration),
    /// Not asked: it may vote after this time, when all clients have left the former server.
    Settling(Duration),
    /// Not asked: it has been the primary for the first time, and may have forgotten leases that last for the second.
    #[cfg(any(test, feature = "grace"))]
    Graced(Duration, Duration),
    /// Not asked: why it does not say since when it is the primary.
    #[cfg(any(test, feature = "grace"))]
    Reignless(&'a [u8]),
    /// Not asked for this time, because it did not answer before.
    LeftOut(Duration),
    /// Not asked: it has no connection, and why not.
    Unreached(Option<&'a Fault>),
}

/// Whether an error says that the key is no lock.
pub(super) fn is_no_lock(text: &[u8]) -> bool {
    Code::of_bytes(text) == Code::WrongType
}

impl Lease {
    /// It failed because too few servers served: not because of what a server said before its connection ended.
    fn is_refused_unserved(&self) -> bool {
        let Phase::Refused(Refusal::Setback { setback, .. }) = self.phase else { return false };
        matches!(setback, Setback::Failing | Setback::Hopeless | Setback::Quarantined(_))
    }

    pub(super) fn note_vote(&mut self, at: usize, answer: Answer) {
        let Votes { granted, denied, failed, .. } = &mut self.votes;
        let those = match answer {
            Answer::Granted(_) | Answer::Seized(_) => granted,
            Answer::Failed { .. } => failed,
            _ => denied,
        };
        *those |= 1 << at;
        if answer == Answer::NotOwned {
            self.keep(at, Kept::NotOwned);
        }
    }

    /// Keeps the answer of the server at this index.
    fn keep(&mut self, at: usize, kept: Kept) {
        self.said.retain(|(known, _)| *known != at);
        self.said.push((at, kept));
    }

    fn answers(&self) -> (Votes, &[(usize, Kept)], Moment) {
        match &self.unread {
            Some(unread) if self.is_held() => (unread.0, &unread.1, unread.2),
            _ => (self.votes, &self.said, self.asked_at),
        }
    }

    pub(super) fn keeps_answers(&mut self) {
        self.unread = Some(Box::new((self.votes, self.said.clone(), self.asked_at)));
    }

    /// Whether it was granted, and its last command is the release.
    fn is_given_back(&self) -> bool {
        let is_over = self.state().is_some_and(|state| !state.is_held());
        is_over || self.phase == Phase::GivingBack
    }

    #[inline(never)]
    pub(super) fn ask_for_holder(
        &self,
        what: What,
        (id, at): (LeaseId, usize),
        link: &mut Link,
        now: Moment,
    ) {
        let (command, place): (&[u8], _) = match what {
            What::Holder => (b"GET", Place::Text),
            _ => (b"PTTL", Place::Number),
        };
        link.talk.write(&[command, self.names.lock()], place, self.to(id, at, what), now);
    }
}

impl Machine {
    /// Keeps an answer other than a plain grant, for the error of this request, or of another one behind it in line.
    pub(super) fn keep_said(&mut self, id: LeaseId, at: usize, round: u32, reply: &Frame) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        if lease.round == round && lease.phase == Phase::Asking {
            lease.keep(at, Kept::of(reply));
        }
    }

    /// The server refused a plain lock without naming the holder: asks for the holder, if the request may end by this
    /// refusal. The vote counts after the answer.
    pub(super) fn asks_holder(
        &mut self,
        id: LeaseId,
        at: usize,
        round: u32,
        reply: &Frame,
        now: Moment,
    ) -> bool {
        let Self { links, leases, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return false };
        let is_asked = lease.phase == Phase::Asking && lease.round == round;
        let is_told = !lease.kind.means().read_the_lock && lease.waits();
        let may_end = lease.bid.ends_at().is_some() || is_told;
        if !matches!(reply.value(), Frame::Null) || !is_asked || !may_end {
            return false;
        }
        if is_told && links[lease.link(at)].watch_next(now) {
            lease.votes.watched |= 1 << at;
        }
        for what in [What::Holder, What::HolderTtl] {
            lease.ask_for_holder(what, (id, at), &mut links[lease.link(at)], now);
        }
        true
    }

    /// Takes the answer about the holder; without one, the refusal counts alone.
    pub(super) fn holder_is_said(
        &mut self,
        id: LeaseId,
        at: usize,
        (round, what): (u32, What),
        reply: Option<&Frame>,
        now: Moment,
    ) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let is_asked = lease.phase == Phase::Asking && lease.round == round;
        let said = lease.said.iter_mut().filter(|_| is_asked).find(|(it, _)| *it == at);
        let Some((_, kept)) = said else { return };
        if what == What::Holder {
            match reply {
                Some(Frame::Bulk(value)) => *kept = Kept::Held(value[..].into(), -1),
                Some(Frame::Error(text)) if is_no_lock(text) => {
                    *kept = Kept::Refused(text[..].into());
                }
                _ => {}
            }
            return;
        }
        let left = if let Some(Frame::Integer(left)) = reply { Some(*left) } else { None };
        match (&mut *kept, left) {
            (Kept::Held(_, pttl), Some(left)) => *pttl = left,
            // Whether it has an expiry is unknown.
            (Kept::Held(..), None) => *kept = Kept::Taken,
            _ => {}
        }
        let answer = if let Kept::Refused(_) = kept {
            Answer::Failed { failing: Failing::Hopeless, is_run: false }
        } else {
            let frees_in = left.and_then(|left| u64::try_from(left).ok());
            let frees_in = frees_in.map(|left| Duration::from_millis(left + 1));
            Answer::Held { frees_in, counter: 0 }
        };
        self.voted(id, at, round, answer, reply.is_some(), now);
    }

    /// As above, for the server in whose queue the request waits.
    pub(super) fn keep_said_to_entry(&mut self, id: LeaseId, reply: &Frame, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let Some(entry) = &lease.entry else { return };
        let (at, kept) = (entry.at, Kept::of(reply));
        lease.replicas[at].answered_at = now;
        // A missing owner is no answer for the user.
        if !matches!(kept, Kept::Unexpected | Kept::NotOwned) {
            lease.keep(at, kept);
        }
    }

    /// Keeps why a server extended or released nothing.
    pub(super) fn keep_refusal(&mut self, id: LeaseId, at: usize, round: u32, reply: &Frame) {
        if let Some(lease) = self.leases.get_mut(id).filter(|lease| lease.round == round) {
            lease.keep(at, Kept::of(reply));
        }
    }

    /// How long the first server took for its last answer.
    pub(crate) fn round_trip(&self, id: LeaseId) -> Option<Duration> {
        let lease = self.leases.get(id)?;
        let at = lease.replicas[0].answered_at;
        (at >= lease.asked_at).then(|| at.since(lease.asked_at))
    }

    /// One entry for each server, in their order; none once the lease is forgotten.
    pub(crate) fn report(
        &self,
        id: LeaseId,
        now: Moment,
    ) -> impl Iterator<Item = ServerAnswer<'_>> {
        let lease = self.leases.get(id);
        let count = lease.map_or(0, |lease| lease.replicas.len());
        (0..count).filter_map(move |at| Some(self.answer(lease?, at, now)))
    }

    fn answer<'a>(&'a self, lease: &'a Lease, at: usize, now: Moment) -> ServerAnswer<'a> {
        let (said, link) = (self.said(lease, at, now), lease.link(at));
        let at = lease.replicas[at].answered_at;
        let is_answer = matches!(said, Said::Granted | Said::Kept(_) | Said::Refused(_));
        // While a request waits at one server, earlier answers of the others stand.
        let is_answer = is_answer && at >= lease.asked_at && !lease.is_given_back();
        let round_trip = is_answer.then(|| at.since(lease.asked_at));
        ServerAnswer { link, said, round_trip }
    }

    /// The servers without a connection, and why.
    pub(crate) fn unmet(&self) -> impl Iterator<Item = ServerAnswer<'_>> {
        let unmet = self.links.iter().enumerate().filter(|(_, link)| !link.is_ready());
        unmet.map(|(link, it)| {
            let said = Said::Unreached(it.fault.as_ref());
            ServerAnswer { link, said, round_trip: None }
        })
    }

    fn said<'a>(&'a self, lease: &'a Lease, at: usize, now: Moment) -> Said<'a> {
        let (bit, link) = (1 << at, &self.links[lease.link(at)]);
        let (votes, said, asked_at) = lease.answers();
        let kept = said.iter().find(|(it, _)| *it == at).map(|(_, kept)| kept);
        let is_of_others = match kept {
            None => votes.denied & bit != 0,
            Some(kept) => matches!(kept, Kept::Held(..) | Kept::Taken | Kept::Queued(_)),
        };
        if is_of_others && !link.is_ready() && lease.is_refused_unserved() {
            return Said::Unreached(link.fault.as_ref());
        }
        match kept {
            Some(kept @ Kept::Seized(..)) => Said::Kept(kept),
            _ if votes.granted & bit != 0 => Said::Granted,
            Some(Kept::Refused(text)) => Said::Refused(text),
            Some(kept) => Said::Kept(kept),
            None if votes.denied & bit != 0 => Said::Kept(&Kept::Taken),
            None if votes.asked & bit != 0 && votes.failed & bit == 0 => Said::Pending,
            #[cfg(any(test, feature = "grace"))]
            None if self.grace(lease.link(at), now).is_some() => {
                let (since, left) = self.grace(lease.link(at), now).unwrap_or_default();
                Said::Graced(since, left)
            }
            None if votes.asked & bit != 0 => {
                let is_there = link.is_ready() && link.generation == lease.replicas[at].generation;
                let timeout = self.settings.timeout;
                // A release has a limit of its own; the time of its request is not kept.
                let within = match lease.is_given_back() {
                    true => timeout.saturating_sub(lease.late_at.since(now)),
                    false => now.since(asked_at),
                };
                let greeting =
                    if within >= timeout { link.talk.greeted_in } else { Duration::ZERO };
                match is_there {
                    true => Said::Late(within, greeting),
                    false => Said::Unknown(link.fault.as_ref()),
                }
            }
            #[cfg(any(test, feature = "grace"))]
            None if link.met.said().is_some() => {
                Said::Reignless(link.met.said().map_or(b"", |it| it))
            }
            None => match link.refusal_of_locks(now) {
                Some(Failing::Quarantined(wait)) if Some(link.votes_at) == link.settles_at() => {
                    Said::Settling(wait)
                }
                Some(Failing::Quarantined(wait)) => Said::Quarantined(wait),
                None if votes.failed & bit == 0 => Said::Pending,
                // It has waited behind earlier bytes.
                None if lease.is_alone() => Said::Late(now.since(asked_at), Duration::ZERO),
                None => Said::LeftOut(link.breaker.opens_in(now).unwrap_or_default()),
                _ => Said::Unreached(link.fault.as_ref()),
            },
        }
    }
}

#[cfg(test)]
mod tests;
