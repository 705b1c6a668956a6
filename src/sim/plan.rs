//! The plan of one run, decided by its seed alone.

use std::fmt;
use std::time::Duration;

use super::prng::Prng;

/// The faults. Each run has some of them switched off, so that the others have room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Messages take long now and then.
    Delay,
    /// A connection ends.
    Cut,
    /// Commands sent on a connection that has ended are carried out anyway, later.
    Ghost,
    /// Nothing gets through between a client and a server for a while.
    Partition,
    /// A server restarts with its memory.
    Restart,
    /// A server restarts without its memory.
    Forget,
    /// A server stands still for a while.
    Freeze,
    /// A server loses a key.
    Evict,
    /// A server forgets its scripts.
    Flush,
    /// A client stands still for a while; clocks that stop in suspension stop.
    Pause,
    /// A client's wall clock is set.
    ClientStep,
    /// A server's wall clock is set back.
    StepBack,
    /// A server's wall clock is set forward.
    StepForward,
    /// Clocks run at different rates.
    Drift,
    /// A server that restarts is down for a while.
    Outage,
    /// A client's process restarts, without knowledge of servers.
    Newcomer,
    /// A server refuses scripts for a while, as while one of them keeps it busy.
    Refuse,
    /// A reply is lost on its way.
    Lost,
    /// A reply to no command comes.
    Stray,
    /// A reply comes twice.
    Twice,
    /// From some reply on only pushes come on a connection.
    OnlyPushes,
    /// Any number of waiting processes die, ahead of all others; and another program writes into a queue.
    DeadWaiters,
    /// A user that may read a queue and publish forges a push to a waiter.
    Forgery,
    /// A server restarts with an earlier state.
    Snapshot,
    /// A server becomes a replica, takes over an older state or an empty one, and is promoted again, while its
    /// connections stay.
    Demotion,
}

/// The faults that set a server back to an earlier state. They are drawn apart from all others, so that a seed without
/// them gives the same run as before they existed.
const SETBACKS: [Fault; 2] = [Fault::Snapshot, Fault::Demotion];
const SETBACK_PERCENT: u64 = 25;
const OF_CLOCKS: [Fault; 4] =
    [Fault::ClientStep, Fault::StepBack, Fault::StepForward, Fault::Drift];

const FAULTS: [Fault; 14] = [
    Fault::Delay,
    Fault::Cut,
    Fault::Ghost,
    Fault::Partition,
    Fault::Restart,
    Fault::Forget,
    Fault::Freeze,
    Fault::Evict,
    Fault::Flush,
    Fault::Pause,
    Fault::ClientStep,
    Fault::StepBack,
    Fault::StepForward,
    Fault::Drift,
];

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) servers: usize,
    pub(crate) quorum: usize,
    pub(crate) clients: usize,
    pub(crate) tasks: usize,
    pub(crate) names: usize,
    /// No lease has a longer TTL.
    pub(crate) longest_ttl: Duration,
    pub(crate) length: Duration,
    /// Maximum time of a message without faults.
    pub(crate) latency: Duration,
    pub(crate) faults: Vec<Fault>,
    /// One more lock is taken without tokens, by plain commands.
    pub(crate) has_unfenced: bool,
    /// Servers compare and delete without a script.
    pub(crate) deletes_if_equal: bool,
    /// Some locks stay taken for a while after their release.
    pub(crate) has_rests: bool,
    /// Some locks stay taken for a while after a lease that was lost.
    pub(crate) has_delays: bool,
    /// Some leases go from client to client by tickets.
    pub(crate) has_tickets: bool,
    /// Some locks are stolen: then two may hold one, and tokens alone tell them apart.
    pub(crate) has_steals: bool,
    /// Two more locks are shared: one by readers, and one by permits.
    pub(crate) has_shares: bool,
    /// Clients also run jobs, carry out requests, take tokens, and meet at latches, barriers and elections.
    pub(crate) has_family: bool,
    /// All requests have the same TTL, so that a lease may be passed on within a client.
    pub(crate) has_one_ttl: bool,
    /// After a failover nothing new is granted until all leases that may be lost have ended.
    pub(crate) has_grace: bool,
    /// Clients take several locks, and give them back at once.
    pub(crate) has_bursts: bool,
    /// More servers lose keys than the quorum allows for, and nothing guards against restarts.
    pub(crate) is_beyond: bool,
}

impl Plan {
    pub(crate) fn new(seed: u64, is_beyond: bool) -> Self {
        let mut prng = Prng::new(seed);
        let (servers, quorum) =
            prng.pick(&[(1, 1), (1, 1), (3, 2), (3, 2), (5, 3), (4, 3), (5, 4)]);
        let secs = prng.pick(&[1, 3, 10, 30, 1, 3, 10, 120]);
        let longest_ttl = Duration::from_secs(secs);
        let faults = FAULTS.into_iter().filter(|_| prng.percent(45)).collect();
        let mut plan = Self {
            seed,
            servers,
            quorum,
            clients: 2 + prng.index(2),
            tasks: 1 + prng.index(2),
            names: 1 + prng.index(2),
            longest_ttl,
            length: Duration::from_secs(secs * prng.within(10..30)),
            // No run has many more round trips in a lease's life than another.
            latency: prng.pick(&[0, 1, 2, 10].map(Duration::from_millis)).max(longest_ttl / 4000),
            faults,
            has_unfenced: false,
            deletes_if_equal: false,
            has_rests: false,
            has_delays: false,
            has_tickets: false,
            has_steals: false,
            has_shares: false,
            has_family: false,
            has_one_ttl: false,
            has_grace: false,
            has_bursts: false,
            is_beyond,
        };
        // Last, so that earlier decisions stay as they were when a seed found something.
        let more = [
            Fault::Outage,
            Fault::Newcomer,
            Fault::Refuse,
            Fault::Lost,
            Fault::Stray,
            Fault::Twice,
            Fault::OnlyPushes,
        ];
        plan.faults.extend(more.iter().filter(|_| prng.percent(30)));
        plan.has_unfenced = prng.percent(40);
        plan.deletes_if_equal = prng.percent(40);
        plan.has_rests = prng.percent(30);
        plan.has_delays = prng.percent(30);
        plan.has_tickets = prng.percent(30);
        plan.has_steals = prng.percent(8) && !is_beyond;
        plan.has_shares = prng.percent(35);
        plan.has_one_ttl = prng.percent(35);
        plan.has_family = prng.percent(40);
        plan.faults.extend(prng.percent(30).then_some(Fault::DeadWaiters));
        plan.faults.extend(prng.percent(30).then_some(Fault::Forgery));
        plan.draw_setbacks(&mut Prng::new(seed ^ 0x0_1DE5));
        plan.has_grace = Prng::new(seed ^ 0x06_8ACE).percent(30) && !is_beyond;
        plan.has_bursts = Prng::new(seed ^ 0x0B_0575).percent(15);
        plan
    }

    fn draw_setbacks(&mut self, prng: &mut Prng) {
        if !prng.percent(SETBACK_PERCENT) || self.is_beyond {
            return;
        }
        // Tokens of a counter that was set back need right clocks.
        if prng.percent(70) {
            self.faults.retain(|fault| !OF_CLOCKS.contains(fault));
        }
        self.faults.extend(SETBACKS.into_iter().filter(|_| prng.percent(60)));
        // Few names, and one task, so that a client often takes a free lock whose name it knows.
        if prng.percent(60) {
            (self.names, self.tasks) = (3, 1);
            (self.has_shares, self.has_family) = (false, false);
        }
    }

    /// One primary with a grace that fails over again and again.
    pub(crate) fn of_failovers(seed: u64) -> Self {
        let mut plan = Self::new(seed, false).without_setbacks();
        plan.faults.retain(|fault| !matches!(fault, Fault::StepForward | Fault::Forget));
        plan.faults.push(Fault::Demotion);
        let has_steals = false;
        Self { servers: 1, quorum: 1, has_steals, has_grace: true, ..plan }
    }

    pub(crate) fn without_setbacks(mut self) -> Self {
        self.faults.retain(|fault| !SETBACKS.contains(fault));
        self
    }

    pub(crate) fn setbacks(&self) -> Vec<Fault> {
        SETBACKS.into_iter().filter(|fault| self.has(*fault)).collect()
    }

    /// Whether a held lock may be granted to another.
    pub(crate) fn grants_again(&self) -> bool {
        self.forgets_alone() && !self.has_grace
    }

    /// Whether a single server may be demoted: once it is promoted again it grants held locks, and nothing makes
    /// clients wait.
    pub(crate) fn forgets_alone(&self) -> bool {
        self.servers == 1 && self.has(Fault::Demotion)
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// Whether messages between two that are up may be lost for a while.
    pub(crate) fn has_silences(&self) -> bool {
        let silences = [Fault::Delay, Fault::Partition, Fault::Freeze, Fault::Pause];
        silences.into_iter().any(|fault| self.has(fault))
    }

    /// The number of the lock that is taken without tokens, if the plan has one.
    pub(crate) fn unfenced(&self) -> Option<usize> {
        self.has_unfenced.then_some(self.names)
    }

    /// The numbers of the lock with readers and the one with permits, if the plan has them.
    pub(crate) fn shared(&self) -> Option<[usize; 2]> {
        self.has_shares.then_some([self.names + 1, self.names + 2])
    }

    /// The number of the election's lock, if the plan has one.
    pub(crate) fn elected(&self) -> Option<usize> {
        self.has_family.then_some(self.names + 3)
    }

    /// The keys of all locks.
    pub(crate) fn locks(&self) -> Vec<String> {
        let numbers = (0..self.names).chain(self.unfenced()).chain(self.elected());
        let numbers = numbers.chain(self.shared().into_iter().flatten());
        let slots = self.shared().filter(|_| self.servers > 1).into_iter();
        let slots = slots.flat_map(|[_, semaphore]| {
            (0..LIMIT).map(move |slot| format!("{{{}}}:{slot}:permit", key(semaphore)))
        });
        numbers.map(key).chain(slots).collect()
    }

    /// Whether all clocks are right, and stay so.
    pub(crate) fn has_right_clocks(&self) -> bool {
        !OF_CLOCKS.into_iter().any(|fault| self.has(fault))
    }

    /// How many servers may lose keys within a lease's life.
    pub(crate) fn losses_max(&self) -> usize {
        if self.is_beyond { self.servers } else { 2 * self.quorum - self.servers - 1 }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, servers, quorum, clients, tasks, names, longest_ttl, .. } = self;
        write!(
            f,
            "seed {seed}: {quorum} of {servers}, {clients} clients of {tasks}, {names} locks{}{}{}{}{}{}{}{}{}{}, \
             TTL up to {longest_ttl:?}, {:?} long, latency {:?}, {:?}{}{}",
            if self.has_unfenced { " and an unfenced one" } else { "" },
            if self.has_rests { ", at rest for a while" } else { "" },
            if self.has_delays { ", delayed after a loss" } else { "" },
            if self.has_tickets { ", with tickets" } else { "" },
            if self.has_steals { ", with steals" } else { "" },
            if self.has_shares { ", with shares" } else { "" },
            if self.has_family { ", with jobs, requests and gates" } else { "" },
            if self.has_one_ttl { ", of one TTL" } else { "" },
            if self.has_grace { ", with a grace" } else { "" },
            if self.has_bursts { ", in bursts" } else { "" },
            self.length,
            self.latency,
            self.faults,
            if self.deletes_if_equal { ", with DELEX" } else { "" },
            if self.is_beyond { ", beyond the budget" } else { "" }
        )
    }
}

/// The name of a lock.
pub(crate) fn key(name: usize) -> String {
    format!("lock-{name}")
}

/// The host of a server.
pub(crate) fn host(server: usize) -> String {
    format!("server-{server}")
}

/// The default command timeout with several servers.
pub(crate) fn command_timeout(plan: &Plan) -> Duration {
    (plan.longest_ttl / 20).clamp(MIN_TIMEOUT, MAX_TIMEOUT)
}

/// The default connect timeout.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Permits of the semaphore.
pub(crate) const LIMIT: u32 = 2;
const MIN_TIMEOUT: Duration = Duration::from_millis(50);
const MAX_TIMEOUT: Duration = Duration::from_millis(500);
