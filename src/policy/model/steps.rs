//! The model of a lock that is taken without a script: one lock at one server, of clients with scripts and without.
//!
//! A client without scripts goes step by step, on one connection: it takes the lock, reads the counter, changes it
//! if it is still as read, and asks whether the lock is still its own. Each command arrives with any delay. An attempt
//! may be given up at any step: its commands arrive anyway, and its release, on another connection, before or after
//! them, and any number of times. A client with scripts does all of that at once. The clock that mints tokens shows
//! anything.

use std::fmt;

use super::explore::Model;
use super::tokens::{self, Issued};

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Attempts, each by an owner of its own.
    pub(super) attempts: usize,
    /// Clocks show 1 to this.
    pub(super) clock: u8,
    /// The lock may vanish under a holder: what tokens promise must not rest on exclusion.
    pub(super) is_lost_early: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Proved,
    /// The token is issued once it is minted.
    Unproved,
    /// The counter is written even if it has changed since.
    Overwrites,
    /// A release frees the lock of any owner.
    FreesAnybodys,
    /// The owner takes the lock once more before its proof.
    TakesAgain,
}

const ATTEMPTS_MAX: usize = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// All at once, by a script.
    Whole,
    Take,
    Read,
    Mint,
    /// Only with one of the weaknesses.
    Retake,
    Prove,
    Holding,
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Attempt {
    /// The command that arrives next.
    stage: Stage,
    is_given_up: bool,
    clock: u8,
    read: u8,
    token: u8,
    is_minted: bool,
    is_issued: bool,
    /// The largest token that had been issued when the attempt began.
    floor: u8,
    /// The place of this owner in the order in which the lock was taken.
    taken: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// The lock's owner and its counter, each 0 if absent.
    owner: u8,
    counter: u8,
    attempts: [Attempt; ATTEMPTS_MAX],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Begin { attempt: usize, clock: u8, is_whole: bool },
    Arrive { attempt: usize, stage: Stage },
    GiveUp(usize),
    Release(usize),
    Vanish,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begin { attempt, clock, is_whole } => {
                let how = if is_whole { "by a script" } else { "in steps" };
                write!(f, "attempt {} begins {how}, where clocks show {clock}", attempt + 1)
            }
            Self::Arrive { attempt, stage } => write!(f, "{stage:?} of attempt {}", attempt + 1),
            Self::GiveUp(attempt) => write!(f, "attempt {} is given up", attempt + 1),
            Self::Release(attempt) => write!(f, "a release of attempt {} arrives", attempt + 1),
            Self::Vanish => f.write_str("the lock vanishes"),
        }
    }
}

pub(super) struct Steps {
    pub(super) bounds: Bounds,
    pub(super) rule: Rule,
}

fn owner(number: usize) -> u8 {
    u8::try_from(number).expect("attempts are few") + 1
}

impl Steps {
    fn arrive(&self, server: &Server, number: usize) -> Server {
        let mut next = *server;
        let taken = next.attempts.iter().map(|attempt| attempt.taken).max().unwrap_or(0) + 1;
        let (is_free, is_its) = (next.owner == 0, next.owner == owner(number));
        let Server { owner: holder, counter, attempts } = &mut next;
        let attempt = &mut attempts[number];
        // A command of the same write arrives too; commands that would follow from it are not sent.
        let if_wanted = |stage| if attempt.is_given_up { Stage::Over } else { stage };
        let then = match attempt.stage {
            Stage::Whole | Stage::Take if !is_free => Stage::Over,
            Stage::Whole => {
                (*holder, attempt.taken) = (owner(number), taken);
                attempt.token = attempt.clock.max(*counter + 1);
                *counter = attempt.token;
                if_wanted(Stage::Holding)
            }
            Stage::Take => {
                (*holder, attempt.taken) = (owner(number), taken);
                Stage::Read
            }
            Stage::Read => {
                attempt.read = *counter;
                attempt.token = attempt.clock.max(*counter + 1);
                if_wanted(Stage::Mint)
            }
            Stage::Mint => {
                attempt.is_minted = attempt.read == *counter || self.rule == Rule::Overwrites;
                if attempt.is_minted {
                    *counter = attempt.token;
                }
                match self.rule {
                    Rule::TakesAgain => Stage::Retake,
                    Rule::Unproved if attempt.is_minted => if_wanted(Stage::Holding),
                    _ => Stage::Prove,
                }
            }
            Stage::Retake => {
                if is_free {
                    *holder = owner(number);
                }
                Stage::Prove
            }
            Stage::Prove if !is_its => Stage::Over,
            Stage::Prove if attempt.is_minted => if_wanted(Stage::Holding),
            Stage::Prove => if_wanted(Stage::Read),
            stage => stage,
        };
        attempt.stage = then;
        attempt.is_issued |= then == Stage::Holding;
        next
    }

    fn released(&self, server: &Server, number: usize) -> Server {
        let is_freed = server.owner == owner(number) || self.rule == Rule::FreesAnybodys;
        Server { owner: if is_freed { 0 } else { server.owner }, ..*server }
    }
}

impl Attempt {
    fn issued(&self) -> Option<Issued> {
        let Self { token, floor, taken, .. } = *self;
        self.is_issued.then_some(Issued { token, floor, taken })
    }
}

impl Model for Steps {
    type State = Server;
    type Step = Step;

    fn start(&self) -> Server {
        Server::default()
    }

    fn steps(&self, server: &Server, found: &mut Vec<(Step, Server)>) {
        let issued = server.attempts.iter().filter(|attempt| attempt.is_issued);
        let floor = issued.map(|attempt| attempt.token).max().unwrap_or(0);
        for (number, attempt) in server.attempts[..self.bounds.attempts].iter().enumerate() {
            let Attempt { stage, is_given_up, .. } = *attempt;
            match stage {
                // Attempts are numbered as they begin.
                Stage::Idle if number > 0 && server.attempts[number - 1].stage == Stage::Idle => {}
                Stage::Idle => {
                    for clock in 1..=self.bounds.clock {
                        for is_whole in [true, false] {
                            let stage = if is_whole { Stage::Whole } else { Stage::Take };
                            let begun = Attempt { stage, clock, floor, ..Attempt::default() };
                            let mut next = *server;
                            next.attempts[number] = begun;
                            found.push((Step::Begin { attempt: number, clock, is_whole }, next));
                        }
                    }
                }
                Stage::Holding | Stage::Over => {}
                stage => {
                    let next = self.arrive(server, number);
                    found.push((Step::Arrive { attempt: number, stage }, next));
                }
            }
            if stage != Stage::Idle && !is_given_up {
                let mut next = *server;
                next.attempts[number].is_given_up = true;
                if stage == Stage::Holding {
                    next.attempts[number].stage = Stage::Over;
                }
                found.push((Step::GiveUp(number), next));
            }
            if is_given_up {
                found.push((Step::Release(number), self.released(server, number)));
            }
        }
        let holds = server.owner > 0
            && server.attempts[usize::from(server.owner) - 1].stage == Stage::Holding;
        if server.owner > 0 && (self.bounds.is_lost_early || !holds) {
            found.push((Step::Vanish, Server { owner: 0, ..*server }));
        }
    }

    /// The readings of an attempt that is over no longer matter; its token does.
    fn canonical(&self, mut server: Server) -> Server {
        for attempt in &mut server.attempts {
            if matches!(attempt.stage, Stage::Holding | Stage::Over) {
                (attempt.clock, attempt.read, attempt.is_minted) = (0, 0, false);
                if !attempt.is_issued {
                    (attempt.token, attempt.floor) = (0, 0);
                }
            }
        }
        server
    }

    fn breach(&self, server: &Server) -> Option<&'static str> {
        let holding = server.attempts.iter().filter(|attempt| attempt.stage == Stage::Holding);
        if !self.bounds.is_lost_early && holding.count() > 1 {
            return Some("two attempts hold the lock at once");
        }
        tokens::breach(&server.attempts.iter().filter_map(Attempt::issued))
    }
}
