//! The model of tokens that are drawn: one server's counter, and two clients that take the lock one
//! after the other or at once, by the script or by drawing (`lock/direct.rs`).
//!
//! A lock vanishes whenever that helps the adversary, so nothing here leans on exclusion. Time goes in
//! half days. The adversary loses the counter, has the server begin again with an older one, which ends
//! all connections, or has it demoted and promoted with an older one, which ends none and takes a second,
//! lets the server's clock be ahead for a while, has the other client steal the lock between the `SET` and the
//! `INCRBY` of a draw, and stops an attempt anywhere: one that has drawn and never asks the script is one that
//! crashed, or was refused.

use std::fmt;

use super::super::Ballot;
use super::explore::Model;

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// How many times the counter is lost.
    pub(super) losses: u8,
    /// How many times the server begins again with an older counter.
    pub(super) restores: u8,
    /// How many times the server is demoted and promoted, with an older counter.
    pub(super) demotions: u8,
    /// How many times a lock is stolen from one that draws.
    pub(super) steals: u8,
    /// How far the server's clock is ahead at first.
    pub(super) ahead: u8,
    /// How far the second client's clock is off, whatever the first one's says.
    pub(super) second_off: i16,
    /// Half days in all.
    pub(super) length: u8,
    /// The lock is used at least once a day.
    pub(super) is_used_daily: bool,
    /// Attempts of all clients.
    pub(super) attempts: u8,
    /// One or two.
    pub(super) clients: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Sound,
    /// A number is a token, however small.
    BelievesAny,
    /// A counter that is ahead of the drawer's clock is drawn from.
    BelievesAhead,
    /// A name is drawn for though the connection is another than the script was asked on.
    DrawsAnywhere,
    /// The right to draw does not lapse.
    DrawsAnyTime,
    /// Nothing proves that the lock was the owner's when the number was drawn.
    DrawsWithoutProof,
}

const CLIENTS: usize = 2;
/// In microseconds.
const HALF_DAY: u64 = 12 * 3600 * 1_000_000;
const SECOND: u64 = 1_000_000;
/// No two attempts ask the script at one moment.
const MOMENT: u64 = 100;
/// When it begins.
const EPOCH: u64 = 1_763_800_000_000_000;
/// How long a counter lasts that a script has set, in half days.
const LASTS: u8 = 14;
const DAY: u8 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Stage {
    #[default]
    Idle,
    Draws,
    /// Its `SET` has let it in, and its number is not drawn yet.
    Taken,
    AsksTheScript,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Client {
    stage: Stage,
    /// The script has accepted a token of it on its connection, less than a second ago.
    is_seeded: bool,
    /// The token with which the lock was stolen that it has taken; 0 where it was not.
    stolen_with: u64,
    /// The largest token that had been issued when its attempt began.
    floor: u64,
    /// The last that it was issued.
    token: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Counter {
    /// 0 where there is none.
    number: u64,
    /// The half days that it lasts; 0 for ever.
    lasts: u8,
    /// What a server that begins again has.
    saved: u64,
    clients: [Client; CLIENTS],
    largest: u64,
    time: u8,
    ahead: u8,
    idle: u8,
    losses: u8,
    restores: u8,
    demotions: u8,
    steals: u8,
    attempts: u8,
    moments: u8,
    breach: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Begin(usize),
    Take(usize),
    Steal { client: usize, token: u64 },
    Draw { client: usize, token: u64, is_let_in: bool },
    Script { client: usize, token: u64 },
    Stop(usize),
    Save,
    Lose,
    Restore,
    Demote,
    ClockIsSetRight,
    HalfADay,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begin(client) => write!(f, "client {} begins", client + 1),
            Self::Take(client) => write!(f, "client {} sets the lock", client + 1),
            Self::Steal { client, token } => {
                write!(f, "client {} steals the lock with {token}", client + 1)
            }
            Self::Draw { client, token, is_let_in } => {
                let outcome = if is_let_in { "is let in" } else { "is refused" };
                write!(f, "client {} draws {token} and {outcome}", client + 1)
            }
            Self::Script { client, token } => {
                write!(f, "the script accepts {token} of client {}", client + 1)
            }
            Self::Stop(client) => write!(f, "client {} crashes and begins anew", client + 1),
            Self::Save => f.write_str("the server saves what it has"),
            Self::Lose => f.write_str("the counter is lost"),
            Self::Restore => f.write_str("the server begins anew with what it saved"),
            Self::Demote => f.write_str("the server is demoted, and promoted with what was saved"),
            Self::ClockIsSetRight => f.write_str("the server's clock is set right"),
            Self::HalfADay => f.write_str("half a day passes"),
        }
    }
}

pub(super) struct Drawing {
    bounds: Bounds,
    rule: Rule,
}

impl Drawing {
    pub(super) fn new(bounds: Bounds, rule: Rule) -> Self {
        Self { bounds, rule }
    }

    fn ballot(&self, state: &Counter, client: usize) -> Ballot {
        let right = state.wall();
        let off = if client == 0 { 0 } else { i64::from(self.bounds.second_off) };
        let half_day = i64::try_from(HALF_DAY).expect("it is short");
        Ballot::new(right.saturating_add_signed(off * half_day))
    }

    fn believes(&self, state: &Counter, client: usize, token: u64) -> bool {
        let ballot = self.ballot(state, client);
        match self.rule {
            Rule::BelievesAny => true,
            Rule::BelievesAhead if token > ballot.proposal() => true,
            _ => ballot.believes(token),
        }
    }

    /// `INCRBY fence 1`, behind a `SET` that lets it in or not.
    fn draw(&self, state: &Counter, client: usize, is_let_in: bool) -> (Step, Counter) {
        let mut next = *state;
        next.number += 1;
        let token = next.number;
        let Client { is_seeded, stolen_with, .. } = state.clients[client];
        let is_proved = stolen_with == 0 || self.rule == Rule::DrawsWithoutProof;
        if is_let_in && is_proved && is_seeded && self.believes(state, client, token) {
            next.issue(client, token);
        } else {
            let stage = if is_let_in { Stage::AsksTheScript } else { Stage::Idle };
            next.clients[client] = Client { stage, stolen_with: 0, ..next.clients[client] };
        }
        (Step::Draw { client, token, is_let_in }, next)
    }

    /// `scripts/acquire.lua` in mode 'mint'.
    fn script(&self, state: &Counter, client: usize) -> (Step, Counter) {
        let (token, mut next) = self.mint(state, client);
        next.clients[client].is_seeded = true;
        (Step::Script { client, token }, next)
    }

    /// `scripts/seize.lua`, by a client that begins with it.
    fn steal(&self, state: &Counter, client: usize) -> (Step, Counter) {
        let mut begun = *state;
        begun.clients[client].floor = state.largest;
        let (token, mut next) = self.mint(&begun, client);
        (next.steals, next.attempts) = (next.steals + 1, next.attempts + 1);
        for victim in next.clients.iter_mut().filter(|victim| victim.stage == Stage::Taken) {
            victim.stolen_with = token;
        }
        (Step::Steal { client, token }, next)
    }

    /// The rule that mints in scripts.
    fn mint(&self, state: &Counter, client: usize) -> (u64, Counter) {
        let mut next = *state;
        next.moments += 1;
        let now = state.wall() + u64::from(state.ahead) * HALF_DAY;
        let mut token = self.ballot(state, client).proposal();
        if token > state.number + SECOND && token.abs_diff(now) > SECOND {
            token = now;
        }
        token = token.max(state.number + 1);
        (next.number, next.lasts) = (token, LASTS);
        next.issue(client, token);
        (token, next)
    }

    fn restore(&self, state: &Counter) -> Counter {
        let mut next = *state;
        next.number = state.saved;
        next.restores += 1;
        for client in &mut next.clients {
            client.stage = Stage::Idle;
            client.is_seeded &= self.rule == Rule::DrawsAnywhere;
        }
        next
    }
}

impl Drawing {
    /// No connection ends, and all rights lapse.
    fn demote(&self, state: &Counter) -> Counter {
        let mut next = *state;
        next.number = state.saved;
        next.demotions += 1;
        for client in &mut next.clients {
            client.is_seeded &= self.rule == Rule::DrawsAnyTime;
        }
        next
    }
}

impl Counter {
    /// A clock that is right.
    fn wall(&self) -> u64 {
        EPOCH + u64::from(self.time) * HALF_DAY + u64::from(self.moments) * MOMENT
    }

    fn issue(&mut self, client: usize, token: u64) {
        let taker = self.clients[client];
        if token <= taker.floor {
            self.breach = Some("a token is not above one that was issued before it was asked for");
        } else if self.clients.iter().any(|other| other.token == token) || token == self.largest {
            self.breach = Some("a token is issued twice");
        } else if taker.stolen_with > 0 && token > taker.stolen_with {
            self.breach = Some("a thief's token is smaller than its victim's");
        }
        self.clients[client] = Client { stage: Stage::Idle, token, stolen_with: 0, ..taker };
        self.largest = self.largest.max(token);
        self.idle = 0;
    }

    fn half_a_day(mut self) -> Self {
        self.time += 1;
        self.idle += 1;
        if self.number > 0 && self.lasts > 0 {
            self.lasts -= 1;
            if self.lasts == 0 {
                self.number = 0;
            }
        }
        self
    }
}

impl Model for Drawing {
    type State = Counter;
    type Step = Step;

    fn start(&self) -> Counter {
        Counter {
            number: 0,
            lasts: 0,
            saved: 0,
            clients: [Client::default(); CLIENTS],
            largest: 0,
            time: 0,
            ahead: self.bounds.ahead,
            idle: 0,
            losses: 0,
            restores: 0,
            demotions: 0,
            steals: 0,
            attempts: 0,
            moments: 0,
            breach: None,
        }
    }

    fn steps(&self, state: &Counter, found: &mut Vec<(Step, Counter)>) {
        for (client, taker) in state.clients.iter().enumerate().take(self.bounds.clients) {
            let mut next = *state;
            match taker.stage {
                Stage::Idle if state.attempts == self.bounds.attempts => {}
                Stage::Idle => {
                    next.attempts += 1;
                    next.moments += 1;
                    let stage = if taker.is_seeded { Stage::Draws } else { Stage::AsksTheScript };
                    next.clients[client] = Client { stage, floor: state.largest, ..*taker };
                    found.push((Step::Begin(client), next));
                    let is_drawing = |other: &Client| other.stage == Stage::Taken;
                    if state.steals < self.bounds.steals && state.clients.iter().any(is_drawing) {
                        found.push(self.steal(state, client));
                    }
                }
                Stage::Draws => {
                    next.clients[client].stage = Stage::Taken;
                    found.push((Step::Take(client), next));
                    found.push(self.draw(state, client, false));
                }
                Stage::Taken => found.push(self.draw(state, client, true)),
                Stage::AsksTheScript => {
                    found.push(self.script(state, client));
                    next.clients[client] =
                        Client { stage: Stage::Idle, is_seeded: false, ..*taker };
                    found.push((Step::Stop(client), next));
                }
            }
        }
        if state.number > 0 && state.losses < self.bounds.losses {
            let lost = Counter { number: 0, lasts: 0, losses: state.losses + 1, ..*state };
            found.push((Step::Lose, lost));
        }
        let may_restore = state.restores < self.bounds.restores;
        let may_demote = state.demotions < self.bounds.demotions;
        if (may_restore || may_demote) && state.saved != state.number {
            found.push((Step::Save, Counter { saved: state.number, ..*state }));
        }
        if may_restore {
            found.push((Step::Restore, self.restore(state)));
        }
        if may_demote {
            found.push((Step::Demote, self.demote(state)));
        }
        if state.ahead > 0 {
            found.push((Step::ClockIsSetRight, Counter { ahead: 0, ..*state }));
        }
        let may_wait = !self.bounds.is_used_daily || state.idle < DAY;
        if state.time < self.bounds.length && may_wait {
            found.push((Step::HalfADay, state.half_a_day()));
        }
    }

    fn canonical(&self, state: Counter) -> Counter {
        state
    }

    fn breach(&self, state: &Counter) -> Option<&'static str> {
        state.breach
    }
}
