//! What one episode is to be, decided by its seed.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::prng::Prng;

/// The longest TTL that any client uses, which is what the restart quarantine is told.
pub(crate) const LONGEST_TTL: Duration = Duration::from_millis(1000);
pub(crate) const TTL_MS: Range<u64> = 300..1001;
/// Lockers, each with some of the clients.
pub(crate) const GROUPS: usize = 4;
pub(crate) const CLIENTS: usize = 16;
/// Permits of the semaphore.
pub(crate) const LIMIT: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kill,
    KillEmpty,
    Freeze,
    Delay,
    Dribble,
    Stall,
    Blackhole,
    Refuse,
    Isolate,
    Cut,
    Reset,
    ResetMidFrame,
    HalfClose,
    ScriptFlush,
    ClientKill,
}

const KINDS: [Kind; 15] = [
    Kind::Kill,
    Kind::KillEmpty,
    Kind::Freeze,
    Kind::Delay,
    Kind::Dribble,
    Kind::Stall,
    Kind::Blackhole,
    Kind::Refuse,
    Kind::Isolate,
    Kind::Cut,
    Kind::Reset,
    Kind::ResetMidFrame,
    Kind::HalfClose,
    Kind::ScriptFlush,
    Kind::ClientKill,
];

pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) servers: usize,
    pub(crate) quorum: usize,
    /// Without the guard no server is started again with an empty memory.
    pub(crate) restart_quarantine: bool,
    pub(crate) names: usize,
    /// One more lock is shared by readers, and one is a semaphore.
    pub(crate) has_shares: bool,
    /// Clients also run jobs, carry out requests, take tokens, and meet at latches, barriers and elections.
    pub(crate) has_family: bool,
    /// Ways to each server that fail by themselves: one for all groups, or one for each.
    pub(crate) ways: usize,
    pub(crate) command_timeout: Duration,
    /// What is left of all kinds: a run without some kinds reaches states that others hide.
    pub(crate) kinds: Vec<Kind>,
    /// Between faults, in milliseconds.
    pub(crate) gap_ms: Range<u64>,
    /// How many percent of the faults ignore how many servers may be away.
    pub(crate) storm_percent: u64,
    /// The fence counters begin an hour ahead, as after clients whose wall clock runs fast: so no
    /// clock orders the tokens. Not where servers forget, because then nothing else would either.
    pub(crate) is_ahead: bool,
    /// Whether keys expire early, by hand.
    pub(crate) takes_keys: bool,
    /// More servers than k lose keys: exclusion is then not asserted.
    pub(crate) is_beyond: bool,
}

impl Plan {
    /// The plan of `seed`, for `quorum` of `servers` where that is given.
    pub(crate) fn new(seed: u64, shape: Option<(usize, usize)>, is_beyond: bool) -> Self {
        let mut prng = Prng::new(seed);
        let drawn = prng.pick(&[(4, 5), (4, 5), (4, 5), (3, 5), (3, 5), (2, 3), (3, 4), (1, 1)]);
        let (quorum, servers) = shape.unwrap_or(drawn);
        let restart_quarantine = prng.percent(70);
        let gap_ms = prng.pick(&[10, 30, 80]);
        let mut plan = Self {
            seed,
            servers,
            quorum,
            restart_quarantine,
            names: prng.index(4) + 2,
            ways: prng.pick(&[1, GROUPS, GROUPS]),
            command_timeout: prng.millis(60..250),
            kinds: KINDS.into_iter().filter(|_| prng.percent(75)).collect(),
            gap_ms: gap_ms..8 * gap_ms,
            storm_percent: prng.pick(&[0, 5, 20]),
            is_ahead: prng.percent(40),
            takes_keys: false,
            is_beyond,
            has_shares: prng.percent(60) && cfg!(feature = "full"),
            has_family: prng.percent(50) && cfg!(feature = "full"),
        };
        plan.takes_keys = plan.losses_max() > 0 || is_beyond;
        if !restart_quarantine || plan.is_ahead {
            plan.kinds.retain(|kind| *kind != Kind::KillEmpty);
        }
        if plan.ways > 1 {
            // More often, because each strikes a part of the clients only.
            plan.kinds.extend([Kind::Isolate; 2]);
        }
        // So that there is always one.
        plan.kinds.push(Kind::Reset);
        plan
    }

    /// Locks that can be held whole: those that are not shared, and the one that readers share.
    pub(crate) fn wholes(&self) -> usize {
        self.names + usize::from(self.has_shares)
    }

    /// All locks, the semaphore last.
    pub(crate) fn all(&self) -> usize {
        self.names + 2 * usize::from(self.has_shares)
    }

    /// The lock of the election: none of the others.
    pub(crate) fn elected(&self) -> usize {
        self.all()
    }

    /// k: see `leasehold::Tolerance`. Counted here again, for the test not to believe the library.
    pub(crate) fn losses_max(&self) -> usize {
        (2 * self.quorum).saturating_sub(self.servers + 1)
    }

    /// f, but at least one: a server that is never away is never found missing.
    pub(crate) fn outages_max(&self) -> usize {
        (self.servers - self.quorum).max(1)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, servers, quorum, names, ways, gap_ms, storm_percent, .. } = self;
        let guard = if self.restart_quarantine { "guarded" } else { "unguarded" };
        let ahead = if self.is_ahead { ", counters ahead" } else { "" };
        let shares = if self.has_shares { ", with shares" } else { "" };
        let family = if self.has_family { ", with jobs, requests and gates" } else { "" };
        let beyond = if self.is_beyond { ", BEYOND the budget" } else { "" };
        write!(
            f,
            "seed {seed}: {quorum} of {servers}, {guard}, {names} names, {ways} ways, a fault each {gap_ms:?} \
             ms, {storm_percent} % storm{shares}{family}{ahead}{beyond}"
        )
    }
}

#[test]
fn a_plan_holds_no_fault_that_it_has_no_budget_for() {
    for seed in 0..500 {
        let plan = Plan::new(seed, None, false);
        let has = |kind| plan.kinds.contains(&kind);
        assert!(!plan.is_ahead || !has(Kind::KillEmpty), "{plan}");
        assert!(plan.losses_max() > 0 || !plan.takes_keys, "{plan}");
        assert!(plan.restart_quarantine || !has(Kind::KillEmpty), "{plan}");
    }
}
