//! The events of a run, in true time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::clock::simulated::elapsed;
use crate::policy::Moment;
use crate::support::leases;
pub(crate) use crate::support::leases::Part;

/// Maximum commands for one lock by one client to one server: far more than are ever needed.
const ASKED_A_SECOND_MAX: u32 = 200;
/// Maximum releases of one owner, in the queue or not, also if the server refuses them.
const RELEASED_A_SECOND_MAX: u32 = 50;

/// The name of their maximum among the counts.
const MOST_ASKED: &str = "asked in a second, at most";

/// Tokens that a server sets aside for the process of an owner that takes over from another.
const ASIDE: u64 = 15;

/// True time since the run began.
pub(crate) type At = Duration;

/// A lease as reported to its holder.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) name: usize,
    pub(crate) client: usize,
    pub(crate) part: Part,
    pub(crate) token: u64,
    /// When the acquire began; for a lease that was passed on, the acquire that a server granted.
    pub(crate) begun: At,
    pub(crate) granted: At,
    /// Until when its guard said that it holds, and its holder had not begun to release it.
    pub(crate) until: At,
}

impl leases::Lease for Lease {
    fn name(&self) -> usize {
        self.name
    }

    fn part(&self) -> Part {
        self.part
    }

    fn token(&self) -> u64 {
        self.token
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

/// A guard's claim at some moment, by its client's clock.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: usize,
    pub(crate) token: u64,
    pub(crate) ttl: Duration,
    pub(crate) deadline: Moment,
    /// When the latest command on which the claim can rest was written.
    pub(crate) asked_by: Moment,
}

/// When a loss was signalled, by its client's clock, to a client that did not stand still.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pub(crate) name: usize,
    pub(crate) token: u64,
    pub(crate) ttl: Duration,
    pub(crate) at: Moment,
    pub(crate) asked_by: Moment,
}

/// A lock that was certainly released before its time, and had to stay taken until then.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pub(crate) name: usize,
    pub(crate) from: At,
    pub(crate) until: At,
}

/// A broken promise that shows at a server.
#[derive(Clone, Debug)]
pub(crate) struct Breach {
    pub(crate) check: &'static str,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) leases: Vec<Lease>,
    pub(crate) shares: Vec<Lease>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) signals: Vec<Signal>,
    pub(crate) rests: Vec<Rest>,
    pub(crate) breaches: Vec<Breach>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) notes: Vec<(At, String)>,
    /// A digest of all notes: two runs of a seed have the same.
    pub(crate) digest: u64,
    pub(crate) questions: Questions,
    /// For each client, server and lock: a second, and the commands in it.
    asked: BTreeMap<(usize, usize, Vec<u8>), (u64, u32)>,
    /// The latest wall clock that any server had, and the largest number of each counter.
    latest_wall: u64,
    counters: BTreeMap<Vec<u8>, u64>,
    numbers: u64,
}

/// A lock, a token and a client.
pub(crate) type Grant = (Vec<u8>, u64, usize);
/// A lock and an owner.
pub(crate) type Held = (Vec<u8>, Vec<u8>);

/// Commands that were written to servers and carried out, on which guards may rest.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// The owners of each grant: several may have had the token accepted, but at most one was
    /// issued it.
    owners: BTreeMap<Grant, BTreeSet<Vec<u8>>>,
    /// Tokens that were set aside for an owner, and when the command that did it was written, in true time.
    aside: BTreeMap<(Grant, Vec<u8>), At>,
    /// For each server, when the last command that it granted was written.
    granted: BTreeMap<Held, BTreeMap<usize, Moment>>,
    /// When the first release was written, in true time.
    releases: BTreeMap<Held, At>,
    /// Locks that servers were told to free, and below, locks that they granted and were not told to free.
    freed: BTreeSet<(Held, usize)>,
    pub(crate) kept: BTreeSet<(Held, usize)>,
    /// Locks that servers granted after they were told to free them, and were not told so again.
    pub(crate) left_late: BTreeSet<(Held, usize)>,
    /// Locks that a server was told to free before it came back with an earlier state, over connections that stayed: its queue
    /// may have their owners again.
    undone: BTreeSet<(Held, usize)>,
    /// Leases that were lost, and whose locks are left to expire.
    left: BTreeSet<Held>,
    /// For each owner, the owners that took over from it, whose releases are for it too.
    successors: BTreeMap<Held, BTreeSet<Held>>,
    /// The connection on which each owner asked each server.
    links: BTreeMap<(Held, usize), u64>,
    /// For how many milliseconds each owner's keys live, by its first command.
    lives: BTreeMap<Held, Vec<u8>>,
    /// Owners whose locks are released from then on, in true time, and stay taken for a rest.
    resting: BTreeMap<Held, At>,
    /// The client of each owner that has waited in a queue.
    waiters: BTreeMap<Held, usize>,
}

impl History {
    /// A client asks a server for a lock; asking too often breaks a promise.
    pub(crate) fn note_asked(&mut self, server: usize, client: usize, key: &[u8], at: At) {
        let times = self.times(server, client, key, at);
        let most = self.counts.entry(MOST_ASKED).or_default();
        *most = (*most).max(times.into());
        if times == ASKED_A_SECOND_MAX {
            self.breach("storm", format!("client {client} asks server {server} without end"));
        }
    }

    /// A client sends an owner's release, which the server may refuse.
    pub(crate) fn note_release(&mut self, server: usize, client: usize, owner: &[u8], at: At) {
        if self.times(server, client, owner, at) == RELEASED_A_SECOND_MAX {
            let owner = String::from_utf8_lossy(owner);
            let text = format!("client {client} gives {owner} back to server {server} without end");
            self.breach("storm", text);
        }
    }

    /// How often a server got this in this second.
    fn times(&mut self, server: usize, client: usize, what: &[u8], at: At) -> u32 {
        let (second, times) = self.asked.entry((server, client, what.into())).or_default();
        if std::mem::replace(second, at.as_secs()) != at.as_secs() {
            *times = 0;
        }
        *times += 1;
        *times
    }
}

impl History {
    /// The next number.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The largest allowed counter: a second above all servers' clocks and accepted tokens, plus the tokens set
    /// aside. A server has `counter` now.
    pub(crate) fn token_bound(&mut self, key: &[u8], wall: u64, counter: u64) -> u64 {
        self.latest_wall = self.latest_wall.max(wall);
        let accepted = self.counters.entry(key.into()).or_default();
        let bound = self.latest_wall.max(*accepted) + 1_000_000 + ASIDE;
        *accepted = counter.max(*accepted);
        bound
    }
}

impl Questions {
    /// An owner asks a server for a lock; returns whether it asked on another connection before.
    pub(crate) fn note_link(&mut self, held: Held, server: usize, link: u64) -> bool {
        *self.links.entry((held, server)).or_insert(link) != link
    }

    /// A server has refused an owner, which may ask on another connection if it has nothing there.
    pub(crate) fn note_refused(&mut self, held: Held, server: usize) {
        let at = (held, server);
        if !self.kept.contains(&at) {
            self.links.remove(&at);
        }
    }

    pub(crate) fn note_life(&mut self, held: Held, ttl: &[u8]) {
        self.lives.entry(held).or_insert(ttl.into());
    }

    pub(crate) fn note_resting(&mut self, held: Held, at: At) {
        self.resting.insert(held, at);
    }

    /// Whether this owner's key stays for a rest: it gets another TTL than before, or is released. A rest may be as
    /// long as that TTL.
    pub(crate) fn is_rest(&self, held: &Held, ttl: &[u8], asked: At) -> bool {
        self.lives.get(held).is_some_and(|life| *life != ttl)
            || self.resting.get(held).is_some_and(|at| *at <= asked)
    }

    pub(crate) fn note_waiter(&mut self, held: &Held, client: usize) {
        self.waiters.insert(held.clone(), client);
    }

    pub(crate) fn waiter(&self, held: &Held) -> Option<usize> {
        self.waiters.get(held).copied()
    }

    pub(crate) fn note_owner(&mut self, grant: Grant, owner: &[u8]) {
        self.owners.entry(grant).or_default().insert(owner.into());
    }

    /// A server sets tokens aside, above that of a grant that was requested at `asked`.
    pub(crate) fn note_aside(&mut self, (key, token, client): Grant, owner: &[u8], asked: At) {
        for token in token + 1..=token + ASIDE {
            let grant = (key.clone(), token, client);
            self.aside.insert((grant.clone(), owner.into()), asked);
            self.note_owner(grant, owner);
        }
    }

    /// When the lease that was passed on with this token was requested, if one was. Another owner may have had the same
    /// token set aside if too few servers granted it the lock.
    pub(crate) fn tenure(&self, grant: Grant, owner: Vec<u8>) -> Option<At> {
        self.aside.get(&(grant, owner)).copied()
    }

    /// The owners of a grant.
    pub(crate) fn owners(&self, grant: &Grant) -> BTreeSet<Vec<u8>> {
        self.owners.get(grant).cloned().unwrap_or_default()
    }

    /// A server granted a lock, or extended it.
    pub(crate) fn note_grant(&mut self, held: Held, server: usize, written: Moment) {
        let last = self.granted.entry(held).or_default().entry(server).or_insert(written);
        *last = (*last).max(written);
    }

    /// A server grants an owner a lock; returns whether it had been told to free that before.
    pub(crate) fn note_let_in(&mut self, held: Held, server: usize) -> bool {
        let is_late = self.freed.contains(&(held.clone(), server));
        let left = if is_late { &mut self.left_late } else { &mut self.kept };
        left.insert((held, server));
        is_late
    }

    /// A server has repaired an owner's lock: nobody else can have it there.
    pub(crate) fn note_repaired(&mut self, held: &Held, server: usize) {
        let is_other = |other: &Held| other.0 == held.0 && other.1 != held.1;
        self.kept.retain(|(other, on)| *on != server || !is_other(other));
    }

    /// A server has granted a lock to another owner: this one has nothing left there to release.
    pub(crate) fn note_replaced(&mut self, held: &Held, server: usize) {
        self.kept.remove(&(held.clone(), server));
    }

    pub(crate) fn note_set_back(&mut self, server: usize) {
        self.undone.extend(self.freed.iter().filter(|(_, on)| *on == server).cloned());
    }

    /// Whether a server may hand a lock to an owner that has left, because it forgot that.
    pub(crate) fn is_undone(&self, held: &Held, server: usize) -> bool {
        self.undone.contains(&(held.clone(), server))
    }

    pub(crate) fn note_freed(&mut self, held: Held, server: usize) {
        self.kept.remove(&(held.clone(), server));
        self.left_late.remove(&(held.clone(), server));
        self.freed.insert((held, server));
    }

    /// Notes that nobody releases this grant.
    pub(crate) fn note_left(&mut self, grant: &Grant) {
        let owners = self.owners.get(grant).into_iter().flatten();
        self.left.extend(owners.map(|owner| (grant.0.clone(), owner.clone())));
    }

    /// Whether nobody releases the lock of this owner, or of the owner that took over from it.
    pub(crate) fn is_left(&self, held: &Held) -> bool {
        let mut answering = self.successors.get(held).into_iter().flatten();
        self.left.contains(held) || answering.any(|successor| self.left.contains(successor))
    }

    /// Notes that one owner took over from another.
    pub(crate) fn note_succeeds(&mut self, successor: &Held, predecessor: Held) {
        self.successors.entry(predecessor).or_default().insert(successor.clone());
    }

    pub(crate) fn note_release(&mut self, held: Held, written: At) {
        let release = self.releases.entry(held).or_insert(written);
        *release = (*release).min(written);
    }

    /// When its first release that reached a server was written, in true time.
    pub(crate) fn released(&self, held: &Held) -> Option<At> {
        self.releases.get(held).copied()
    }

    /// The latest time from which a lease can count: the `quorum`th latest of the times at which granted
    /// commands were written.
    pub(crate) fn asked_by(&self, grant: &Grant, quorum: usize) -> Option<Moment> {
        let owners = self.owners.get(grant)?.iter();
        let of_owner = |owner: &Vec<u8>| {
            let granted = self.granted.get(&(grant.0.clone(), owner.clone()))?;
            let mut moments: Vec<Moment> = granted.values().copied().collect();
            moments.sort_unstable_by(|one, other| other.cmp(one));
            moments.get(quorum - 1).copied()
        };
        owners.filter_map(of_owner).max()
    }
}

impl History {
    pub(crate) fn note(&mut self, text: String) {
        let at = elapsed();
        for byte in at.as_nanos().to_le_bytes().iter().chain(text.as_bytes()) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self.notes.push((at, text));
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// The number of all counted events.
    pub(crate) fn deeds(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(crate) fn breach(&mut self, check: &'static str, text: String) {
        self.note(format!("BREACH {check}: {text}"));
        self.breaches.push(Breach { check, text });
    }
}
