//! The model of fencing: no time and no leases, only tokens. A lock vanishes whenever that helps
//! the adversary, so nothing here leans on exclusion, on TTLs or on any clock.

use std::fmt;
use std::time::Duration;

use super::super::{Attempt, AttemptAction, Ballot, Conditions};
use super::attempt::{conditions, round};
use super::explore::Model;
use super::redis::{Keys, Owner, Reply};

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) quorum: usize,
    /// Attempts, each by an owner of its own: which client makes them does not matter.
    pub(super) attempts: usize,
    /// Proposals are 1 to this, in whatever order wall clocks give them.
    pub(super) tokens: u8,
    /// How many of the attempts, from the first, may propose once more, with a larger token.
    pub(super) second_proposals: usize,
    /// How many servers may lose their counter.
    pub(super) losses: usize,
    /// Owners of issued tokens repair servers, at any time.
    pub(super) repairs: bool,
    /// How many tokens above its own are set aside for each attempt, whose holder passes its lease on with
    /// them, at any time.
    pub(super) aside: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Safety rule 8: q servers accepted the same token, each above all it accepted before.
    Ballot,
    /// Every server counts for itself, and the largest number is the token.
    LargestOfCounts,
    /// Grants of both proposals of an attempt count together, for the second.
    MixedProposals,
    /// A server accepts a token that equals its counter.
    AcceptsEqual,
    /// A successor has its predecessor's token, the one issued last: a server that accepted it
    /// swaps the owners and leaves the counter.
    HandsTokenOn,
    /// A repair sets the counter to its token, even if the counter is above that.
    RepairLowers,
    /// A repair needs no token that was issued, and counts as an acceptance.
    RepairAccepts,
    /// A lease is passed on with tokens that servers have not set aside.
    NoneAside,
}

const ATTEMPTS_MAX: usize = 4;
const PROPOSALS: usize = 2;

/// One proposal on its way to one server. What is refused might as well never have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Letter {
    is_under_way: bool,
    /// The number that the server granted; 0 for none.
    granted: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Server {
    counter: u8,
    has_lost: bool,
    letters: [[Letter; PROPOSALS]; ATTEMPTS_MAX],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Proposal {
    /// The proposal; 0 before that.
    token: u8,
    /// The largest token that had been issued when the proposal was first sent.
    floor: u8,
    /// The token that was issued for it; 0 for none.
    issued: u8,
    /// How many tokens above that were issued to holders to which the lease was passed on.
    passed: u8,
}

impl Proposal {
    /// All tokens that were issued for it.
    fn tokens(self) -> impl Iterator<Item = u8> {
        (self.issued..=self.issued + self.passed).filter(|token| *token > 0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tokens<const N: usize> {
    servers: [Server; N],
    proposals: [[Proposal; PROPOSALS]; ATTEMPTS_MAX],
}

impl<const N: usize> Tokens<N> {
    fn all(&self) -> impl Iterator<Item = Proposal> {
        self.proposals.into_iter().flatten()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Propose { attempt: usize, token: u8 },
    Accept { attempt: usize, token: u8, server: usize, granted: u8 },
    Repair { attempt: usize, token: u8, server: usize },
    PassOn { attempt: usize, token: u8 },
    LoseCounter(usize),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Propose { attempt, token } => {
                write!(f, "attempt {} proposes {token} to every server", attempt + 1)
            }
            Self::Accept { attempt, token, server, granted } => {
                let (server, attempt) = (server + 1, attempt + 1);
                write!(f, "server {server} grants {granted} to {token} of attempt {attempt}")
            }
            Self::Repair { attempt, token, server } => {
                let (server, attempt) = (server + 1, attempt + 1);
                write!(f, "server {server} is repaired for {token} of attempt {attempt}")
            }
            Self::PassOn { attempt, token } => {
                write!(f, "the lease of attempt {} is passed on with {token}", attempt + 1)
            }
            Self::LoseCounter(server) => write!(f, "server {} loses its counter", server + 1),
        }
    }
}

pub(super) struct Fencing<const N: usize> {
    bounds: Bounds,
    rule: Rule,
    conditions: Conditions,
}

impl<const N: usize> Fencing<N> {
    pub(super) fn new(bounds: Bounds, rule: Rule) -> Self {
        assert!(bounds.attempts <= ATTEMPTS_MAX, "a state has no place for more");
        // Nothing here depends on time.
        let conditions = conditions(N, bounds.quorum, Duration::from_secs(1));
        Self { bounds, rule, conditions }
    }

    fn propose(mut state: Tokens<N>, attempt: usize, which: usize, token: u8) -> Tokens<N> {
        let floor = state.all().flat_map(Proposal::tokens).max().unwrap_or(0);
        state.proposals[attempt][which] = Proposal { token, floor, ..Proposal::default() };
        for server in &mut state.servers {
            server.letters[attempt][which].is_under_way = true;
        }
        state
    }

    /// The token that the server grants for `token`, if any. There is no time here: the lock may always have
    /// vanished, and so be free.
    fn grant(&self, server: &mut Server, attempt: usize, token: u8, floor: u8) -> Option<u8> {
        let owner = owner(attempt);
        let mut keys = Keys { counter: server.counter, ..Keys::default() };
        let (asked, proposed) = match self.rule {
            Rule::LargestOfCounts => (keys.counter + 1, keys.counter + 1),
            Rule::AcceptsEqual if token == keys.counter => return Some(token),
            Rule::HandsTokenOn if [keys.counter, floor] == [token; 2] => return Some(token),
            _ => (token, token),
        };
        if keys.acquire(owner, 0, 1, asked) != Reply::Granted {
            return None;
        }
        let aside = if self.rule == Rule::NoneAside { 0 } else { self.bounds.aside };
        server.counter = keys.counter + aside;
        Some(proposed)
    }

    fn accept(
        &self,
        state: &Tokens<N>,
        s: usize,
        attempt: usize,
        which: usize,
    ) -> Option<Found<N>> {
        let token = state.proposals[attempt][which].token;
        let mut next = *state;
        let server = &mut next.servers[s];
        let floor = state.proposals[attempt][which].floor;
        let granted = self.grant(server, attempt, token, floor)?;
        server.letters[attempt][which] = Letter { is_under_way: false, granted };
        self.issue(&mut next, attempt, which);
        Some((Step::Accept { attempt, token, server: s, granted }, next))
    }

    /// A repair that changes anything. The lock may have vanished by then.
    fn repair(
        &self,
        state: &Tokens<N>,
        s: usize,
        attempt: usize,
        which: usize,
    ) -> Option<Found<N>> {
        let Proposal { token, issued, .. } = state.proposals[attempt][which];
        let accepts = self.rule == Rule::RepairAccepts;
        if issued == 0 && !accepts {
            return None;
        }
        let mut next = *state;
        let server = &mut next.servers[s];
        let mut keys = Keys { counter: server.counter, ..Keys::default() };
        if self.rule == Rule::RepairLowers {
            keys.counter = keys.counter.min(token);
        }
        if keys.repair(owner(attempt), 1, token + self.bounds.aside) != Reply::Granted {
            return None;
        }
        server.counter = keys.counter;
        if accepts {
            server.letters[attempt][which] = Letter { is_under_way: false, granted: token };
            self.issue(&mut next, attempt, which);
        }
        (next != *state).then_some((Step::Repair { attempt, token, server: s }, next))
    }

    /// The lease of an attempt goes on to the next holder in its process, unseen by all servers.
    fn pass_on(&self, state: &Tokens<N>, attempt: usize, which: usize) -> Option<Found<N>> {
        let Proposal { issued, passed, .. } = state.proposals[attempt][which];
        if issued == 0 || passed == self.bounds.aside {
            return None;
        }
        let mut next = *state;
        next.proposals[attempt][which].passed += 1;
        Some((Step::PassOn { attempt, token: issued + passed + 1 }, next))
    }

    /// A token is issued at the grant that completes a quorum, the earliest moment at which its
    /// client could learn of it.
    fn issue(&self, state: &mut Tokens<N>, attempt: usize, which: usize) {
        let is_mixed = self.rule == Rule::MixedProposals && which == 1;
        let grants = |server: &Server| {
            let letters = server.letters[attempt];
            let other = if is_mixed { letters[1 - which].granted } else { 0 };
            letters[which].granted.max(other)
        };
        let granted = state.servers.iter().map(grants).filter(|granted| *granted > 0);
        let Some(most) = granted.clone().max() else { return };
        let is_largest = self.rule == Rule::LargestOfCounts;
        // Mutants count different tokens as one.
        let counted = |token| if is_largest || is_mixed { most } else { token };
        let first = Ballot::new(state.proposals[attempt][0].token.into());
        let proposal = &mut state.proposals[attempt][which];
        // A second proposal is above some counter that refused the first.
        let ballot = match which {
            _ if is_largest => Ballot::new(most.into()),
            0 => first,
            _ => first.above((proposal.token - 1).into()),
        };
        let tokens = granted.map(|token| counted(token).into());
        let tally = round(&self.conditions, tokens, Duration::ZERO);
        let mut machine = Attempt::begin(self.conditions, Some(ballot));
        if let AttemptAction::Hold(grant) = machine.ended(&tally, || 0) {
            if proposal.issued == 0 {
                proposal.issued = grant.token.map_or(0, |_| most);
            }
        }
    }
}

fn owner(attempt: usize) -> Owner {
    u8::try_from(attempt).expect("attempts are few") + 1
}

type Found<const N: usize> = (Step, Tokens<N>);

impl<const N: usize> Model for Fencing<N> {
    type State = Tokens<N>;
    type Step = Step;

    fn start(&self) -> Tokens<N> {
        Tokens { servers: [Server::default(); N], proposals: Default::default() }
    }

    fn steps(&self, state: &Tokens<N>, found: &mut Vec<Found<N>>) {
        for attempt in 0..self.bounds.attempts {
            found.extend((0..PROPOSALS).filter_map(|which| self.pass_on(state, attempt, which)));
            let [first, second] = state.proposals[attempt];
            // Attempts are alike: they are numbered as they begin.
            let is_next = attempt == 0 || state.proposals[attempt - 1][0].token > 0;
            let may_repeat = attempt < self.bounds.second_proposals;
            let which = match (first.token, second.token) {
                (0, _) if is_next => 0,
                (1.., 0) if may_repeat => 1,
                _ => continue,
            };
            for token in first.token + 1..=self.bounds.tokens {
                let next = Self::propose(*state, attempt, which, token);
                found.push((Step::Propose { attempt, token }, next));
            }
        }
        let has_lost = state.servers.iter().filter(|server| server.has_lost).count();
        for (s, server) in state.servers.iter().enumerate() {
            if s > 0 && *server == state.servers[s - 1] {
                continue;
            }
            for (attempt, letters) in server.letters.iter().enumerate() {
                for (which, letter) in letters.iter().enumerate() {
                    if letter.is_under_way {
                        found.extend(self.accept(state, s, attempt, which));
                    }
                    if self.bounds.repairs {
                        found.extend(self.repair(state, s, attempt, which));
                    }
                }
            }
            if server.counter > 0 && (server.has_lost || has_lost < self.bounds.losses) {
                let mut next = *state;
                (next.servers[s].counter, next.servers[s].has_lost) = (0, true);
                found.push((Step::LoseCounter(s), next));
            }
        }
    }

    fn canonical(&self, mut state: Tokens<N>) -> Tokens<N> {
        state.servers.sort_unstable();
        state
    }

    fn breach(&self, state: &Tokens<N>) -> Option<&'static str> {
        let issued: Vec<Proposal> = state.all().filter(|proposal| proposal.issued > 0).collect();
        let is_late = |proposal: &&Proposal| proposal.issued <= proposal.floor;
        if issued.iter().any(|proposal| is_late(&proposal)) {
            return Some("a token is not above one that was issued before it was asked for");
        }
        let mut tokens: Vec<u8> = issued.into_iter().flat_map(Proposal::tokens).collect();
        tokens.sort_unstable();
        let is_repeated = tokens.windows(2).any(|pair| pair[0] == pair[1]);
        is_repeated.then_some("a token is issued twice")
    }
}
