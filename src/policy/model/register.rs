//! The model of a register over several servers: no time, no leases, only promises and the values accepted
//! under them. `scripts/promise.lua` and `scripts/accept.lua` are copied by hand; [`Reading`] is real.

use std::fmt;

use super::super::{Quorum, Reading, Verdict};
use super::explore::Model;

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) quorum: usize,
    /// Attempts, each of which proposes once and may end at any step.
    pub(super) attempts: usize,
    /// Proposals are 1 to this, in whatever order wall clocks give them.
    pub(super) tokens: u8,
    /// How many servers may forget everything, each as often as it likes.
    pub(super) losses: usize,
    /// The slot that each attempt claims, for a register that holds the last slot; none for one that is
    /// written once.
    pub(super) slots: Option<[u8; ATTEMPTS_MAX]>,
    /// The second attempt is the first one's other proposal, once that has done its work: it writes the same.
    pub(super) repeats: bool,
    /// Keys in which nothing was accepted end, on all servers at once and as often as they like. Earlier proposals are
    /// void then, and results come late.
    pub(super) ends: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Right,
    /// An attempt with q promises does its work, whatever was accepted.
    IgnoresAccepted,
    /// An attempt takes the value with the lowest token.
    TakesTheLowest,
    /// An attempt returns a value that a minority has accepted.
    TellsAMinoritys,
    /// An attempt returns its result once one server has accepted it.
    TellsAtOnce,
    /// A server accepts a value although it has promised a larger token.
    AcceptsBelow,
    /// A server accepts a value under a token above its promise, which it has never promised, or has forgotten.
    AcceptsAbove,
    /// A server answers a proposal and forgets that it promised.
    ForgetsThePromise,
    /// A server promises a token below one that it has promised.
    PromisesBelow,
    /// Promises to q - 1 servers are enough.
    OneTooFew,
}

const ATTEMPTS_MAX: usize = 3;

/// The messages between one attempt and one server. A refused one might as well never have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Letter {
    has_promised: bool,
    /// The server's answer to it: the attempt, counted from 1, under whose token it had accepted a value; 0
    /// for none.
    seen: u8,
    has_accepted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Server {
    /// The largest token that the server has promised; 0 for none.
    promised: u8,
    /// The attempt, counted from 1, that has its promise.
    owner: u8,
    /// As [`Letter::seen`].
    accepted: u8,
    has_lost: bool,
    letters: [Letter; ATTEMPTS_MAX],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Attempt {
    /// The attempt's proposal; 0 before that.
    token: u8,
    /// The last slot that was claimed when the attempt proposed.
    floor: u8,
    /// The attempt, counted from 1, that made the value that this one writes; 0 before it has one.
    value: u8,
    /// It asks servers to accept that value, because it did not learn that it is decided already.
    is_writing: bool,
    /// It has returned its value, which is decided, or was when it asked.
    is_told: bool,
    /// It has done its work, and the keys with its promises have ended.
    is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Registers<const N: usize> {
    servers: [Server; N],
    attempts: [Attempt; ATTEMPTS_MAX],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Propose { attempt: usize, token: u8 },
    Promise { attempt: usize, server: usize },
    Work { attempt: usize },
    Adopt { attempt: usize, value: u8 },
    Read { attempt: usize, value: u8 },
    Accept { attempt: usize, server: usize },
    Forget(usize),
    End,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Propose { attempt, token } => {
                write!(f, "attempt {} proposes {token} to every server", attempt + 1)
            }
            Self::Promise { attempt, server } => {
                write!(f, "server {} promises to attempt {}", server + 1, attempt + 1)
            }
            Self::Work { attempt } => write!(f, "attempt {} does its work", attempt + 1),
            Self::Adopt { attempt, value } => {
                write!(f, "attempt {} goes on with the value of attempt {value}", attempt + 1)
            }
            Self::Read { attempt, value } => {
                write!(f, "attempt {} is told the value of attempt {value}", attempt + 1)
            }
            Self::Accept { attempt, server } => {
                write!(f, "server {} accepts the value of attempt {}", server + 1, attempt + 1)
            }
            Self::Forget(server) => write!(f, "server {} forgets everything", server + 1),
            Self::End => write!(f, "the keys of all servers end"),
        }
    }
}

pub(super) struct Registering<const N: usize> {
    bounds: Bounds,
    rule: Rule,
    quorum: Quorum,
}

type Found<const N: usize> = (Step, Registers<N>);

impl<const N: usize> Registering<N> {
    pub(super) fn new(bounds: Bounds, rule: Rule) -> Self {
        let quorum = Quorum::new(N, Some(bounds.quorum)).expect("the bounds are a quorum");
        assert!(bounds.attempts <= ATTEMPTS_MAX, "a state has no place for more");
        Self { bounds, rule, quorum }
    }

    /// Whether a quorum has accepted a value under the attempt's token.
    fn is_decided(&self, state: &Registers<N>, a: usize) -> bool {
        let accepted = state.servers.iter().filter(|server| server.letters[a].has_accepted).count();
        self.quorum.verdict(accepted, 0) == Verdict::Won
    }

    fn is_repeat(&self, a: usize) -> bool {
        self.bounds.repeats && a == 1
    }

    fn slot(&self, value: u8) -> u8 {
        match self.bounds.slots {
            Some(slots) if value > 0 => slots[usize::from(value) - 1],
            _ => 0,
        }
    }

    fn propose(&self, mut state: Registers<N>, a: usize, token: u8) -> Registers<N> {
        let claimed = |(a, attempt): (usize, &Attempt)| {
            (attempt.is_told && attempt.value == number(a)).then(|| self.slot(attempt.value))
        };
        let floor = state.attempts.iter().enumerate().filter_map(claimed).max().unwrap_or(0);
        state.attempts[a] = Attempt { token, floor, ..Attempt::default() };
        state
    }

    /// `scripts/promise.lua`, and the client that reads the answer.
    fn promise(&self, state: &Registers<N>, a: usize, s: usize) -> Option<Found<N>> {
        let (attempt, server) = (state.attempts[a], state.servers[s]);
        let is_below = attempt.token <= server.promised && self.rule != Rule::PromisesBelow;
        if server.letters[a].has_promised || is_below {
            return None;
        }
        let mut next = *state;
        if self.rule != Rule::ForgetsThePromise {
            (next.servers[s].promised, next.servers[s].owner) = (attempt.token, number(a));
        }
        // Once it has its value, it reads no further answer.
        let seen = if attempt.value == 0 { server.accepted } else { 0 };
        next.servers[s].letters[a] = Letter { has_promised: true, seen, has_accepted: false };
        Some((Step::Promise { attempt: a, server: s }, next))
    }

    /// All choices that the attempt has by its answers: it goes on as soon as it has read q of them,
    /// whichever these are.
    fn choose(&self, state: &Registers<N>, a: usize, found: &mut Vec<Found<N>>) {
        let promised: Vec<u8> = (state.servers.iter().map(|server| server.letters[a]))
            .filter_map(|letter| letter.has_promised.then_some(letter.seen))
            .collect();
        let (quorum, read) = match self.rule {
            Rule::OneTooFew => (Quorum::all(1), self.quorum.needed() - 1),
            _ => (self.quorum, self.quorum.needed()),
        };
        let mut chosen = Vec::new();
        for picks in 0..1_u32 << promised.len() {
            if picks.count_ones() as usize != read {
                continue;
            }
            let picked = |(n, seen): (usize, &u8)| (picks >> n & 1 == 1).then_some(*seen);
            let picked: Vec<u8> = promised.iter().enumerate().filter_map(picked).collect();
            let choice = self.reading(state, quorum, &picked);
            if !chosen.contains(&choice) {
                chosen.push(choice);
                found.push(self.chosen(*state, a, choice));
            }
        }
    }

    fn reading(&self, state: &Registers<N>, quorum: Quorum, seen: &[u8]) -> Reading<u8> {
        // The value accepted under the token of an attempt is that attempt's.
        let accepted = |seen: &u8| {
            let attempt = state.attempts[usize::from(seen.checked_sub(1)?)];
            let token = match self.rule {
                Rule::IgnoresAccepted => return None,
                Rule::TakesTheLowest => self.bounds.tokens + 1 - attempt.token,
                _ => attempt.token,
            };
            Some((token.into(), attempt.value))
        };
        let reading = Reading::of(quorum, seen.iter().map(accepted));
        match reading.expect("they are a quorum") {
            Reading::Open(value) if self.rule == Rule::TellsAMinoritys => Reading::Decided(value),
            reading => reading,
        }
    }

    fn chosen(&self, mut state: Registers<N>, a: usize, reading: Reading<u8>) -> Found<N> {
        for server in &mut state.servers {
            server.letters[a].seen = 0;
        }
        let own = if self.is_repeat(a) { number(0) } else { number(a) };
        let attempt = &mut state.attempts[a];
        let is_next = |value| self.slot(own) > self.slot(value);
        let (value, step) = match reading {
            Reading::Open(value) if !is_next(value) => (value, Step::Adopt { attempt: a, value }),
            Reading::Decided(value) if !is_next(value) => (value, Step::Read { attempt: a, value }),
            _ if own != number(a) => (own, Step::Adopt { attempt: a, value: own }),
            _ => (own, Step::Work { attempt: a }),
        };
        attempt.value = value;
        attempt.is_told = matches!(step, Step::Read { .. });
        attempt.is_writing = !attempt.is_told;
        (step, state)
    }

    /// `scripts/accept.lua`, and the client that reads the answer. A value is decided at the acceptance that
    /// completes a quorum, the earliest moment at which a caller could get it.
    fn accept(&self, state: &Registers<N>, a: usize, s: usize) -> Option<Found<N>> {
        let (attempt, server) = (state.attempts[a], state.servers[s]);
        let knows_nothing = server.promised == 0;
        let is_refused = match self.rule {
            Rule::AcceptsBelow => knows_nothing,
            Rule::AcceptsAbove => knows_nothing || server.promised > attempt.token,
            Rule::ForgetsThePromise => server.promised > attempt.token,
            _ => (server.promised, server.owner) != (attempt.token, number(a)),
        };
        if server.letters[a].has_accepted || is_refused {
            return None;
        }
        let mut next = *state;
        next.servers[s].promised = attempt.token.max(server.promised);
        next.servers[s].owner = number(a);
        next.servers[s].accepted = number(a);
        next.servers[s].letters[a].has_accepted = true;
        if self.is_decided(&next, a) || self.rule == Rule::TellsAtOnce {
            next.attempts[a].is_told = true;
        }
        Some((Step::Accept { attempt: a, server: s }, next))
    }

    /// The keys of all servers end, if nothing was accepted.
    fn end(&self, state: &Registers<N>) -> Option<Found<N>> {
        let is_empty = state.servers.iter().all(|server| server.accepted == 0);
        let is_any = state.servers.iter().any(|server| server.promised > 0);
        if !(self.bounds.ends && is_empty && is_any) {
            return None;
        }
        let mut next = *state;
        for (a, attempt) in next.attempts.iter_mut().enumerate() {
            let has_worked = attempt.value > 0;
            if has_worked {
                attempt.is_late = true;
            } else {
                *attempt = Attempt::default();
            }
            for server in &mut next.servers {
                (server.promised, server.owner) = (0, 0);
                server.letters[a] = Letter { has_promised: has_worked, ..Letter::default() };
            }
        }
        Some((Step::End, next))
    }

    /// The breach of a register that is written once.
    fn breach_of_one(&self, state: &Registers<N>) -> Option<&'static str> {
        let told = state.attempts.iter().filter(|attempt| attempt.is_told);
        let mut values = told.map(|attempt| attempt.value);
        if let Some(first) = values.next() {
            if values.any(|value| value != first) {
                return Some("two results are told");
            }
        }
        let all = || state.attempts.iter().enumerate();
        let decided = all().filter(|(a, _)| self.is_decided(state, *a));
        let decided = decided.map(|(_, attempt)| attempt.token).min()?;
        let mut worked =
            all().filter(|(a, attempt)| attempt.value == number(*a) && !attempt.is_late);
        let is_above = worked.any(|(_, attempt)| attempt.token > decided);
        is_above.then_some("an attempt works above the token of a decided result")
    }

    /// The breach of a register that holds the last slot.
    fn breach_of_slots(&self, state: &Registers<N>) -> Option<&'static str> {
        let attempts = state.attempts.iter().enumerate();
        let claims = attempts.filter(|(a, attempt)| attempt.is_told && attempt.value == number(*a));
        let claims: Vec<(u8, u8)> =
            claims.map(|(_, claim)| (self.slot(claim.value), claim.floor)).collect();
        if claims.iter().any(|(slot, floor)| slot <= floor) {
            return Some("a slot is claimed behind a later one");
        }
        let slots = claims.iter().map(|(slot, _)| slot);
        let is_twice =
            slots.clone().any(|slot| slots.clone().filter(|one| *one == slot).count() > 1);
        is_twice.then_some("a slot is claimed twice")
    }
}

fn number(attempt: usize) -> u8 {
    u8::try_from(attempt).expect("attempts are few") + 1
}

impl<const N: usize> Model for Registering<N> {
    type State = Registers<N>;
    type Step = Step;

    fn start(&self) -> Registers<N> {
        Registers { servers: [Server::default(); N], attempts: Default::default() }
    }

    fn steps(&self, state: &Registers<N>, found: &mut Vec<Found<N>>) {
        for (a, attempt) in state.attempts.iter().enumerate().take(self.bounds.attempts) {
            if attempt.token > 0 {
                if attempt.value == 0 {
                    self.choose(state, a, found);
                }
                continue;
            }
            // Attempts that are alike are numbered as they begin.
            let are_alike = self.bounds.slots.is_none() && !self.bounds.repeats;
            let has_worked = state.attempts[0].value == number(0);
            if self.is_repeat(a) && !has_worked {
                continue;
            }
            if a == 0 || state.attempts[a - 1].token > 0 || !are_alike {
                for token in 1..=self.bounds.tokens {
                    let next = self.propose(*state, a, token);
                    found.push((Step::Propose { attempt: a, token }, next));
                }
            }
        }
        found.extend(self.end(state));
        let has_lost = state.servers.iter().filter(|server| server.has_lost).count();
        for (s, server) in state.servers.iter().enumerate() {
            if s > 0 && *server == state.servers[s - 1] {
                continue;
            }
            for (a, attempt) in state.attempts.iter().enumerate().take(self.bounds.attempts) {
                found.extend(self.promise(state, a, s));
                if attempt.is_writing {
                    found.extend(self.accept(state, a, s));
                }
            }
            if server.promised > 0 && (server.has_lost || has_lost < self.bounds.losses) {
                let mut next = *state;
                let forgot = &mut next.servers[s];
                (forgot.promised, forgot.owner, forgot.accepted, forgot.has_lost) = (0, 0, 0, true);
                found.push((Step::Forget(s), next));
            }
        }
    }

    fn canonical(&self, mut state: Registers<N>) -> Registers<N> {
        state.servers.sort_unstable();
        state
    }

    fn breach(&self, state: &Registers<N>) -> Option<&'static str> {
        match self.bounds.slots {
            None => self.breach_of_one(state),
            Some(_) => self.breach_of_slots(state),
        }
    }
}
