//! The model of exclusion: how a [`World`] moves.

use super::super::{
    Attempt, AttemptAction, Conditions, Extension, LeaseEvent, LeaseState, Loss, Moment, Run,
    extension, quarantine,
};
use super::attempt::{NOW, ago, conditions, round};
use super::redis::Owner;
pub(super) use super::rules::{Bounds, Elder, Mutant, Repair};
use super::world::{CLIENTS, Client, EACH, Lane, Mail, Phase, Server, Step, World};

pub(super) struct Leases<const N: usize> {
    pub(super) bounds: Bounds,
    pub(super) mutant: Mutant,
    conditions: Conditions,
    /// By age of T1: the end of a lease that was requested then, and whether it is still held.
    ends_at: Vec<Moment>,
    is_valid: Vec<bool>,
    /// By the number of servers that granted, and by age of T1: whether that is a lease.
    is_lease: Vec<Vec<bool>>,
    /// By ticks since a restart without memory: whether the server may not vote yet.
    is_quarantined: Vec<bool>,
    /// How many ticks a server's clock may gain or lose within a TTL: the drift.
    drift: u8,
}

impl<const N: usize> Leases<N> {
    pub(super) fn new(bounds: Bounds, mutant: Mutant) -> Self {
        let Bounds { tick, ttl, .. } = bounds;
        let span = |ticks: u8| tick * u32::from(ticks);
        let conditions = conditions(N, bounds.quorum, span(ttl));
        let begin = Moment::from_nanos(0);
        let drift = span(ttl) - conditions.term.deadline(begin).since(begin);
        let end = |age: u8| match mutant.ignores_drift {
            true => ago(span(age)).after(span(ttl)),
            false => conditions.term.deadline(ago(span(age))),
        };
        let is_valid = |age| {
            let held = LeaseState::Held { until: end(age) };
            held.transition(LeaseEvent::Passed, NOW, |_| Loss::Expired).next.is_held()
        };
        let is_lease = |granted, age| {
            let tokens = std::iter::repeat_n(1, granted);
            let tally = round(&conditions, tokens, span(age));
            let action = Attempt::begin(conditions, None).ended(&tally, || 0);
            matches!(action, AttemptAction::Hold(_))
        };
        let guarded = span(ttl - u8::from(mutant.short_quarantine));
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
            conditions,
            ends_at: (0..=ttl).map(end).collect(),
            is_valid: by_age(&is_valid),
            is_lease: (0..=N).map(|granted| by_age(&|age| is_lease(granted, age))).collect(),
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

    /// The holder that a server takes the lock from for `attempt`: 0 for nobody.
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

    /// The restart quarantine's judgement.
    pub(super) fn may_vote(&self, server: &Server) -> bool {
        !self.is_quarantined[usize::from(server.up_for)]
    }

    /// The attempts that have sent anything.
    pub(super) fn begun(world: &World<N>) -> impl DoubleEndedIterator<Item = usize> + use<N> {
        let begun = world.clients.map(|client| usize::from(client.attempts));
        (0..CLIENTS).flat_map(move |client| (0..begun[client]).map(move |nth| client * EACH + nth))
    }

    /// Has the shipped machine judge what happens to a client's lease.
    fn happens(&self, client: &mut Client, event: LeaseEvent) {
        let before = match client.phase {
            Phase::Idle | Phase::Asking => LeaseState::Released,
            Phase::Holding => LeaseState::Held { until: self.end_of(client.since) },
        };
        match before.transition(event, NOW, |_| Loss::Expired).next {
            LeaseState::Held { until } => {
                let age = self.ends_at.iter().position(|end| *end == until);
                client.phase = Phase::Holding;
                client.since = age.and_then(|age| u8::try_from(age).ok()).expect("it is a tick's");
            }
            // The lease is kept until it is ended, and never valid again.
            LeaseState::Lost(_) => client.since = self.bounds.ttl,
            LeaseState::Releasing | LeaseState::Released => client.phase = Phase::Idle,
        }
    }

    /// The end of a lease whose T1 is this old.
    fn end_of(&self, age: u8) -> Moment {
        self.ends_at[usize::from(age)]
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
            // With the mutant of a reused successor's owner, a second attempt is always a successor.
            Phase::Idle if self.mutant.reuses_heir && client.attempts == 1 => {}
            Phase::Idle if client.attempts < self.bounds.attempts[c] => {
                found.push((Step::Ask(c), self.ask(*world, c)));
            }
            Phase::Idle => {}
            Phase::Asking => {
                let granted = count(world, |server| server.lanes[attempt].acquire);
                let inherits = self.mutant.inherits_grants && client.is_heir(attempt);
                let granted = if inherits { N } else { granted };
                let age = if self.mutant.counts_from_reply { 0 } else { client.asked };
                if self.is_lease[granted][usize::from(age)] {
                    found.push((Step::Win(c), self.win(*world, c, age)));
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
                let granted = count(world, |server| server.lanes[attempt].extend);
                let is_extended = match extension(self.conditions.quorum, granted, 0) {
                    _ if self.mutant.extends_by_one => granted > 0,
                    came_to => came_to == Extension::Extended,
                };
                if client.is_extending && is_extended && (is_valid || self.mutant.revives) {
                    found.push((Step::Extended(c), self.extended(*world, c)));
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

    fn win(&self, mut world: World<N>, c: usize, age: u8) -> World<N> {
        let other = &mut world.clients[1 - c];
        other.is_overtaken = other.phase == Phase::Holding;
        let client = &mut world.clients[c];
        client.asked = 0;
        (client.phase, client.since) = (Phase::Holding, age);
        world
    }

    /// Ends an attempt or a lease, held or lost: believes no more replies, and then sends a release to
    /// every server; one that took over, for its predecessor too.
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

    fn extended(&self, mut world: World<N>, c: usize) -> World<N> {
        let client = &mut world.clients[c];
        if self.mutant.revives {
            client.since = client.since.min(client.asked);
        } else {
            self.happens(client, LeaseEvent::Extended { until: self.end_of(client.asked) });
        }
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

/// How many servers have said yes.
fn count<const N: usize>(world: &World<N>, mail: impl Fn(&Server) -> Mail) -> usize {
    world.servers.iter().filter(|server| mail(server) == Mail::Yes).count()
}

/// The effect of a restart on messages under way: their connections end.
fn cut_off(lane: &mut Lane) {
    for mail in [&mut lane.acquire, &mut lane.extend, &mut lane.release] {
        if mail.is_under_way() {
            *mail = Mail::Over;
        }
    }
}
