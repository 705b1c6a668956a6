//! The state of the model of exclusion: servers, messages under way to them, and two clients.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::redis::Keys;

/// Two clients with up to three attempts each: attempts 0 to 2 are A's, 3 to 5 are B's.
pub(super) const CLIENTS: usize = 2;
pub(super) const EACH: usize = 3;
const ATTEMPTS: usize = CLIENTS * EACH;

/// Where one message of a lease to one server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mail {
    /// Never sent.
    #[default]
    None,
    /// On the lease's connection, behind what was sent on it before. It may never arrive.
    Sent,
    /// On a connection that has ended for the client: it may still arrive, in any order, and its
    /// reply is never read.
    Stray,
    /// It was carried out, and the reply may be read at any time from now on, or never.
    Yes,
    /// It was refused, or its reply no longer matters.
    Over,
}

impl Mail {
    pub(super) fn is_under_way(self) -> bool {
        matches!(self, Self::Sent | Self::Stray)
    }
}

/// The messages of one attempt to one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) acquire: Mail,
    pub(super) extend: Mail,
    pub(super) release: Mail,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) keys: Keys,
    /// The attempt that set the lock, which the checker knows, and a server does not.
    pub(super) set_by: u8,
    /// Ticks since it restarted without memory; the TTL stands for "as long, or never".
    pub(super) up_for: u8,
    /// The server lost memory in a way that counts against k.
    pub(super) forgot: bool,
    pub(super) lanes: [Lane; ATTEMPTS],
}

impl Server {
    /// The whole server in one number, to sort and to hash by, which take most of an exploration's
    /// time.
    pub(super) fn code(&self) -> u64 {
        // The counter has no part in this model.
        let Keys { owner, left, counter: _ } = self.keys;
        let mut code = u64::from(self.forgot);
        for small in [owner, left, self.set_by, self.up_for] {
            code = code << 4 | u64::from(small);
        }
        for lane in &self.lanes {
            // Five kinds of mail, three times in each of six lanes: 42 bits.
            let lane = (lane.acquire as u64 * 5 + lane.extend as u64) * 5 + lane.release as u64;
            code = code * 125 + lane;
        }
        code
    }
}

impl Hash for Server {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.code());
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Idle,
    Asking,
    Holding,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// How many attempts the client began; the last of them is the current one.
    pub(super) attempts: u8,
    /// Ticks since T1 of the present round.
    pub(super) asked: u8,
    /// Ticks since T1 of the round from which its deadline counts.
    pub(super) since: u8,
    pub(super) is_extending: bool,
    pub(super) extensions: u8,
    /// The other client was granted the lock after this one was.
    pub(super) is_overtaken: bool,
    /// A bit for each of its attempts that took the lock over from the one before it.
    pub(super) heirs: u8,
    /// For a mutant: the age of T1 of the lease that was handed over.
    pub(super) elder: Option<u8>,
}

impl Client {
    pub(super) fn is_heir(&self, attempt: usize) -> bool {
        self.heirs >> (attempt % EACH) & 1 == 1
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct World<const N: usize> {
    pub(super) servers: [Server; N],
    pub(super) clients: [Client; CLIENTS],
    pub(super) wrong: Option<Wrong>,
}

/// The properties that a single step can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wrong {
    ForeignRelease,
    ForeignExtend,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Acquire,
    Extend,
    Release,
}

/// A possible next step. Numbers count from 0, and are printed from 1.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Ask(usize),
    HandOver(usize),
    Win(usize),
    End(usize),
    Extend(usize),
    Extended(usize),
    Arrive { message: Message, attempt: usize, server: usize },
    Disconnect { attempt: usize, server: usize },
    Expire(usize),
    Forget(usize),
    Restart(usize),
    ClockJump(usize),
    Tick,
}

pub(super) fn name(client: usize) -> char {
    if client == 0 { 'A' } else { 'B' }
}

/// The client's letter, and the number of its attempt.
pub(super) fn attempt_name(attempt: usize) -> String {
    format!("{}{}", name(attempt / EACH), attempt % EACH + 1)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ask(client) => write!(f, "{} begins an attempt: asks every server", name(client)),
            Self::HandOver(client) => {
                write!(f, "{} hands over: its next attempt asks every server", name(client))
            }
            Self::Win(client) => write!(f, "{} has read q grants: it holds the lock", name(client)),
            Self::End(client) => {
                write!(f, "{} ends its attempt: sends releases everywhere", name(client))
            }
            Self::Extend(client) => write!(f, "{} asks every server to extend", name(client)),
            Self::Extended(client) => write!(f, "{} counts its lease as extended", name(client)),
            Self::Arrive { message, attempt, server } => {
                let word = match message {
                    Message::Acquire => "acquire",
                    Message::Extend => "extend",
                    Message::Release => "release",
                };
                write!(f, "server {}: {word} of {} arrives", server + 1, attempt_name(attempt))
            }
            Self::Disconnect { attempt, server } => {
                write!(f, "server {}: the connection of {} ends", server + 1, attempt_name(attempt))
            }
            Self::Expire(server) => {
                write!(f, "server {}: the lock expires, by a clock within the drift", server + 1)
            }
            Self::Forget(server) => write!(f, "server {}: forgets the lock", server + 1),
            Self::Restart(server) => write!(f, "server {}: restarts without memory", server + 1),
            Self::ClockJump(server) => {
                write!(f, "server {}: its wall clock is stepped forward", server + 1)
            }
            Self::Tick => write!(f, "one tick passes"),
        }
    }
}
