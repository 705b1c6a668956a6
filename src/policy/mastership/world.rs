//! Every small course of a failover: one master, one replica that is promoted, a Sentinel that
//! leads, one that learns from it, one that was cut off, and two clients that ask at any time.
//!
//! Time goes in ticks of a quarter of a second. At tick 0 the replica has become a master; if the
//! old master was killed, a second later, and then a former master may come back as one. The
//! leading Sentinel notices within a second, and tells the other within a quarter; it may end at any
//! time, and then the other makes the promoted server a replica again if it never learned of it.
//! Clients ask at least once a second, and in the next tick if something is changing. Whenever one
//! asks, the old master may be silent for this client alone, or refuse its connection.

use std::collections::HashSet;

use super::super::Mastership;
use super::super::mutants::Mutant;
use super::*;

const TICK: Duration = Duration::from_millis(250);
const NOTICED_WITHIN: u64 = 4;
const ASKED_WITHIN: u8 = 4;
/// The tick in which the server that is no master in the end is made a replica: sooner than in truth,
/// and still later than all that clients do.
const MENDED_AT: u64 = 16;
const END: u64 = 24;
/// The longest time of a client without service, in ticks: four seconds.
const PAUSE_MAX: u8 = 16;

const OLD: u8 = 0;
const NEW: u8 = 1;
/// The server that a client follows before it has begun.
const NOBODY: u8 = 2;
/// A server that is listed as a replica, and dead since another took its place: it knows no lease of the dead master.
const FORMER: u8 = 3;

/// Which Sentinels the clients name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Named {
    All,
    /// Both clients name the leading one.
    Leader,
    /// One client names the leading one, the other client the other one.
    Each,
}

/// The state of the old master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Old {
    /// The failover was asked for.
    Lives,
    /// It stood still until the Sentinels called it down, or they alone do not reach it.
    IsCalledDown,
    /// Its process has ended: it refuses connections.
    Killed,
    /// Its host is gone.
    Vanished,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) named: Named,
    pub(super) old: Old,
    pub(super) leader_may_end: bool,
    /// The role that the old master, which is well, may seem to have for one client alone.
    pub(super) seems: Option<Role>,
    /// The second client never gets an answer of the promoted server: it may be without service.
    pub(super) is_new_silent: bool,
    /// The second client begins at any time.
    pub(super) is_newcomer: bool,
    /// A former master may come back at any time, and says that it is one.
    pub(super) has_former: bool,
}

impl Case {
    fn is_old_alive(self) -> bool {
        matches!(self.old, Old::Lives | Old::IsCalledDown)
    }

    fn promoted_at(self) -> u64 {
        if self.old == Old::Killed { 4 } else { 0 }
    }

    fn reaches(self, client: usize, server: u8) -> bool {
        server != NOBODY && !(self.is_new_silent && client == 1 && server == NEW)
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    has_leader: bool,
    is_promoted: bool,
    is_former_back: bool,
    /// Since when the leading Sentinel knows that the replica was promoted.
    noticed_at: Option<u64>,
    /// Since when the other one knows it, too.
    told_at: Option<u64>,
    is_mended: bool,
    clients: [Client; 2],
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Client {
    mastership: Mastership<u8>,
    follows: u8,
    settled_at: u64,
    /// Ticks since the client asked, and ticks without service.
    silent: u8,
    pause: u8,
}

fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / TICK.as_millis()).unwrap()
}

/// Searches all courses; returns the number of states, or the promise that was broken.
pub(super) fn search(case: Case) -> Result<usize, String> {
    let mut present = HashSet::from([World::new(case)]);
    let mut searched = 0;
    for tick in 0..END {
        let mut next = HashSet::new();
        for world in present {
            for world in world.events(case, tick) {
                world.ask(case, tick, 0, &mut next);
            }
        }
        for world in &next {
            world.check(case, tick).map_err(|broken| format!("{broken}, at tick {tick}"))?;
        }
        searched += next.len();
        present = next;
    }
    Ok(searched)
}

impl World {
    fn new(case: Case) -> Self {
        let sentinels = if let Named::All = case.named { 3 } else { 1 };
        let mut mastership = Mastership::new(sentinels);
        mastership.follow(&Successor { master: OLD, epoch: 1, has_rival: false });
        let client = Client { mastership, follows: OLD, settled_at: 0, silent: 0, pause: 0 };
        let newcomer =
            Client { mastership: Mastership::new(sentinels), follows: NOBODY, ..client.clone() };
        let clients = [client.clone(), if case.is_newcomer { newcomer } else { client }];
        Self {
            has_leader: true,
            is_promoted: false,
            is_former_back: false,
            noticed_at: None,
            told_at: None,
            is_mended: false,
            clients,
        }
    }

    /// The events at servers and Sentinels before clients ask.
    fn events(mut self, case: Case, tick: u64) -> Vec<Self> {
        self.is_mended |= tick >= MENDED_AT;
        self.is_promoted |= tick >= case.promoted_at();
        let mut worlds = vec![self];
        if case.leader_may_end && worlds[0].has_leader {
            worlds.push(Self { has_leader: false, ..worlds[0].clone() });
        }
        if case.has_former && !worlds[0].is_former_back {
            let back = worlds.iter().map(|world| Self { is_former_back: true, ..world.clone() });
            worlds.extend(back.collect::<Vec<_>>());
        }
        let mut after = Vec::new();
        for world in worlds {
            let is_late = tick >= case.promoted_at() + NOTICED_WITHIN;
            match world.noticed_at {
                _ if !world.has_leader || !world.is_promoted => after.push(world),
                None => {
                    after.push(Self { noticed_at: Some(tick), ..world.clone() });
                    after.extend((!is_late).then_some(world));
                }
                Some(at) if world.told_at.is_none() => {
                    after.push(Self { told_at: Some(tick), ..world.clone() });
                    after.extend((tick <= at).then_some(world));
                }
                Some(_) => after.push(world),
            }
        }
        after
    }

    fn role(&self, case: Case, server: u8) -> Role {
        // Whether the promoted server is the master in the end.
        let is_new_kept = self.has_leader || self.told_at.is_some() || !case.is_old_alive();
        match server {
            OLD if case.old == Old::Killed => Role::Refused,
            OLD if case.old == Old::Vanished => Role::Silent,
            FORMER if !self.is_former_back => Role::Refused,
            NEW if !self.is_promoted => Role::Replica,
            OLD if self.is_mended && is_new_kept => Role::Replica,
            NEW if self.is_mended && !is_new_kept => Role::Replica,
            _ => Role::Master,
        }
    }

    fn words(&self, case: Case, tick: u64, client: usize) -> Vec<Word<u8>> {
        let is_down = case.old != Old::Lives;
        let old = Word { epoch: 1, master: OLD, watched: OLD, is_down, is_new: false };
        let mut leader = old.clone();
        if self.noticed_at.is_some() {
            (leader.epoch, leader.master) = (2, NEW);
        }
        if Mutant::WatchedIsFollowed.is_on() {
            leader.master = leader.watched;
        }
        let new = |told_at| {
            let is_new = tick < told_at + ticks(SETTLING);
            Word { epoch: 2, master: NEW, watched: NEW, is_down: false, is_new }
        };
        let other = self.told_at.map_or(old.clone(), new);
        let leader = self.has_leader.then_some(leader);
        match (case.named, client) {
            (Named::All, _) => leader.into_iter().chain([other, old]).collect(),
            (Named::Leader, _) | (Named::Each, 0) => leader.into_iter().collect(),
            (Named::Each, _) => vec![other],
        }
    }

    /// Has each client from this one on ask or, if it may, not.
    fn ask(self, case: Case, tick: u64, client: usize, worlds: &mut HashSet<Self>) {
        let Some(present) = self.clients.get(client) else {
            worlds.insert(self.serve(case, tick));
            return;
        };
        let has_begun = present.follows != NOBODY;
        if present.silent < ASKED_WITHIN - 1 || !has_begun {
            let mut world = self.clone();
            world.clients[client].silent += u8::from(has_begun);
            world.ask(case, tick, client + 1, worlds);
        }
        let role = |server| match case.reaches(client, server) {
            true => self.role(case, server),
            false => Role::Silent,
        };
        self.asked(case, tick, client, role).ask(case, tick, client + 1, worlds);
        if let Some(seeming) = case.seems {
            let role = |server| if server == OLD { seeming } else { role(server) };
            self.asked(case, tick, client, role).ask(case, tick, client + 1, worlds);
        }
    }

    fn asked(&self, case: Case, tick: u64, client: usize, role: impl Fn(u8) -> Role) -> Self {
        let mut evidence = Evidence::of(self.words(case, tick, client));
        let now = Moment::from_nanos(0).after(TICK * u32::try_from(tick).unwrap());
        let mut asking = self.clients[client].clone();
        asking.silent = 0;
        loop {
            match asking.mastership.next(&evidence, now) {
                Step::Look(servers) => {
                    let roles = servers.iter().map(|server| (*server, role(*server)));
                    evidence.roles.extend(roles);
                }
                Step::AskForReplicas => {
                    let former = case.has_former.then_some(FORMER);
                    evidence.replicas = Some([NEW].into_iter().chain(former).collect());
                }
                Step::Stay => break,
                Step::AskAgain => {
                    asking.silent = ASKED_WITHIN - 1;
                    break;
                }
                Step::Follow(successor) => {
                    let is_settling = successor.has_rival && !Mutant::NotSettled.is_on();
                    asking.settled_at = if is_settling { tick + ticks(SETTLING) } else { tick };
                    asking.follows = successor.master;
                    asking.mastership.follow(&successor);
                    break;
                }
            }
        }
        let mut after = self.clone();
        after.clients[client] = asking;
        after
    }

    /// The server at which each client gets new locks.
    fn serving(&self, case: Case, tick: u64) -> [Option<u8>; 2] {
        [0, 1].map(|number| {
            let Client { follows, settled_at, .. } = self.clients[number];
            let is_master = self.role(case, follows) == Role::Master;
            let serves = tick >= settled_at && is_master && case.reaches(number, follows);
            serves.then_some(follows)
        })
    }

    fn serve(mut self, case: Case, tick: u64) -> Self {
        let serving = self.serving(case, tick);
        for (number, client) in self.clients.iter_mut().enumerate() {
            let is_well = serving[number].is_some() || !case.reaches(number, client.follows);
            client.pause = if is_well { 0 } else { client.pause + 1 };
        }
        if !matches!(case.named, Named::Each) && !case.is_new_silent && !case.is_newcomer {
            // Clients are alike, so their order makes no difference.
            self.clients.sort();
        }
        self
    }

    fn check(&self, case: Case, tick: u64) -> Result<(), String> {
        if matches!(self.serving(case, tick), [Some(one), Some(other)] if one != other) {
            return Err("two servers grant".to_owned());
        }
        if self.serving(case, tick).contains(&Some(FORMER)) {
            return Err("a former master grants".to_owned());
        }
        if self.clients.iter().any(|client| client.pause > PAUSE_MAX) {
            return Err("a client is without service".to_owned());
        }
        Ok(())
    }
}
