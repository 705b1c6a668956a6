//! What happened, in true time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::clock::simulated::elapsed;
use crate::policy::Moment;
use crate::support::leases;
pub(crate) use crate::support::leases::Part;

/// Of questions for one lock by one client to one server, far more than are ever needed.
const ASKED_A_SECOND_MAX: u32 = 200;
/// Likewise, of releases of one owner, in the queue and out of it: also where the server refuses them.
const RELEASED_A_SECOND_MAX: u32 = 50;

/// The most of these that there were, among the counts.
const MOST_ASKED: &str = "asked in a second, at most";

/// Tokens that a server sets aside for the process of an owner that takes over from another.
const ASIDE: u64 = 15;

/// True time since the run began.
pub(crate) type At = Duration;

/// A lease as its holder was told of it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) name: usize,
    pub(crate) client: usize,
    pub(crate) part: Part,
    pub(crate) token: u64,
    /// When the acquire was begun; of a lease that was passed on, the one that a server granted.
    pub(crate) begun: At,
    pub(crate) granted: At,
    /// Up to here its holder was told that it holds, and did not begin to give it back.
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

/// What a guard claimed at some moment, by its client's clock.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: usize,
    pub(crate) token: u64,
    pub(crate) ttl: Duration,
    pub(crate) deadline: Moment,
    /// The latest question that it can rest on was written then.
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

/// A lock that was given back for certain before its time, and was to stay taken until then.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pub(crate) name: usize,
    pub(crate) from: At,
    pub(crate) until: At,
}

/// A broken promise that shows where it is broken.
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
    /// How often each client asked each server for a lock, in which second.
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

/// What was written to servers and carried out, for what guards may rest on.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// The owners of each grant: several may have had a token accepted, of which one at most was
    /// issued it.
    owners: BTreeMap<Grant, BTreeSet<Vec<u8>>>,
    /// Tokens that were set aside for an owner, and when the question was written that did it, in true time.
    aside: BTreeMap<(Grant, Vec<u8>), At>,
    /// When the last question was written that a server granted, for each server.
    granted: BTreeMap<Held, BTreeMap<usize, Moment>>,
    /// When the first release was written, in true time.
    releases: BTreeMap<Held, At>,
    /// What servers were told to free, and what they granted and were not told to free.
    freed: BTreeSet<(Held, usize)>,
    pub(crate) kept: BTreeSet<(Held, usize)>,
    /// What servers granted after they were told to free it, and were not told so again.
    pub(crate) left_late: BTreeSet<(Held, usize)>,
    /// Leases that were lost, and whose locks are left to expire.
    left: BTreeSet<Held>,
    /// The owner that took over from another, and answers for what that one had.
    successors: BTreeMap<Held, BTreeSet<Held>>,
    /// The connection on which each owner asked each server.
    links: BTreeMap<(Held, usize), u64>,
    /// For how many milliseconds the keys of each owner live, as it first asked for them.
    lives: BTreeMap<Held, Vec<u8>>,
    /// Owners whose locks are given back from then on, in true time, and stay taken for a rest.
    resting: BTreeMap<Held, At>,
    /// The client of each owner that has waited in a queue.
    waiters: BTreeMap<Held, usize>,
}

impl History {
    /// A client asks a server for a lock. Nothing that happens is a reason to ask it that often.
    pub(crate) fn note_asked(&mut self, server: usize, client: usize, key: &[u8], at: At) {
        let times = self.times(server, client, key, at);
        let most = self.counts.entry(MOST_ASKED).or_default();
        *most = (*most).max(times.into());
        if times == ASKED_A_SECOND_MAX {
            self.breach("storm", format!("client {client} asks server {server} without end"));
        }
    }

    /// A client gives back what an owner may have, which the server may refuse.
    pub(crate) fn note_release(&mut self, server: usize, client: usize, owner: &[u8], at: At) {
        if self.times(server, client, owner, at) == RELEASED_A_SECOND_MAX {
            let owner = String::from_utf8_lossy(owner);
            let text = format!("client {client} gives {owner} back to server {server} without end");
            self.breach("storm", text);
        }
    }

    /// How often a server was asked so in this second.
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
    /// One more than the last.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// No counter may be raised above this: a second more than any server's clock has shown, or any server
    /// has accepted, and what is set aside. A server has `counter` there now.
    pub(crate) fn token_bound(&mut self, key: &[u8], wall: u64, counter: u64) -> u64 {
        self.latest_wall = self.latest_wall.max(wall);
        let accepted = self.counters.entry(key.into()).or_default();
        let bound = self.latest_wall.max(*accepted) + 1_000_000 + ASIDE;
        *accepted = counter.max(*accepted);
        bound
    }
}

impl Questions {
    /// An owner asks a server for a lock; whether it has asked on another connection before.
    pub(crate) fn note_link(&mut self, held: Held, server: usize, link: u64) -> bool {
        *self.links.entry((held, server)).or_insert(link) != link
    }

    /// A server has refused an owner, which may ask on another connection where it has nothing.
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

    /// Whether this owner's key is to live for another time than it asked for, or is given back: it stays for a rest. A rest
    /// may be as long as what it asked for.
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

    /// A server sets tokens aside, behind that of a grant that was asked for then.
    pub(crate) fn note_aside(&mut self, (key, token, client): Grant, owner: &[u8], asked: At) {
        for token in token + 1..=token + ASIDE {
            let grant = (key.clone(), token, client);
            self.aside.insert((grant.clone(), owner.into()), asked);
            self.note_owner(grant, owner);
        }
    }

    /// When the owner's lease was asked for that was passed on with this token, if one was. Another owner may have had
    /// the same token set aside where too few servers let it in.
    pub(crate) fn tenure(&self, grant: Grant, owner: Vec<u8>) -> Option<At> {
        self.aside.get(&(grant, owner)).copied()
    }

    /// The owners of a grant.
    pub(crate) fn owners(&self, grant: &Grant) -> BTreeSet<Vec<u8>> {
        self.owners.get(grant).cloned().unwrap_or_default()
    }

    /// A server granted a lock, or that it lasts longer.
    pub(crate) fn note_grant(&mut self, held: Held, server: usize, written: Moment) {
        let last = self.granted.entry(held).or_default().entry(server).or_insert(written);
        *last = (*last).max(written);
    }

    /// A server lets an owner in. Whether it had been told before that it is to free the lock.
    pub(crate) fn note_let_in(&mut self, held: Held, server: usize) -> bool {
        let is_late = self.freed.contains(&(held.clone(), server));
        let left = if is_late { &mut self.left_late } else { &mut self.kept };
        left.insert((held, server));
        is_late
    }

    /// A server has given a lock to its owner again: nobody else can have it there.
    pub(crate) fn note_repaired(&mut self, held: &Held, server: usize) {
        let is_other = |other: &Held| other.0 == held.0 && other.1 != held.1;
        self.kept.retain(|(other, on)| *on != server || !is_other(other));
    }

    /// A server has given a lock to another than this owner, which has nothing left there to give back.
    pub(crate) fn note_replaced(&mut self, held: &Held, server: usize) {
        self.kept.remove(&(held.clone(), server));
    }

    pub(crate) fn note_freed(&mut self, held: Held, server: usize) {
        self.kept.remove(&(held.clone(), server));
        self.left_late.remove(&(held.clone(), server));
        self.freed.insert((held, server));
    }

    /// Nobody gives back what this one had.
    pub(crate) fn note_left(&mut self, grant: &Grant) {
        let owners = self.owners.get(grant).into_iter().flatten();
        self.left.extend(owners.map(|owner| (grant.0.clone(), owner.clone())));
    }

    /// Whether that is so of a lock and an owner, or of the owner that answers for this one.
    pub(crate) fn is_left(&self, held: &Held) -> bool {
        let mut answering = self.successors.get(held).into_iter().flatten();
        self.left.contains(held) || answering.any(|successor| self.left.contains(successor))
    }

    /// The first of them took over from the other.
    pub(crate) fn note_succeeds(&mut self, successor: &Held, predecessor: Held) {
        self.successors.entry(predecessor).or_default().insert(successor.clone());
    }

    pub(crate) fn note_release(&mut self, held: Held, written: At) {
        let release = self.releases.entry(held).or_insert(written);
        *release = (*release).min(written);
    }

    /// When it was first given back, in true time, as far as servers have heard.
    pub(crate) fn released(&self, held: &Held) -> Option<At> {
        self.releases.get(held).copied()
    }

    /// When the latest question was written that a lease can rest on: a quorum granted it, or what
    /// was asked after it.
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

    /// All that was counted.
    pub(crate) fn deeds(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(crate) fn breach(&mut self, check: &'static str, text: String) {
        self.note(format!("BREACH {check}: {text}"));
        self.breaches.push(Breach { check, text });
    }
}
