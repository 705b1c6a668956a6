//! The state of the machine, and what all its parts use; the effects that a driver is to carry out; and what has happened, as
//! counts that the driver adds up and as events for observers.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[cfg(any(test, feature = "credentials"))]
use bytes::Bytes;
use bytes::BytesMut;
use leasehold_resp::{Frame, Limits};

use super::command::{Command, Scripts};
use super::ids::{Batches, CallId, LeaseId};
use super::kind::Kind;
use super::lease::{Lease, Refusal, Replica};
use super::line::{ByHash, Lines};
use super::link::Link;
use super::session::Fault;
use super::talk::Reply;
use crate::names::Names;
use crate::policy::fitness::Rules;
use crate::policy::{BEAT, Bid, LeaseState, Loss, Moment, Quorum, TimerWheel};

/// Boxes of ended leases that are kept for the next ones.
pub(super) const SPARE_MAX: usize = 64;
/// The end of time.
pub(super) const NEVER: Moment = Moment::from_nanos(u64::MAX);
/// How often the clock is read while there is no lease.
const IDLE: Duration = Duration::from_secs(3600);
const TIMEOUTS_UNTIL_DEAD: u32 = 2;

/// The settings of a machine, which never change.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) quorum: Quorum,
    /// Maximum time for an answer.
    pub(crate) timeout: Duration,
    /// Maximum time for a dial and its handshake together.
    pub(crate) connect_timeout: Duration,
    /// What a server needs for a vote; none if any server may vote.
    pub(crate) rules: Option<Rules>,
    /// The sections of INFO that are useful beside those that the rules need.
    pub(crate) info_if_allowed: &'static [&'static str],
    /// The largest reply.
    pub(crate) limits: Limits,
    /// In a Cluster: decodes the reply to `CLUSTER SLOTS`.
    #[cfg(any(test, feature = "cluster"))]
    pub(crate) nodes_of: Option<fn(&Frame) -> super::routing::Nodes>,
    /// From the sending of a command to the last time at which a server may run it.
    pub(crate) flight_max: Duration,
    pub(crate) scripts: Scripts,
    /// Without scripts: the kind that is used instead of another.
    #[cfg(any(test, feature = "scriptless"))]
    pub(crate) scriptless: Option<fn(&'static Kind) -> &'static Kind>,
    pub(crate) waits: &'static Waits,
    /// How high the server at an address ranks for a key: the same in all processes.
    pub(crate) rank: fn(&[u8], &str) -> u64,
    pub(crate) random: fn() -> u64,
    /// An id for an owner, which is never given twice.
    pub(crate) owner_id: fn(Moment) -> u128,
    /// The wall clock, in microseconds: proposals begin there, and nothing else does.
    pub(crate) wall_micros: fn() -> u64,
}

impl Settings {
    /// The kind that is used for this one. Leaving a free lock to waiters needs a script.
    #[cfg_attr(
        not(any(test, feature = "scriptless")),
        allow(clippy::unused_self, reason = "none is")
    )]
    pub(super) fn kind(&self, kind: &'static Kind, _is_fair: bool) -> &'static Kind {
        #[cfg(any(test, feature = "scriptless"))]
        if let Some(scriptless) = self.scriptless.filter(|_| !_is_fair) {
            return scriptless(kind);
        }
        kind
    }
}

/// How requests wait beside polling.
pub(crate) struct Waits {
    /// The first of a line was refused. Returns whether it waits by an entry from now on.
    pub(crate) refused: fn(&mut Machine, LeaseId, Moment) -> bool,
    /// The last command of an entry did not run, and is to be sent again.
    pub(crate) again: fn(&mut Machine, LeaseId, Moment),
    /// The server has answered the last command of an entry; none if the connection ended.
    pub(crate) answered: fn(&mut Machine, LeaseId, Option<&Frame>, Moment),
    /// The planned time of an entry has come.
    pub(crate) due: fn(&mut Machine, LeaseId, Moment),
    /// A server has pushed something.
    pub(crate) pushed: fn(&mut Machine, usize, &[Frame], Moment),
}

/// What a driver has to do beside sending bytes.
#[derive(Debug)]
#[allow(dead_code, reason = "what it is about is said, though not every driver asks")]
pub(crate) enum Effect {
    /// Get credentials, dial and make the handshake, all within this time: [`Machine::connected`] or
    /// [`Machine::disconnected`].
    Dial(usize, Duration),
    Close(usize, Fault),
    /// Another server may have replaced this one: it says that it is a replica, or no longer has a slot, or, in a Cluster,
    /// its connection has ended.
    Demoted(usize),
    /// Get credentials: [`Machine::log_in`].
    #[cfg(any(test, feature = "credentials"))]
    Login(usize),
    Wake(Waker),
    /// An unused waker: it may own values that call the machine, so it is not dropped inside.
    Drop(Waker),
    Tell(Event),
}

/// Counts since the last call of [`Machine::take_counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Attempts that were sent to servers; an entry in a queue is one.
    pub(crate) attempts: u32,
    /// Attempts that some server may or may not have carried out.
    pub(crate) unknown: u32,
    /// Leases that were given back to a server that had lost them.
    pub(crate) repaired: u32,
    /// Requests that went on because of a push.
    pub(crate) woken: u32,
    /// The change of the number of held leases.
    pub(crate) held: i32,
    /// The change of the number of waiting requests.
    pub(crate) waiting: i32,
}

/// What happened to a lease, a request or a login.
#[derive(Debug)]
pub(crate) enum Event {
    /// An attempt was refused because another client holds the lock.
    Contended(Names),
    /// A renewal begins.
    #[cfg(any(test, feature = "_renewals"))]
    Renews(LeaseId),
    /// With the time from the command to the verdict.
    Renewed(LeaseId, Names, Duration),
    RenewalFailed(LeaseId, Names),
    /// A renewal goes on as another, or as its holder's extension.
    #[cfg(any(test, feature = "_renewals"))]
    Overtaken(LeaseId),
    Lost(LeaseId, Names, Loss),
    /// A connection has logged in again.
    #[cfg(any(test, feature = "credentials"))]
    LoginRenewed(usize),
    /// The server refused the login.
    #[cfg(any(test, feature = "credentials"))]
    LoginFailed(usize, Bytes),
    /// A server has been the primary for `since`, and grants nothing new for `left`.
    #[cfg(any(test, feature = "grace"))]
    Reigns {
        server: usize,
        since: Duration,
        left: Duration,
    },
    /// A server is left out of attempts, or not any more.
    Breaker {
        server: usize,
        is_open: bool,
    },
}

/// Events that concern calls without a lease.
#[derive(Clone, Copy)]
pub(super) enum Happening<'a> {
    /// A dial to a server has succeeded or failed.
    Tried(usize),
    /// A command did not run, and is to be sent again.
    Missed(usize, CallId),
    /// The reply to one; none if its connection ended.
    Replied(CallId, Option<&'a Reply>),
    /// A key has changed, or any may have.
    Changed(Option<&'a [u8]>),
    /// A server has answered a command of a lease.
    Answered(LeaseId),
    /// The machine is closed.
    Closed,
}

/// See the module's documentation.
pub(crate) struct Machine {
    pub(super) settings: Settings,
    pub(super) links: Vec<Link>,
    /// The number of connections so far.
    pub(super) generations: u32,
    pub(super) leases: TimerWheel<Lease>,
    pub(super) lines: Lines,
    /// Owners that are in queues.
    pub(super) waiters: ByHash,
    /// Keys whose changes servers push.
    pub(super) watched: ByHash,
    pub(super) batches: Batches,
    /// Locks that a batch of releases has not freed, until their former leases end.
    pub(super) freeing: ByHash,
    #[cfg(any(test, feature = "_calls"))]
    pub(super) calls: super::calls::Calls,
    /// If primaries have a grace.
    #[cfg(any(test, feature = "grace"))]
    pub(super) grace: Option<Box<super::reign::Grace>>,
    #[cfg(any(test, feature = "cluster"))]
    pub(super) routes: Option<Box<super::routing::Routes>>,
    /// Kept for its capacity.
    pub(super) command: Command,
    pub(super) effects: Vec<Effect>,
    pub(super) counts: Counts,
    /// Nothing is due before this, unless noted later.
    next: Moment,
    /// Kept for their capacity.
    pub(super) due: Vec<LeaseId>,
    pub(super) proved: Vec<Reply>,
    pub(super) spare: Vec<Box<[Replica]>>,
    #[allow(clippy::vec_box, reason = "the next lease has the box")]
    pub(super) spare_bids: Vec<Box<Bid>>,
    /// Woken when each server has been tried.
    met: Vec<Waker>,
    /// Why no request is admitted any more.
    pub(super) closed: Option<Refusal>,
    /// The driver has ended, so no replies are read.
    pub(crate) is_undriven: bool,
    /// Woken when fewer releases are left.
    pub(super) told_of_end: Vec<Waker>,
    /// The number of servers that are still counting replicas, and the callers that are woken when all have.
    #[cfg(any(test, feature = "replicas"))]
    pub(super) counting: (u32, Vec<Waker>),
}

impl Machine {
    /// One link to each of these addresses.
    #[inline(never)]
    pub(crate) fn new(
        addresses: impl IntoIterator<Item = String>,
        settings: Settings,
        now: Moment,
    ) -> Self {
        let link = |address: String| Link::new(address.into(), now);
        let links: Vec<Link> = addresses.into_iter().map(link).collect();
        Self {
            settings,
            links,
            generations: 0,
            leases: TimerWheel::new(now),
            lines: Lines::default(),
            waiters: ByHash::default(),
            watched: ByHash::default(),
            batches: Batches::default(),
            freeing: ByHash::default(),
            #[cfg(any(test, feature = "_calls"))]
            calls: super::calls::Calls::default(),
            #[cfg(any(test, feature = "grace"))]
            grace: None,
            #[cfg(any(test, feature = "cluster"))]
            routes: None,
            command: Command::new(true),
            effects: Vec::new(),
            counts: Counts::default(),
            next: now,
            due: Vec::new(),
            proved: Vec::new(),
            spare: Vec::new(),
            spare_bids: Vec::new(),
            met: Vec::new(),
            closed: None,
            is_undriven: false,
            told_of_end: Vec::new(),
            #[cfg(any(test, feature = "replicas"))]
            counting: (0, Vec::new()),
        }
    }

    /// The bytes to be sent over a link. The driver takes them out.
    pub(crate) fn output(&mut self, link: usize, now: Moment) -> &mut BytesMut {
        self.flush(now);
        let Self { links, next, settings, .. } = self;
        let link = &mut links[link];
        link.talk.seal(now);
        if let Some(at) = link.talk.silent_at(settings.timeout * TIMEOUTS_UNTIL_DEAD) {
            *next = at.min(*next);
        }
        &mut link.talk.out
    }

    /// How many bytes are to be sent over a link, without releases that are still gathered; none if there is nothing to send.
    pub(crate) fn output_bytes(&self, link: usize) -> Option<usize> {
        let bytes = self.links[link].talk.out.len();
        (bytes != 0 || !self.batches.gathered.is_empty()).then_some(bytes)
    }

    /// Commands of a link, or of all nodes of a Cluster, that wait for replies; each release counts, also of those that go out
    /// together.
    #[inline]
    pub(crate) fn in_flight(&self, link: usize) -> usize {
        let of = |link: &Link| link.talk.in_flight() + link.together;
        let commands = match self.is_by_slots() {
            true => self.links.iter().map(of).sum(),
            false => of(&self.links[link]),
        };
        commands + self.batches.gathered.len()
    }

    /// Whether there are effects.
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// The effects. The driver leaves the buffer empty.
    pub(crate) fn take_effects(&mut self) -> &mut Vec<Effect> {
        &mut self.effects
    }

    /// When [`Machine::tick`] is to be called, or somewhat before.
    pub(crate) fn due(&self) -> Moment {
        self.next
    }

    /// The machine is due at this time.
    pub(super) fn note(&mut self, at: Moment) {
        self.next = self.next.min(at);
    }

    /// Finds out when the machine is due next, after all due work is done.
    pub(super) fn look_ahead(&mut self) {
        let silence = self.silence();
        let of_leases = self.leases.next_at().unwrap_or(NEVER);
        self.next =
            self.links.iter().map(|link| link.due(silence, NEVER)).fold(of_leases, Moment::min);
    }

    /// A connection on which commands wait is dead if no byte comes for this time.
    pub(super) fn silence(&self) -> Duration {
        self.settings.timeout * TIMEOUTS_UNTIL_DEAD
    }

    /// The lease is due at this time.
    #[inline(never)]
    pub(crate) fn plan(&mut self, id: LeaseId, at: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        lease.due = at;
        if at < lease.planned {
            lease.planned = at;
            self.leases.reschedule(id, at);
            self.note(at);
        }
    }

    /// Stores the caller's waker. The former waker is not woken: it may belong to the same task, although
    /// [`Waker::will_wake`] denies that.
    pub(super) fn wait_for(&mut self, id: LeaseId, waker: &Waker) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        if !lease.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            let known = lease.waker.replace(waker.clone());
            self.effects.extend(known.map(Effect::Drop));
        }
    }

    #[inline(never)]
    pub(super) fn wake(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        if let Some(waker) = lease.waker.take() {
            self.effects.push(Effect::Wake(waker));
        }
        if !lease.told.is_empty() {
            lease.wake_told(false, &mut self.effects);
        }
    }

    /// The counts since the last call.
    pub(crate) fn take_counts(&mut self) -> Counts {
        let waiting = self.lines.take_change();
        Counts { waiting, ..std::mem::take(&mut self.counts) }
    }

    /// An attempt was refused because another client holds the lock.
    pub(super) fn is_contended(&mut self, id: LeaseId) {
        self.tell(id, &Event::Contended);
    }

    /// A request goes on because of a push.
    pub(crate) fn is_woken(&mut self) {
        self.counts.woken += 1;
    }

    #[inline(never)]
    pub(super) fn tell(&mut self, id: LeaseId, event: &dyn Fn(Names) -> Event) {
        let is_heard = |lease: &&Lease| lease.is_announced || lease.state().is_none();
        let lease = self.leases.get(id).filter(|lease| lease.kind.has_guard);
        if let Some(lease) = lease.filter(is_heard) {
            self.effects.push(Effect::Tell(event(lease.names.clone())));
        }
    }

    /// The grant of a lease was reported. If the lease was lost before that, reports the loss.
    pub(crate) fn is_announced(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        lease.is_announced = true;
        if let Some(why) = lease.state().and_then(LeaseState::loss) {
            self.tell(id, &|names| Event::Lost(id, names, why));
        }
    }

    pub(super) fn tell_of_renewal(&mut self, id: LeaseId, asked_at: Moment, now: Moment) {
        self.tell(id, &|names| Event::Renewed(id, names, now.since(asked_at)));
    }

    /// The state of a lease; none if it is not granted.
    pub(crate) fn state(&self, id: LeaseId) -> Option<LeaseState> {
        self.leases.get(id)?.state()
    }

    /// Whether a guard of this machine holds the lock.
    pub(crate) fn holds(&self, names: &Names) -> bool {
        let is_its = |lease: &Lease| lease.keys().any(|key| *key == *names.lock());
        let mut leases = self.leases.iter().map(|(_, lease)| lease);
        leases.any(|lease| lease.kind.has_guard && lease.is_held() && is_its(lease))
    }

    /// The leases that match, in the order of their slots, which is the same in each run.
    pub(super) fn all(&self, is_so: &dyn Fn(LeaseId, &Lease) -> bool) -> Vec<LeaseId> {
        self.leases.iter().filter(|(id, lease)| is_so(*id, lease)).map(|(id, _)| id).collect()
    }

    /// Whether one of the first `most` leases has this owner's id, and has a guard or will have one.
    pub(crate) fn has_owner(&self, id: &[u8], most: usize) -> bool {
        let mut leases = self.leases.iter().take(most).map(|(_, lease)| lease);
        leases.any(|lease| lease.kind.has_guard && lease.owner.id() == id)
    }

    /// The value under the lock's key.
    #[cfg(any(test, feature = "groups"))]
    pub(crate) fn owner(&self, id: LeaseId) -> Option<&[u8]> {
        self.leases.get(id).map(|lease| lease.owner.value())
    }

    /// The lock of a lease.
    pub(crate) fn names(&self, id: LeaseId) -> Option<&Names> {
        self.leases.get(id).map(|lease| &lease.names)
    }

    /// The fencing token of a lease that was granted; 0 without fencing.
    pub(crate) fn token(&self, id: LeaseId) -> u64 {
        self.leases.get(id).map_or(0, |lease| lease.token)
    }

    /// Tells calls without a lease, in a program that has these; whether one of them does the rest.
    #[inline]
    pub(super) fn tell_callers(&mut self, _what: Happening<'_>, _now: Moment) -> bool {
        #[cfg(any(test, feature = "_calls"))]
        return self.callers_hear(_what, _now);
        #[cfg(not(any(test, feature = "_calls")))]
        false
    }

    /// Ready once each server serves, or was tried and does not.
    pub(crate) fn poll_met(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.links.iter().all(Link::is_tried) {
            return Poll::Ready(());
        }
        self.met.push(context.waker().clone());
        Poll::Pending
    }

    /// A server serves, or was tried and does not.
    pub(super) fn tell_of_meeting(&mut self) {
        self.effects.extend(self.met.drain(..).map(Effect::Wake));
    }

    /// Fewer releases may be left.
    pub(super) fn tell_of_end(&mut self) {
        if self.told_of_end.is_empty() {
            return;
        }
        self.effects.extend(self.told_of_end.drain(..).map(Effect::Wake));
    }

    /// The number of servers that serve.
    #[cfg(test)]
    pub(crate) fn serving(&self) -> usize {
        self.links.iter().filter(|link| link.is_ready()).count()
    }

    /// Why a link has no connection; none if it has one.
    #[cfg(any(test, feature = "_calls"))]
    pub(crate) fn fault(&self, link: usize) -> Option<&Fault> {
        self.links[link].fault.as_ref()
    }

    /// Whether a server serves.
    pub(crate) fn serves(&self, link: usize) -> bool {
        self.links[link].is_ready()
    }

    /// A server's address, the same in all processes.
    pub(crate) fn address(&self, link: usize) -> &str {
        &self.links[link].address
    }

    /// Keeps the bid of an ended lease for the next request.
    pub(super) fn spare(&mut self, bid: Option<Box<Bid>>) {
        if self.spare_bids.len() < SPARE_MAX {
            self.spare_bids.extend(bid);
        }
    }

    /// The longest time between two readings of the clock, whatever is due: timers stand still while the computer sleeps.
    pub(crate) fn beat(&self) -> Duration {
        if self.leases.len() == 0 { IDLE } else { BEAT }
    }

    /// Leases in any phase.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether servers have keys by their slots.
    pub(super) fn is_by_slots(&self) -> bool {
        #[cfg(any(test, feature = "cluster"))]
        return self.routes.is_some();
        #[cfg(not(any(test, feature = "cluster")))]
        false
    }

    /// Whether one server alone decides.
    pub(crate) fn is_alone(&self) -> bool {
        self.settings.quorum.servers() == 1
    }
}

#[cfg(test)]
mod tests;
