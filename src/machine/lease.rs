//! One lease, from the request to the release of its last key, in one slot. While its owner waits in a lock's queue, it
//! has an [`Entry`].
//!
//! The few leases with bounds beside the TTL have them in [`Bounded`]. A release before a least time extends the key to its end.

use std::task::Waker;
use std::time::Duration;

use leasehold_resp::Decimal;

use super::answer::Answers;
use super::command::{Command, Scripts};
use super::ids::{LeaseId, Owner};
use super::kind::{FENCED, Kind, Question};
use super::link::Link;
use super::talk::{To, What};
use crate::names::Names;
use crate::policy::{
    Bidding, Bounds, End, LeaseState, Loss, Moment, Quorum, Redelivery, Relay, Setback, Term,
    WaiterState, is_silence, patience,
};

/// The phase of a lease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    /// A round of commands is under way.
    Asking,
    /// Between two attempts, until its due time; a push about the lock may end the pause from `from` on.
    Resting {
        from: Moment,
        /// Too few servers served: the request waits until one serves again.
        is_unserved: bool,
    },
    /// Behind other waiters of this process for the same lock.
    InLine,
    /// In the queue of its lock, by its entry.
    Queued,
    /// The request failed.
    Refused(Refusal),
    /// It was granted: held, being released, or ended.
    Granted(LeaseState),
    /// It has no caller any more; what servers may have is released.
    GivingBack,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The result of the last attempt; `is_over` if the caller's limit is over.
    Setback {
        setback: Setback,
        is_over: bool,
    },
    ShutDown,
    /// The driver has ended.
    Undriven,
}

/// What an extension is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extending {
    /// None is under way.
    Nothing,
    Renewal,
    /// The holder asked for it, and is told the result.
    Holder,
    /// The holder has asked for another one after it.
    HolderAgain,
}

impl Extending {
    pub(super) fn is_holders(self) -> bool {
        matches!(self, Self::Holder | Self::HolderAgain)
    }
}

/// The servers' counts of replicas that have a lease.
#[cfg(any(test, feature = "replicas"))]
pub(super) struct Counted {
    pub(super) round: u32,
    /// Servers that have extended the lease, and those whose replicas are not counted yet.
    pub(super) extended: u64,
    pub(super) open: u64,
    pub(super) counts: Vec<u32>,
}

/// What one server may have of a lease's owner.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    /// The link on which it is asked.
    pub(super) link: u16,
    pub(super) has: Has,
    /// The connection on which it was asked last.
    pub(super) generation: u32,
    /// A command on an earlier connection that was not answered, and may arrive at any time.
    pub(super) doubt: Doubt,
    /// When it last answered.
    pub(super) answered_at: Moment,
    /// Of the release that is owed.
    pub(super) redelivery: Option<Redelivery>,
    /// When that is to be sent; none if it waits for a connection.
    pub(super) due: Option<Moment>,
    /// The link lists it among what it owes.
    pub(super) is_listed: bool,
    #[cfg(any(test, feature = "cluster"))]
    pub(super) routed: super::routing::Routed,
    #[cfg(any(test, feature = "scriptless"))]
    pub(super) steps: super::drawn::Steps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Has {
    Nothing,
    /// It was asked, and has not answered.
    Asked,
    /// It has the owner's key.
    Key,
    /// Its connection ended before the answer, it was asked again before the answer, or the answer proves nothing.
    Perhaps,
    /// A release is under way.
    Releasing,
    /// A release is to be sent.
    Owed,
}

/// The kind of command that may reach a server late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    Nothing,
    /// An extension, which creates no key.
    Extension,
    /// A request, which may create one.
    Question,
}

impl Replica {
    /// A replica at this link, not asked yet.
    pub(super) fn at(link: usize) -> Self {
        Self {
            link: u16::try_from(link).expect("there are fewer links"),
            has: Has::Nothing,
            generation: 0,
            doubt: Doubt::Nothing,
            answered_at: Moment::from_nanos(0),
            redelivery: None,
            due: None,
            is_listed: false,
            #[cfg(any(test, feature = "cluster"))]
            routed: super::routing::Routed::default(),
            #[cfg(any(test, feature = "scriptless"))]
            steps: super::drawn::Steps::default(),
        }
    }

    /// The next command goes out on this connection, or the last one was answered there.
    pub(super) fn goes_on(&mut self, generation: u32) {
        let is_open = matches!(self.has, Has::Asked | Has::Perhaps);
        if is_open && self.generation != generation {
            self.doubt = Doubt::Question;
        }
        self.generation = generation;
    }

    /// Its release goes out once the server serves.
    pub(super) fn waits_at(&mut self, link: &mut Link, id: LeaseId) {
        if !std::mem::replace(&mut self.is_listed, true) {
            link.owed.push(id);
        }
    }

    /// The same server, not asked yet.
    pub(super) fn fresh(&self) -> Self {
        Self {
            #[cfg(any(test, feature = "cluster"))]
            routed: self.routed.fresh(),
            ..Self::at(self.link.into())
        }
    }
}

/// The replicas by their answers to a round, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Votes {
    pub(super) asked: u64,
    pub(super) granted: u64,
    pub(super) denied: u64,
    pub(super) failed: u64,
    /// Asked in such a way that the server tells of changes to the lock.
    pub(super) watched: u64,
    /// Asked only after another replica.
    pub(super) later: u64,
}

impl Votes {
    pub(super) fn answered(self) -> u64 {
        self.granted | self.denied | self.failed
    }

    pub(super) fn put(self) -> u64 {
        self.later | self.asked | self.failed
    }
}

pub(super) struct Lease {
    pub(super) kind: &'static Kind,
    pub(super) names: Names,
    /// Further arguments of its kind.
    pub(super) words: Box<[Box<[u8]>]>,
    pub(super) owner: Owner,
    /// The holder of this process that it replaces.
    pub(super) predecessor: Option<Box<Owner>>,
    pub(super) term: Term,
    pub(super) bounded: Option<Box<Bounded>>,
    pub(super) phase: Phase,
    pub(super) is_renewed: bool,
    /// Servers push changes of its key; and whether one has.
    pub(super) is_watched: bool,
    pub(super) is_told: bool,
    /// When to look for the lease because of a push that no command has followed; the end of time without one.
    pub(super) news_at: Moment,
    /// Counts rounds, so that replies to earlier ones are known.
    pub(super) round: u32,
    /// Before the first byte of the round was written.
    pub(super) asked_at: Moment,
    pub(super) votes: Votes,
    /// The state of the request, until the lease is granted and all servers have answered.
    pub(super) bid: Bidding,
    /// Its next request leaves the lock to other waiters.
    pub(super) defers: bool,
    /// The owner's entry in the lock's queue, while it waits there, may still do so, or has its turn.
    pub(super) entry: Option<Box<Entry>>,
    /// The lease in a queue for which this one is the scout, and which gets its grant.
    pub(super) scouts_for: Option<LeaseId>,
    /// Observers know of its grant, so its end is reported too.
    pub(super) is_announced: bool,
    /// After the grant; 0 without fencing.
    pub(super) token: u64,
    /// Before the grant, when its request began.
    pub(super) granted_at: Moment,
    /// How often it may still be passed on within this process.
    pub(super) relay: Relay,
    /// The purpose of the extension that is under way.
    pub(super) extending: Extending,
    /// When the holder is told that an extension or a release failed.
    pub(super) late_at: Moment,
    /// The number of the last extension that is over, and of the last one that has not failed.
    pub(super) judged: u32,
    pub(super) extended: u32,
    /// The answers to the holder's last command that failed, and when it was sent: whatever is asked since.
    pub(super) unread: Option<Box<(Votes, Answers, Moment)>>,
    /// How many replicas have it, if its holder has asked.
    #[cfg(any(test, feature = "replicas"))]
    pub(super) counted: Option<Box<Counted>>,
    /// Renewals in a row that failed.
    pub(super) failed: u32,
    /// When it is due, and when the timer wheel has it, which is not later.
    pub(super) due: Moment,
    pub(super) planned: Moment,
    pub(super) replicas: Box<[Replica]>,
    /// Of a request or a release: one call at a time.
    pub(super) waker: Option<Waker>,
    /// The servers' answers to the last command, other than grants.
    pub(super) said: Answers,
    /// The result of a release.
    pub(super) end: Option<End>,
    /// Callers that wait while it is held, each at its own index: true for the loss, false for an answer.
    pub(super) told: Vec<Option<(bool, Waker)>>,
}

impl Lease {
    pub(super) fn state(&self) -> Option<LeaseState> {
        if let Phase::Granted(state) = self.phase { Some(state) } else { None }
    }

    pub(super) fn is_held(&self) -> bool {
        self.state().is_some_and(LeaseState::is_held)
    }

    /// Whether a push about its key can mean its end.
    pub(super) fn is_told_of(&self) -> bool {
        self.is_renewed && self.kind.is_exclusive() && self.is_trackable()
    }

    /// Whether a waiting request can have this lease as it is.
    pub(super) fn can_pass_to(&self, next: &Self) -> bool {
        let is_ready = matches!(next.phase, Phase::InLine | Phase::Resting { .. } | Phase::Queued);
        let is_alike = std::ptr::eq(self.kind, next.kind) && self.term == next.term;
        // If the lease is passed on, the entry in the queue is left.
        let is_clear = next.entry.is_some() || !next.is_exposed();
        let is_alike = is_alike && self.bounded.is_none() && next.bounded.is_none();
        let is_alike = is_alike && self.words == next.words && self.is_renewed && next.is_renewed;
        is_ready && is_alike && self.owner.says(&next.owner) && is_clear
    }

    /// The keys of all locks that it has.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let also = self.kind.also(&self.words).iter().map(|key| &**key);
        std::iter::once(self.names.lock()).chain(also)
    }

    /// Whether one server alone decides.
    pub(super) fn is_alone(&self) -> bool {
        self.replicas.len() == 1
    }

    /// How many of its replicas have to grant it: for several slots all.
    pub(super) fn quorum(&self, of_servers: Quorum) -> Quorum {
        quorum_of(self.replicas.len(), of_servers)
    }

    /// The link of a replica.
    pub(super) fn link(&self, at: usize) -> usize {
        self.replicas[at].link.into()
    }

    /// The indices of the replicas at a link.
    pub(super) fn at_link(&self, link: usize) -> impl Iterator<Item = usize> {
        let replicas = self.replicas.iter().enumerate();
        replicas.filter(move |(_, replica)| usize::from(replica.link) == link).map(|(at, _)| at)
    }

    /// The replicas in this state, one bit each.
    #[inline(never)]
    pub(super) fn bits(&self, has: Has) -> u64 {
        let all = (0_u64..).zip(&self.replicas);
        all.fold(0, |bits, (at, replica)| bits | u64::from(replica.has == has) << at)
    }

    /// Takes over when servers answered, and on which connection, from another lease of the same lock.
    pub(super) fn has_met(&mut self, others: &[Replica]) {
        for (replica, other) in self.replicas.iter_mut().zip(others) {
            (replica.generation, replica.answered_at) = (other.generation, other.answered_at);
        }
    }

    /// Whether some server may have something of it.
    pub(super) fn is_exposed(&self) -> bool {
        self.replicas.iter().any(|replica| replica.has != Has::Nothing)
    }

    /// Whether the request may wait for another holder's end.
    pub(super) fn waits(&self) -> bool {
        self.bid.waits()
    }

    /// The kind of the next request. If the owner may have the lock already (in its turn, or when it asks again), only a
    /// script can see that; then there is a proposal.
    pub(super) fn asks_as(&self) -> &'static Kind {
        let has_proposal = self.bid.ballot().is_some();
        let needs_script = has_proposal && !self.kind.is_fenced && !self.kind.means().are_steps;
        if needs_script { &FENCED } else { self.kind }
    }

    /// How long its keys live on servers: at least for its TTL.
    #[inline(never)]
    pub(super) fn key_life(&self) -> Duration {
        let ttl = self.term.ttl();
        self.bounded.as_ref().map_or(ttl, |bounded| bounded.bounds.key_life(ttl))
    }

    pub(super) fn key_ms(&self) -> u64 {
        match &self.bounded {
            None => self.term.ttl_ms(),
            Some(_) => u64::try_from(self.key_life().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// When it ends, if its TTL lasts until then.
    pub(super) fn cut(&self, until: Moment) -> Moment {
        self.bounded.as_ref().map_or(until, |bounded| bounded.bounds.cut(self.granted_at, until))
    }

    /// Whether it may not end later, so that a renewal is useless.
    pub(super) fn is_at_its_last(&self, until: Moment) -> bool {
        self.bounded
            .as_ref()
            .is_some_and(|bounded| bounded.bounds.are_reached(self.granted_at, until))
    }

    /// After a loss by its own end, the lock stays taken for the lock-delay: it is not released.
    pub(super) fn let_expire(&mut self, why: Loss) {
        let is_delayed =
            self.bounded.as_ref().is_some_and(|bounded| bounded.bounds.lock_delay.is_some());
        if is_delayed && matches!(why, Loss::Expired | Loss::Suspended | Loss::HeldLongest) {
            self.replicas.iter_mut().for_each(|replica| replica.has = Has::Nothing);
        }
    }

    /// The answers to its extensions no longer count.
    pub(super) fn leaves_extensions(&mut self, doubt: Doubt) {
        let open = self.votes.asked & !(self.votes.granted | self.votes.denied);
        let all = self.replicas.iter_mut().enumerate();
        for (_, replica) in all.filter(|(at, _)| open & 1 << at != 0) {
            replica.doubt = replica.doubt.max(doubt);
        }
    }

    /// Until when this round waits for answers that the others can do without; longer for far servers.
    #[inline(never)]
    pub(super) fn patience_ends(&self, links: &[Link]) -> Moment {
        let far = |it: &Replica| links[usize::from(it.link)].talk.greeted_in;
        let trips = self.replicas.iter().map(|it| it.answered_at.since(self.asked_at).max(far(it)));
        self.asked_at.after(patience(trips.max().unwrap_or_default()))
    }

    /// At the limit of a wait: whether the only server has left a command unanswered for half of a timeout, and said nothing
    /// for a whole one, so that its earlier answers no longer count.
    pub(super) fn is_silent(&self, timeout: Duration, now: Moment) -> bool {
        let since = match (self.phase, &self.entry) {
            (Phase::Queued, Some(entry)) => entry.unanswered_since,
            (Phase::Asking, _) if self.votes.answered() == 0 => Some(self.asked_at),
            _ => None,
        };
        self.is_alone()
            && self.replicas[0].answered_at.after(timeout) <= now
            && since.is_some_and(|since| is_silence(since, timeout, now))
    }

    /// Earlier answers no longer count: the servers are late.
    pub(super) fn forgets_what_was_said(&mut self) {
        self.said.clear();
        self.are_late();
    }

    /// Servers that have not answered this round are late.
    pub(super) fn are_late(&mut self) {
        self.votes.failed |= self.votes.asked & !self.votes.answered();
    }

    /// Whether a server may have carried out its command of this round, and did not answer.
    pub(super) fn is_unknown(&self) -> bool {
        let unsaid = self.votes.asked & self.votes.failed;
        let mut replicas = self.replicas.iter().enumerate();
        replicas.any(|(at, replica)| {
            unsaid & 1 << at != 0 && matches!(replica.has, Has::Asked | Has::Perhaps)
        })
    }

    /// For how many milliseconds its lock stays locked after a release, if it does.
    pub(super) fn rest_ms(&self, now: Moment) -> Option<u64> {
        self.bounded.as_ref().and_then(|bounded| bounded.rest_ms(self.granted_at, now))
    }

    /// Whether its replicas are asked for different locks.
    pub(super) fn is_parted(&self) -> bool {
        #[cfg(any(test, feature = "cluster"))]
        return self.replicas.iter().any(|replica| replica.routed.is_of_several);
        #[cfg(not(any(test, feature = "cluster")))]
        false
    }

    /// Whether its keys were last found at two servers.
    pub(super) fn is_apart(&self) -> bool {
        #[cfg(any(test, feature = "cluster"))]
        return self.replicas.iter().any(|replica| replica.routed.is_apart);
        #[cfg(not(any(test, feature = "cluster")))]
        false
    }

    /// The target of a reply.
    pub(super) fn to(&self, id: LeaseId, at: usize, what: What) -> To {
        To::Lease { id, at: u8::try_from(at).unwrap_or(u8::MAX), round: self.round, what }
    }

    /// Releases it at one server, or extends the key to the rest of its least time.
    fn part(&self, question: Question<'_>, now: Moment) {
        let Some(rest) = self.rest_ms(now) else { return (self.kind.release)(question) };
        if let Some(alone) = self.kind.alone() {
            return (alone.extend)(Question { ttl_ms: rest, ..question });
        }
        let Question { command, names, owner, scripts, .. } = question;
        command.call(&scripts.extend, &[names.lock()], &[owner, &Decimal::new(rest)]);
    }

    pub(super) fn question<'a>(
        &'a self,
        _at: usize,
        command: &'a mut Command,
        scripts: &'a Scripts,
    ) -> Question<'a> {
        command.is_alone = self.is_alone();
        Question {
            command,
            names: &self.names,
            words: &self.words,
            owner: self.owner.value(),
            predecessor: self.predecessor.as_ref().map(|owner| owner.value()),
            ttl_ms: self.key_ms(),
            token: self.token,
            ballot: self.bid.ballot(),
            goes_on: self.relay != Relay::default(),
            defers: self.defers,
            may_be_queued: self.entry.is_some(),
            scripts,
            #[cfg(any(test, feature = "cluster"))]
            slot: self.is_parted().then(|| self.replicas[_at].routed.slot),
        }
    }

    /// Writes a command to one replica. If `command` is not empty, it is the one for another replica, and is used again.
    pub(super) fn ask(
        &self,
        what: What,
        (id, at): (LeaseId, usize),
        link: &mut Link,
        command: &mut Command,
        scripts: &Scripts,
        now: Moment,
    ) {
        #[cfg(any(test, feature = "scriptless"))]
        if what == What::Acquire && self.kind.means().are_steps {
            return self.ask_in_steps((id, at), link, command, scripts, now);
        }
        let mut is_noted = false;
        if what == What::Release {
            let is_freed;
            (is_freed, is_noted) = self.is_only_freed((id, at), link, command, scripts, now);
            if is_freed {
                return;
            }
        }
        let to = self.to(id, at, what);
        if !command.bytes.is_empty() && command.form == link.talk.form && !self.is_parted() {
            return link.talk.say(command, to, now);
        }
        command.bytes.clear();
        command.form = link.talk.form;
        #[cfg(any(test, feature = "cluster"))]
        if self.spells_piece(at, what, command, scripts, now) {
            return link.talk.say(command, to, now);
        }
        let question = self.question(at, command, scripts);
        match (what, self.kind.alone()) {
            (What::Release, _) => self.part(question, now),
            (What::Extend, Some(alone)) => (alone.extend)(question),
            (What::Repair, Some(alone)) => (alone.repair)(question),
            _ => (self.asks_as().acquire)(question),
        }
        if let (What::Release, Some(memory), false) = (what, link.memory(), is_noted) {
            memory.note(command, now);
        }
        link.talk.say(command, to, now);
    }
}

/// See [`Lease::quorum`].
pub(super) fn quorum_of(replicas: usize, of_servers: Quorum) -> Quorum {
    if replicas == of_servers.servers() { of_servers } else { Quorum::all(replicas) }
}

/// Bounds of a lease beside its TTL.
#[derive(Clone)]
pub(super) struct Bounded {
    pub(super) bounds: Bounds,
    /// Its holder knows of the grant.
    pub(super) is_told: bool,
}

impl Bounded {
    pub(super) fn new(bounds: Bounds) -> Option<Box<Self>> {
        (!bounds.are_none()).then(|| Box::new(Self { bounds, is_told: false }))
    }

    /// For how many milliseconds its lock stays locked after a release, if it does.
    pub(super) fn rest_ms(&self, granted_at: Moment, now: Moment) -> Option<u64> {
        let at_least = self.bounds.at_least.filter(|_| self.is_told)?;
        let rest = granted_at.after(at_least).since(now);
        let whole = u64::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        (whole > 0).then_some(whole)
    }
}

/// An owner in the queue of a lock at one server.
pub(crate) struct Entry {
    /// The link to the server, and the index of the lease's replica there.
    pub(crate) server: usize,
    pub(super) at: usize,
    pub(crate) state: WaiterState,
    /// Least time between two commands, whatever a server pushes.
    pub(crate) pause: Duration,
    /// When its last command was sent; only the answer to that one is judged.
    pub(crate) asked_at: Moment,
    /// Since when no command has been answered.
    pub(crate) unanswered_since: Option<Moment>,
    /// The server has answered its owner: only a first command enters the queue.
    pub(crate) is_known: bool,
    /// The number of waiters before it, by the last answer.
    pub(crate) before: u32,
    /// The lock has changed since its last command, by a push or by this process.
    pub(crate) is_told: bool,
    /// When all servers were asked last.
    pub(crate) all_asked_at: Moment,
    /// The attempt by another owner that asks them.
    pub(super) scout: Option<LeaseId>,
    /// When the holder's lease ends, if known.
    pub(crate) frees_at: Option<Moment>,
    /// The owner's turn to ask all servers: until then this server keeps the lock for it, with this token.
    pub(super) turn: Option<(Moment, u64)>,
}

#[cfg(test)]
mod tests;
