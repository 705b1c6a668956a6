//! The model of readers and writers over several servers: votes and tokens, without time. The two scripts are
//! copied by hand; the attempt is real.

use std::fmt;
use std::time::Duration;

use super::super::{Attempt, AttemptAction, Ballot, Conditions, Grant};
use super::attempt::{conditions, round};
use super::explore::Model;

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) quorum: usize,
    /// How many of the clients, from the first, write; the others read; each once.
    pub(super) writers: usize,
    /// Proposals are 1 to this, in whatever order wall clocks give them.
    pub(super) tokens: u8,
    /// How many servers may forget everything, each as often as it likes.
    pub(super) losses: usize,
}

const CLIENTS: usize = 3;
/// Real tokens begin above this: smaller numbers are other replies.
const FIRST: u64 = 1_000_000_000;
const TTL: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    counter: u8,
    /// The clients that have the lock here: a writer alone, or readers.
    has: [bool; CLIENTS],
    has_forgotten: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Stage {
    #[default]
    Idle,
    Asks,
    Holds,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client<const N: usize> {
    stage: Stage,
    /// A writer's proposal, or the least token of a reader.
    proposal: u8,
    /// The token with which each server granted the present request; 0 for none.
    granted: [u8; N],
    /// The largest tokens of writers and of readers that had been granted when this one began.
    before: [u8; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sharers<const N: usize> {
    servers: [Server; N],
    clients: [Client<N>; CLIENTS],
    /// The largest token of a writer and of a reader so far.
    granted: [u8; 2],
    has_token_below: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Begin { client: usize, proposal: u8 },
    Vote { client: usize, server: usize },
    End(usize),
    Forget(usize),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begin { client, proposal } => write!(f, "client {client} asks with {proposal}"),
            Self::Vote { client, server } => write!(f, "server {server} answers client {client}"),
            Self::End(client) => write!(f, "client {client} gives everything back"),
            Self::Forget(server) => write!(f, "server {server} forgets everything"),
        }
    }
}

pub(super) struct Sharing<const N: usize> {
    bounds: Bounds,
    conditions: [Conditions; 2],
}

impl<const N: usize> Sharing<N> {
    pub(super) fn new(bounds: Bounds) -> Self {
        let conditions = [false, true].map(|servers_choose| Conditions {
            servers_choose,
            ..conditions(N, bounds.quorum, TTL)
        });
        Self { bounds, conditions }
    }

    fn reads(&self, client: usize) -> bool {
        client >= self.bounds.writers
    }

    /// The server answers, and the client judges all answers to its request.
    fn vote(&self, state: &mut Sharers<N>, client: usize, server: usize) -> bool {
        let reads = self.reads(client);
        let asking = &mut state.clients[client];
        let asked = &mut state.servers[server];
        let is_free = (0..CLIENTS)
            .all(|other| other == client || !asked.has[other] || reads && self.reads(other));
        if !is_free || !reads && asking.proposal <= asked.counter {
            return false;
        }
        asked.has[client] = true;
        asked.counter = asked.counter.max(asking.proposal).max(1);
        asking.granted[server] = asked.counter;
        let conditions = &self.conditions[usize::from(reads)];
        let tokens = asking.granted.iter().filter(|token| **token > 0);
        let tally =
            round(conditions, tokens.map(|token| FIRST + u64::from(*token)), Duration::ZERO);
        let ballot = Ballot::new(FIRST + u64::from(asking.proposal));
        match Attempt::begin(*conditions, Some(ballot)).ended(&tally, || FIRST) {
            AttemptAction::Hold(Grant { token: Some(token), .. }) => {
                let token = u8::try_from(token - FIRST).expect("tokens are small");
                asking.stage = Stage::Holds;
                let [written, read] = asking.before;
                let is_right = token >= written && (reads || token > written.max(read));
                state.has_token_below |= !is_right;
                let most = &mut state.granted[usize::from(reads)];
                *most = token.max(*most);
            }
            AttemptAction::Ask(ballot) => {
                let least = ballot.proposal() - FIRST;
                asking.proposal = u8::try_from(least).expect("tokens are small");
                asking.granted = [0; N];
            }
            // No quorum has answered yet.
            _ => {}
        }
        true
    }
}

impl<const N: usize> Model for Sharing<N> {
    type State = Sharers<N>;
    type Step = Step;

    fn start(&self) -> Sharers<N> {
        let client = Client { stage: Stage::Idle, proposal: 0, granted: [0; N], before: [0; 2] };
        Sharers {
            servers: [Server::default(); N],
            clients: [client; CLIENTS],
            granted: [0; 2],
            has_token_below: false,
        }
    }

    fn steps(&self, state: &Sharers<N>, found: &mut Vec<(Step, Sharers<N>)>) {
        for client in 0..CLIENTS {
            let Client { stage, granted, .. } = state.clients[client];
            if stage == Stage::Idle {
                let proposals = if self.reads(client) { 0..=0 } else { 1..=self.bounds.tokens };
                for proposal in proposals {
                    let mut next = *state;
                    let begun = &mut next.clients[client];
                    (begun.stage, begun.proposal) = (Stage::Asks, proposal);
                    begun.before = state.granted;
                    found.push((Step::Begin { client, proposal }, next));
                }
            } else if stage == Stage::Asks {
                for server in (0..N).filter(|server| granted[*server] == 0) {
                    let mut next = *state;
                    if self.vote(&mut next, client, server) {
                        found.push((Step::Vote { client, server }, next));
                    }
                }
            }
            if matches!(stage, Stage::Asks | Stage::Holds) {
                let mut next = *state;
                next.servers.iter_mut().for_each(|server| server.has[client] = false);
                let ended = &mut next.clients[client];
                (ended.stage, ended.granted) = (Stage::Done, [0; N]);
                found.push((Step::End(client), next));
            }
        }
        let forgotten = state.servers.iter().filter(|server| server.has_forgotten).count();
        for server in 0..N {
            if state.servers[server].has_forgotten || forgotten < self.bounds.losses {
                let mut next = *state;
                next.servers[server] = Server { has_forgotten: true, ..Server::default() };
                found.push((Step::Forget(server), next));
            }
        }
    }

    /// Servers are told apart: there are few.
    fn canonical(&self, state: Sharers<N>) -> Sharers<N> {
        state
    }

    fn breach(&self, state: &Sharers<N>) -> Option<&'static str> {
        let holds = |client: &usize| state.clients[*client].stage == Stage::Holds;
        let holding: Vec<usize> = (0..CLIENTS).filter(holds).collect();
        if holding.len() > 1 && holding.iter().any(|client| !self.reads(*client)) {
            return Some("a writer and another hold the lock");
        }
        state.has_token_below.then_some("a token is below one before it")
    }
}
