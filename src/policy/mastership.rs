//! Which server to take for the master of a service that Sentinels watch.
//!
//! Sentinels order configurations by their epoch. The Sentinel that leads a failover has the new
//! epoch once the promoted replica has said that it is a master, and names that replica as the
//! server to use from then on, while it still *watches* the old master, until the failover is over.
//! The other Sentinels follow by gossip. The old master is demoted last, ten seconds later if it
//! lives: until then two servers take writes, and those of the old one are forgotten.
//!
//! So clients have to leave the old master for good, on the same evidence, within a short time:
//!
//! - A newer configuration counts once the server that it names says itself that it is a master.
//!   A server that this client cannot reach has said so to the Sentinels: if they agree, it is
//!   followed, and grants nothing until it answers. Other clients may reach it.
//!   While the old master may be one too, the word of one Sentinel among several has to be confirmed
//!   by more than half of them, by all that answer, or by lasting for [`LASTING`]: the Sentinel may
//!   be gone before it has told the others, which would then keep the old master.
//! - An equal or older configuration never ousts a server that says that it is a master. A server
//!   that says that it is a replica gives way to any; a silent one, to the server that more than
//!   half of the Sentinels name.
//! - A master that refuses connections, and is down for a Sentinel too, gives way to the only one of
//!   its replicas that said at the last look that it is a replica, and now that it is a master: the
//!   Sentinels will say so up to a second later. Another that says so is a former master that came
//!   back, and knows nothing of the latest leases.
//! - If the former server may still be a master, the new one grants nothing new for the time in which
//!   all clients notice ([`SETTLING`]). Leases that are held are renewed there at once, and are lost if
//!   it has never heard of them. A client that begins waits for that time too if a Sentinel has only
//!   just changed its master, whatever the others say.
//! - A server may be a master if it says so, and if it is silent, even if Sentinels call it down: it
//!   may have stood still and go on, or be cut off from them and from this client alone. So a failover
//!   takes that second and [`SETTLING`] longer if the master's host is gone than if it was killed.

use std::time::Duration;

use super::Moment;

/// How long one Sentinel has to stand by a newer configuration before it is believed alone.
pub(crate) const LASTING: Duration = Duration::from_millis(500);
/// How much later than the first client the last one may notice a new master: clients are told of
/// it, or ask each second; Sentinels tell each other within some hundred milliseconds.
pub(crate) const SETTLING: Duration = Duration::from_millis(1500);

/// One Sentinel's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Word<A> {
    /// The configuration's epoch: the higher, the newer.
    pub(crate) epoch: u64,
    /// The server to use.
    pub(crate) master: A,
    /// The server that it watches as the master: until a failover that it leads is over, the old one.
    pub(crate) watched: A,
    /// Whether the Sentinel calls the watched server down.
    pub(crate) is_down: bool,
    /// Whether it has watched that server for less than [`SETTLING`].
    pub(crate) is_new: bool,
}

/// A server's role by its own answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Master,
    Replica,
    /// The server did not answer.
    Silent,
    /// Nothing listens there, as after the process has ended.
    Refused,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step<A> {
    /// Nothing has changed.
    Stay,
    /// Something is changing: ask the Sentinels again soon.
    AskAgain,
    /// Ask these servers for their roles.
    Look(Vec<A>),
    /// Ask the Sentinels for the replicas.
    AskForReplicas,
    /// This server is the master.
    Follow(Successor<A>),
}

/// The server to follow from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Successor<A> {
    pub(crate) master: A,
    pub(crate) epoch: u64,
    /// Another server may still be a master, and others may follow that one.
    pub(crate) has_rival: bool,
}

/// The answers of one round.
#[derive(Clone, Debug)]
pub(crate) struct Evidence<A> {
    /// The answers of Sentinels.
    pub(crate) words: Vec<Word<A>>,
    /// The roles of the servers that were asked.
    pub(crate) roles: Vec<(A, Role)>,
    /// The replicas that Sentinels name, once asked for.
    pub(crate) replicas: Option<Vec<A>>,
}

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mastership<A> {
    /// The number of configured Sentinels.
    pub(super) sentinels: usize,
    pub(super) followed: Option<(A, u64)>,
    /// Whether the followed server was down for a Sentinel when one last watched it, and has not
    /// answered since.
    pub(super) is_down: bool,
    /// A newer configuration's master that is not confirmed, and since when it has been named.
    unconfirmed: Option<(A, Moment)>,
    /// Servers that said at the last look that they are replicas, while the followed server refuses
    /// connections.
    pub(super) replicas: Vec<A>,
}

impl<A: Clone + Eq> Evidence<A> {
    pub(crate) fn of(words: Vec<Word<A>>) -> Self {
        Self { words, roles: Vec::new(), replicas: None }
    }

    #[inline(never)]
    fn role(&self, server: &A) -> Option<Role> {
        self.roles.iter().find(|(asked, _)| asked == server).map(|(_, role)| *role)
    }

    /// The step to ask those of the servers that were not asked yet, if any.
    fn look(&self, servers: &mut dyn Iterator<Item = A>) -> Option<Step<A>> {
        let mut unasked: Vec<A> = Vec::new();
        for server in servers {
            if self.role(&server).is_none() && !unasked.contains(&server) {
                unasked.push(server);
            }
        }
        (!unasked.is_empty()).then_some(Step::Look(unasked))
    }

    #[inline(never)]
    fn votes(&self, master: &A) -> usize {
        self.words.iter().filter(|word| word.master == *master).count()
    }

    /// The newest of the words for which `counts` is true; of equal ones, that with the most votes.
    pub(crate) fn newest(&self, counts: &dyn Fn(&Word<A>) -> bool) -> Option<&Word<A>> {
        let words = self.words.iter().filter(|word| counts(word));
        words.max_by_key(|word| (word.epoch, self.votes(&word.master)))
    }
}

impl<A: Clone + Eq> Mastership<A> {
    /// The state for a service with this many configured Sentinels.
    pub(crate) fn new(sentinels: usize) -> Self {
        Self { sentinels, followed: None, is_down: false, unconfirmed: None, replicas: Vec::new() }
    }

    /// Follows this server from now on.
    pub(crate) fn follow(&mut self, successor: &Successor<A>) {
        *self = Self::new(self.sentinels);
        self.followed = Some((successor.master.clone(), successor.epoch));
    }

    /// The next step, by the evidence at `now`; to be called again with what the step brings.
    pub(crate) fn next(&mut self, evidence: &Evidence<A>, now: Moment) -> Step<A> {
        let Some((followed, epoch)) = self.followed.clone() else {
            return self.first(evidence, now);
        };
        let confirmed = evidence.words.iter().filter(|word| word.master == followed);
        let epoch = confirmed.map(|word| word.epoch).max().unwrap_or(0).max(epoch);
        self.followed = Some((followed.clone(), epoch));
        self.note_whether_down(evidence, &followed);
        let other = evidence.newest(&|word| word.master != followed);
        let is_newer = other.is_some_and(|other| other.epoch > epoch);
        if !is_newer {
            self.unconfirmed = None;
        }
        let step = match other {
            Some(other) => {
                match evidence.look(&mut [followed.clone(), other.master.clone()].into_iter()) {
                    Some(look) => return look,
                    None => self.judge(evidence, &followed, other, is_newer, now),
                }
            }
            None => Step::Stay,
        };
        match step {
            Step::Follow(_) => step,
            _ => self.replica(evidence, &followed, epoch).unwrap_or(step),
        }
    }

    /// The master to begin with: the newest that says that it is one, or that Sentinels agree on; else the
    /// newest, which will say itself why it takes no locks.
    fn first(&mut self, evidence: &Evidence<A>, now: Moment) -> Step<A> {
        let Some(newest) = evidence.newest(&|_| true) else { return Step::AskAgain };
        let named = evidence.words.iter().flat_map(|word| [&word.master, &word.watched]);
        let is_new =
            |server: &A| evidence.words.iter().any(|word| word.is_new && word.watched == *server);
        if named.clone().all(|server| *server == newest.master) {
            let Word { master, epoch, .. } = newest.clone();
            let has_rival = is_new(&master);
            return Step::Follow(Successor { master, epoch, has_rival });
        }
        if let Some(look) = evidence.look(&mut named.clone().cloned()) {
            return look;
        }
        let is_master = |word: &Word<A>| match evidence.role(&word.master) {
            Some(Role::Master) => true,
            Some(Role::Replica) => false,
            _ => self.are_agreed(evidence, &word.master),
        };
        let chosen = evidence.newest(&is_master).unwrap_or(newest);
        let is_down =
            |server: &A| evidence.words.iter().any(|word| word.is_down && word.watched == *server);
        let is_rival = |server: &A| {
            *server != chosen.master && may_be_master(evidence.role(server), is_down(server))
        };
        let has_rival = is_new(&chosen.master) || named.into_iter().any(is_rival);
        let Word { master, epoch, .. } = chosen.clone();
        if has_rival && !self.is_confirmed(evidence, &master, now) {
            return Step::AskAgain;
        }
        Step::Follow(Successor { master, epoch, has_rival })
    }

    /// Notes whether Sentinels that watch the followed server call it down; later they watch another.
    fn note_whether_down(&mut self, evidence: &Evidence<A>, followed: &A) {
        let mut watching =
            evidence.words.iter().filter(|word| word.watched == *followed).peekable();
        if let Some(Role::Master | Role::Replica) = evidence.role(followed) {
            self.is_down = false;
        } else if watching.peek().is_some() {
            self.is_down = watching.any(|word| word.is_down);
        }
    }

    /// Whether a server that a Sentinel names takes the place of the followed one.
    fn judge(
        &mut self,
        evidence: &Evidence<A>,
        followed: &A,
        other: &Word<A>,
        is_newer: bool,
        now: Moment,
    ) -> Step<A> {
        let role = evidence.role(followed);
        let is_left = is_newer || role == Some(Role::Replica);
        if !is_left && role == Some(Role::Master) {
            return Step::Stay;
        }
        let has_rival = match evidence.role(&other.master) {
            // The Sentinel may be one that knows nothing of the newest failover.
            _ if !is_left && 2 * evidence.votes(&other.master) <= self.sentinels => {
                return Step::AskAgain;
            }
            Some(Role::Master) => may_be_master(role, self.is_down),
            // To the Sentinels it has said that it is a master.
            Some(Role::Silent | Role::Refused)
                if is_left && self.are_agreed(evidence, &other.master) =>
            {
                true
            }
            _ => return Step::AskAgain,
        };
        if has_rival && !self.is_confirmed(evidence, &other.master, now) {
            return Step::AskAgain;
        }
        Step::Follow(Successor { master: other.master.clone(), epoch: other.epoch, has_rival })
    }

    /// Whether Sentinels agree on a master, or it has been named for [`LASTING`].
    fn is_confirmed(&mut self, evidence: &Evidence<A>, master: &A, now: Moment) -> bool {
        let since = match &self.unconfirmed {
            Some((named, since)) if named == master => *since,
            _ => now,
        };
        self.unconfirmed = Some((master.clone(), since));
        self.are_agreed(evidence, master) || now.since(since) >= LASTING
    }

    /// Whether more than half of the Sentinels name this master, or all that answer.
    fn are_agreed(&self, evidence: &Evidence<A>, master: &A) -> bool {
        let votes = evidence.votes(master);
        2 * votes > self.sentinels || votes == evidence.words.len()
    }

    /// Follows the replica that has taken a dead master's place, before a Sentinel says so.
    fn replica(&mut self, evidence: &Evidence<A>, followed: &A, epoch: u64) -> Option<Step<A>> {
        let is_down =
            |word: &Word<A>| word.is_down && word.master == *followed && word.watched == *followed;
        let is_down = evidence.words.iter().any(is_down);
        match evidence.role(followed) {
            None if is_down => return Some(Step::Look(vec![followed.clone()])),
            Some(Role::Refused) if is_down => {}
            _ => {
                self.replicas.clear();
                return None;
            }
        }
        let Some(replicas) = &evidence.replicas else { return Some(Step::AskForReplicas) };
        if let Some(look) = evidence.look(&mut replicas.iter().cloned()) {
            return Some(look);
        }
        // Several Sentinels name each replica, but each has said its role once.
        let (mut promoted, mut still) = (Vec::new(), Vec::new());
        for (server, role) in evidence.roles.iter().filter(|(it, _)| replicas.contains(it)) {
            match role {
                Role::Master if self.replicas.contains(server) => promoted.push(server),
                Role::Replica => still.push(server.clone()),
                _ => {}
            }
        }
        self.replicas = still;
        Some(match promoted[..] {
            [master] => Step::Follow(Successor { master: master.clone(), epoch, has_rival: false }),
            _ => Step::AskAgain,
        })
    }
}

/// Whether a server may still take writes, by its answer to this client and whether a Sentinel calls
/// it down.
fn may_be_master(role: Option<Role>, is_down: bool) -> bool {
    match role {
        Some(Role::Replica) => false,
        Some(Role::Refused) => !is_down,
        Some(Role::Master | Role::Silent) | None => true,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
