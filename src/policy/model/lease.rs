//! The model of exclusion: how a [`World`] moves.

use std::time::Duration;

use super::super::{Moment, Quorum, Run, Term, Verdict, quarantine};
use super::redis::Owner;
use super::world::{CLIENTS, Client, EACH, Lane, Mail, Phase, Server, Step, World};

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) quorum: usize,
    /// A tick, and the TTL in ticks.
    pub(super) tick: Duration,
    pub(super) ttl: u8,
    /// Attempts of each client: 1 to 3.
    pub(super) attempts: [u8; CLIENTS],
    /// Extensions of each client's lease.
    pub(super) extensions: [u8; CLIENTS],
    /// A client that holds may hand over to its next attempt.
    pub(super) hand_overs: bool,
    /// How many servers may forget: by an early expiry, by a stepped clock, by a restart without
    /// memory that no guard covers.
    pub(super) losses: usize,
    /// Servers restart without memory, as often as they like.
    pub(super) restarts: bool,
    /// Connections end with messages on them, refusals arrive, and what an ended attempt has sent
    /// stays under way. Without these the space is far smaller: see the reductions in the head of
    /// the model.
    pub(super) strays: bool,
}

/// Where an extension sets the lock if nobody holds it: "quorum repair".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    Nowhere,
    /// On servers that may vote.
    WhereFit,
    /// Also on servers that the restart guard keeps from voting.
    Anywhere,
}

/// What becomes of a lease that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elder {
    /// It is gone from the moment at which its successor asks.
    Gone,
    /// It holds until its own deadline.
    GoesOn,
    /// It holds again, until its own deadline, once its successor has given up.
    FallsBack,
}

/// The safety rules that can be switched off, each by the name of the mistake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mutant {
    /// Rule 2: validity counts from the moment at which the reply is read.
    pub(super) counts_from_reply: bool,
    /// Rule 2: validity is the whole TTL.
    pub(super) ignores_drift: bool,
    /// Rule 1: every attempt of a client has the same owner.
    pub(super) reuses_owner: bool,
    /// Rule 1: "held, by an earlier attempt of mine" counts as granted now.
    pub(super) counts_own_key: bool,
    /// Rule 9: the guard waits for one tick less.
    pub(super) short_quarantine: bool,
    /// Rule 9: a server's wall clock that is stepped forward expires none of its keys, so that it
    /// need not count as a loss.
    pub(super) steps_are_free: bool,
    /// Rule 9: no guard.
    pub(super) no_guard: bool,
    /// Rule 6: one server's word extends the lease.
    pub(super) extends_by_one: bool,
    /// Rule 6: an extension sets a lock that is gone.
    pub(super) repair: Repair,
    /// Hand-over: what the predecessor does.
    pub(super) elder: Elder,
    /// Hand-over: the successor counts its predecessor's grants, and so holds as soon as it asks.
    pub(super) inherits_grants: bool,
    /// Hand-over: the attempt after a successor that gave up has the successor's owner.
    pub(super) reuses_heir: bool,
    /// Hand-over: the release of a successor that gave up deletes whatever lock there is.
    pub(super) deletes_any: bool,
    /// Rule 7: an ended lease is still extended, and holds again when that is granted.
    pub(super) revives: bool,
    /// Not a mistake of the client's: the checker looks at exclusion only.
    pub(super) exclusion_only: bool,
}

pub(super) struct Leases<const N: usize> {
    pub(super) bounds: Bounds,
    pub(super) mutant: Mutant,
    quorum: Quorum,
    /// By age of T1: does the client still hold what it asked for then; is it worth returning?
    is_valid: Vec<bool>,
    is_worthwhile: Vec<bool>,
    /// By ticks since a restart without memory: may the server not vote yet?
    is_quarantined: Vec<bool>,
    /// How many ticks a server's clock may gain or lose within a TTL: the drift.
    drift: u8,
}

impl<const N: usize> Leases<N> {
    pub(super) fn new(bounds: Bounds, mutant: Mutant) -> Self {
        let Bounds { tick, ttl, .. } = bounds;
        let span = |ticks: u8| tick * u32::from(ticks);
        let term = Term::new(span(ttl), None).expect("the bounds are a term");
        let begin = Moment::from_nanos(0);
        let deadline = match mutant.ignores_drift {
            true => begin.after(span(ttl)),
            false => term.deadline(begin),
        };
        let guarded = span(ttl - u8::from(mutant.short_quarantine));
        let drift = span(ttl) - term.deadline(begin).since(begin);
        let judge = |age: u8| {
            let now = begin.after(span(age));
            // Rounded up by as much as INFO may be: the least wait that a client can be told.
            let uptime = i64::try_from(span(age).as_secs()).expect("ages are small") + 1;
            let run = Run { uptime_secs: uptime, first_seen: begin, not_before: None };
            !quarantine(guarded, run, now).is_zero()
        };
        let by_age = |judge: &dyn Fn(u8) -> bool| (0..=ttl).map(judge).collect();
        Self {
            bounds,
            mutant,
            quorum: Quorum::new(N, Some(bounds.quorum)).expect("the bounds are a quorum"),
            is_valid: by_age(&|age| begin.after(span(age)) < deadline),
            is_worthwhile: by_age(&|age| term.is_worthwhile(deadline, begin.after(span(age)))),
            is_quarantined: by_age(&|age| !mutant.no_guard && judge(age)),
            drift: u8::try_from(drift.as_nanos() / tick.as_nanos()).expect("drift is small"),
        }
    }

    pub(super) fn owner(&self, attempt: usize) -> Owner {
        let number = match attempt % EACH {
            _ if self.mutant.reuses_owner => attempt / EACH,
            2 if self.mutant.reuses_heir => attempt - 1,
            _ => attempt,
        };
        u8::try_from(number).expect("attempts are few") + 1
    }

    /// Whom a server takes the lock from for `attempt`: 0 for nobody.
    pub(super) fn predecessor(&self, world: &World<N>, attempt: usize) -> Owner {
        let is_heir = world.clients[attempt / EACH].is_heir(attempt);
        if is_heir { self.owner(attempt - 1) } else { 0 }
    }

    pub(super) fn lasts(&self) -> u8 {
        self.bounds.ttl + self.drift
    }

    pub(super) fn holds(&self, world: &World<N>, client: usize) -> bool {
        let Client { phase, since, elder, .. } = world.clients[client];
        let falls_back = phase == Phase::Idle && self.mutant.elder == Elder::FallsBack;
        phase == Phase::Holding && self.is_valid[usize::from(since)]
            || falls_back && self.is_elder_valid(elder)
    }

    pub(super) fn is_elder_valid(&self, elder: Option<u8>) -> bool {
        elder.is_some_and(|age| self.is_valid[usize::from(age)])
    }

    pub(super) fn current(world: &World<N>, client: usize) -> usize {
        client * EACH + usize::from(world.clients[client].attempts.saturating_sub(1))
    }

    /// The restart guard's judgement.
    pub(super) fn may_vote(&self, server: &Server) -> bool {
        !self.is_quarantined[usize::from(server.up_for)]
    }

    /// The attempts that have sent anything.
    pub(super) fn begun(world: &World<N>) -> impl DoubleEndedIterator<Item = usize> + use<N> {
        let begun = world.clients.map(|client| usize::from(client.attempts));
        (0..CLIENTS).flat_map(move |client| (0..begun[client]).map(move |nth| client * EACH + nth))
    }

    fn is_won(&self, world: &World<N>, needs_quorum: bool, mail: impl Fn(&Server) -> Mail) -> bool {
        let granted = world.servers.iter().filter(|server| mail(server) == Mail::Yes).count();
        match needs_quorum {
            true => self.quorum.verdict(granted, 0) == Verdict::Won,
            false => granted > 0,
        }
    }

    /// Whether one more memory loss, of `server`, is within the bounds.
    fn may_forget(&self, world: &World<N>, server: usize) -> bool {
        let forgot = world.servers.iter().filter(|server| server.forgot).count();
        world.servers[server].forgot || forgot < self.bounds.losses
    }

    pub(super) fn client_steps(
        &self,
        world: &World<N>,
        c: usize,
        found: &mut Vec<(Step, World<N>)>,
    ) {
        let client = world.clients[c];
        let attempt = Self::current(world, c);
        let is_valid = self.holds(world, c);
        match client.phase {
            // Where the owner of a second attempt is in question, that attempt is a successor.
            Phase::Idle if self.mutant.reuses_heir && client.attempts == 1 => {}
            Phase::Idle if client.attempts < self.bounds.attempts[c] => {
                found.push((Step::Ask(c), self.ask(*world, c)));
            }
            Phase::Idle => {}
            Phase::Asking => {
                let is_won = self.is_won(world, true, |server| server.lanes[attempt].acquire);
                let is_won = is_won || self.mutant.inherits_grants && client.is_heir(attempt);
                let age = if self.mutant.counts_from_reply { 0 } else { client.asked };
                if is_won && self.is_worthwhile[usize::from(age)] {
                    found.push((Step::Win(c), Self::win(*world, c, age)));
                }
                found.push((Step::End(c), self.end(*world, c)));
            }
            Phase::Holding => {
                found.push((Step::End(c), self.end(*world, c)));
                if self.bounds.hand_overs && client.attempts < self.bounds.attempts[c] {
                    found.push((Step::HandOver(c), self.hand_over(*world, c)));
                }
                if client.extensions < self.bounds.extensions[c]
                    && world.servers.iter().all(|server| server.lanes[attempt].extend != Mail::Sent)
                    && (is_valid || self.mutant.revives)
                {
                    found.push((Step::Extend(c), Self::extend(*world, c)));
                }
                let needs_quorum = !self.mutant.extends_by_one;
                let is_won =
                    self.is_won(world, needs_quorum, |server| server.lanes[attempt].extend);
                if client.is_extending && is_won && (is_valid || self.mutant.revives) {
                    found.push((Step::Extended(c), Self::extended(*world, c)));
                }
            }
        }
    }

    fn ask(&self, mut world: World<N>, c: usize) -> World<N> {
        let client = &mut world.clients[c];
        (client.phase, client.asked, client.extensions) = (Phase::Asking, 0, 0);
        client.attempts += 1;
        let attempt = Self::current(&world, c);
        for server in &mut world.servers {
            let may_vote = self.may_vote(server);
            server.lanes[attempt].acquire = if may_vote { Mail::Sent } else { Mail::Over };
        }
        world
    }

    /// The attempt holds no more from here on, whether it was valid or not, and its successor asks.
    fn hand_over(&self, mut world: World<N>, c: usize) -> World<N> {
        let Client { attempts, heirs, since, .. } = world.clients[c];
        let elder = (self.mutant.elder != Elder::Gone).then_some(since);
        let heirs = heirs | 1 << attempts;
        world.clients[c] = Client { attempts, heirs, elder, ..Default::default() };
        self.ask(world, c)
    }

    fn win(mut world: World<N>, c: usize, age: u8) -> World<N> {
        let other = &mut world.clients[1 - c];
        other.is_overtaken = other.phase == Phase::Holding;
        let client = &mut world.clients[c];
        (client.phase, client.since, client.asked) = (Phase::Holding, age, 0);
        world
    }

    /// Gives up, gives back, or lets go of what was lost: never believes from here on, and then
    /// sends a release to every server; one that took over, for its predecessor too.
    fn end(&self, mut world: World<N>, c: usize) -> World<N> {
        let attempt = Self::current(&world, c);
        let Client { attempts, heirs, elder, .. } = world.clients[c];
        let is_heir = world.clients[c].is_heir(attempt);
        let elder = elder.filter(|_| self.mutant.elder == Elder::FallsBack);
        world.clients[c] = Client { attempts, heirs, elder, ..Default::default() };
        for server in &mut world.servers {
            server.lanes[attempt].release = Mail::Sent;
            if is_heir {
                server.lanes[attempt - 1].release = Mail::Sent;
            }
        }
        world
    }

    fn extend(mut world: World<N>, c: usize) -> World<N> {
        let attempt = Self::current(&world, c);
        let client = &mut world.clients[c];
        (client.is_extending, client.asked) = (true, 0);
        client.extensions += 1;
        for server in &mut world.servers {
            server.lanes[attempt].extend = Mail::Sent;
        }
        world
    }

    fn extended(mut world: World<N>, c: usize) -> World<N> {
        let client = &mut world.clients[c];
        client.since = client.since.min(client.asked);
        (client.is_extending, client.asked) = (false, 0);
        world
    }

    pub(super) fn server_steps(
        &self,
        world: &World<N>,
        s: usize,
        found: &mut Vec<(Step, World<N>)>,
    ) {
        for attempt in Self::begun(world) {
            self.arrivals(world, s, attempt, found);
        }
        let server = world.servers[s];
        let is_locked = server.keys.owner != 0;
        let mut push = |step, changed: Server| {
            let mut next = *world;
            next.servers[s] = changed;
            found.push((step, next));
        };
        let mut bare = server;
        bare.keys.drop_lock();
        bare.set_by = 0;
        if is_locked && server.keys.left <= 2 * self.drift {
            push(Step::Expire(s), bare);
        }
        let forgotten = Server { forgot: true, ..bare };
        if is_locked && self.may_forget(world, s) {
            push(Step::Forget(s), forgotten);
        }
        if !self.may_vote(&server) {
            let stepped = if self.mutant.steps_are_free { server } else { forgotten };
            if self.mutant.steps_are_free || self.may_forget(world, s) {
                push(Step::ClockJump(s), Server { up_for: self.bounds.ttl, ..stepped });
            }
        }
        let is_covered = !self.mutant.no_guard;
        if is_locked && self.bounds.restarts && (is_covered || self.may_forget(world, s)) {
            let mut restarted = if is_covered { bare } else { forgotten };
            restarted.up_for = 0;
            restarted.lanes.iter_mut().for_each(cut_off);
            push(Step::Restart(s), restarted);
        }
    }

    pub(super) fn tick(&self, mut world: World<N>) -> World<N> {
        let age = |ticks: &mut u8| *ticks = (*ticks + 1).min(self.bounds.ttl);
        for server in &mut world.servers {
            age(&mut server.up_for);
            server.keys.left = server.keys.left.saturating_sub(1);
            if server.keys.left == 0 {
                server.keys.drop_lock();
                server.set_by = 0;
            }
        }
        for client in &mut world.clients {
            if client.phase == Phase::Holding {
                age(&mut client.since);
            }
            if client.phase == Phase::Asking || client.is_extending {
                age(&mut client.asked);
            }
            client.elder.iter_mut().for_each(age);
        }
        world
    }
}

/// What a restart does to the messages under way: their connections end with it.
fn cut_off(lane: &mut Lane) {
    for mail in [&mut lane.acquire, &mut lane.extend, &mut lane.release] {
        if mail.is_under_way() {
            *mail = Mail::Over;
        }
    }
}
