//! The state of the search of turns: servers, processes and messages.

use std::fmt;

pub(super) const SERVERS: usize = 3;
pub(super) const PROCESSES: usize = 3;
/// Room for entries: a process whose release was lost may leave one.
pub(super) const ENTRIES: usize = PROCESSES + 2;
/// The server with the queue.
pub(super) const LEADER: usize = 0;
/// The server that may answer nothing.
pub(super) const SILENT: usize = 2;
/// Messages under way from one process to one server.
pub(super) const ROOM: usize = 3;
/// More owners than a process needs: those of process `p` begin behind `p * OWNERS`.
pub(super) const OWNERS: u8 = 32;
/// An owner; 0 for none.
pub(super) type Owner = u8;

/// How far an exploration goes, and what may fail how often.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Bounds {
    pub(in super::super) processes: usize,
    pub(in super::super) quorum: usize,
    /// Turns and votes of one process.
    pub(in super::super) owners: u8,
    /// How often the owner of a vote under a turn asks all servers again.
    pub(in super::super) again: u8,
    /// Whether a process may also ask all servers without a turn.
    pub(in super::super) newcomers: bool,
    /// Whether one server answers nothing.
    pub(in super::super) is_silent: bool,
    /// Whether from every state a waiter has to get the lock in the end.
    pub(in super::super) is_live: bool,
    pub(in super::super) faults: Faults,
}

/// The faults that may still come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in super::super) struct Faults {
    pub(in super::super) crashes: u8,
    pub(in super::super) expiries: u8,
    /// Messages that are lost.
    pub(in super::super) losses: u8,
    /// Servers that forget everything.
    pub(in super::super) memories: u8,
}

/// A rule that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Weakness {
    None,
    /// A turn at the leader counts as the lock.
    TurnIsTheLock,
    /// A vote finds each turn as good as free, not only its own.
    AnyTurnIsFree,
    /// A vote does not name its turn, as `SET NX` cannot.
    VotesWithoutTheTurn,
    TurnIsNotGivenBack,
    /// The release of a turn frees the leader's lock, even if another owner has it.
    TurnFreesTheLock,
    /// All votes under one turn have the same owner.
    VotesAgainAsTheSame,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Message {
    #[default]
    Nothing,
    Enter(Owner),
    Vote {
        owner: Owner,
        turn: Owner,
    },
    Release(Owner),
}

/// Messages under way from one process to one server, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lane(pub(super) [Message; ROOM]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Idle,
    Queued,
    HasTurn,
    Voting,
    Holding,
    Dead,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) phase: Phase,
    /// Owners that the process has had.
    pub(super) owners: u8,
    pub(super) turn: Owner,
    /// The leader has had its lock for the turn: the process learns that by a push or an answer.
    pub(super) is_called: bool,
    pub(super) vote: Owner,
    /// Servers that have granted the vote: bits.
    pub(super) granted: u8,
    /// How often the vote's owner may ask all servers again.
    pub(super) again: u8,
    /// A key of the vote has expired, so its lease would be over.
    pub(super) is_late: bool,
    pub(super) lanes: [Lane; SERVERS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in super::super) struct World {
    pub(super) locks: [Owner; SERVERS],
    pub(super) queue: [Owner; ENTRIES],
    pub(super) processes: [Process; PROCESSES],
    pub(super) faults: Faults,
    pub(super) is_robbed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Step {
    Expires(usize),
    Forgets(usize),
    Of(usize, Deed),
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Deed {
    Enters,
    HearsOfItsTurn,
    TakesItsTurn,
    Votes,
    Wins,
    VotesAgain,
    GivesUp,
    Leaves,
    Releases,
    Crashes,
    Arrives(usize),
    Loses(usize),
}

impl Lane {
    pub(super) fn first(self) -> Message {
        self.0[0]
    }

    pub(super) fn is_full(self) -> bool {
        self.0[ROOM - 1] != Message::Nothing
    }

    pub(super) fn push(&mut self, message: Message) {
        let end = self.0.iter().position(|it| *it == Message::Nothing).expect("there is room");
        self.0[end] = message;
    }

    pub(super) fn pop(&mut self) -> Message {
        let first = std::mem::take(&mut self.0[0]);
        self.0.rotate_left(1);
        first
    }
}

impl Process {
    pub(super) fn fresh(&mut self, number: usize) -> Owner {
        self.owners += 1;
        u8::try_from(number).expect("few") * OWNERS + self.owners
    }

    pub(super) fn waits(&self) -> bool {
        matches!(self.phase, Phase::Queued | Phase::HasTurn | Phase::Voting) && self.turn != 0
    }

    pub(super) fn has_room(&self) -> bool {
        !self.lanes.iter().any(|lane| lane.is_full())
    }
}

impl World {
    pub(super) fn leave_queue(&mut self, owner: Owner) {
        if let Some(place) = self.queue.iter().position(|it| *it == owner) {
            self.queue[place] = 0;
            self.queue[place..].rotate_left(1);
        }
    }

    /// The leader keeps its lock for this turn.
    pub(super) fn call(&mut self, turn: Owner) {
        self.leave_queue(turn);
        self.locks[LEADER] = turn;
        let process = &mut self.processes[usize::from(turn / OWNERS)];
        process.is_called |= process.turn == turn;
    }

    pub(super) fn is_turn(&self, owner: Owner) -> bool {
        owner != 0 && self.processes.iter().any(|process| process.turn == owner)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expires(server) => write!(f, "server {server}: a key expires"),
            Self::Forgets(server) => write!(f, "server {server}: forgets everything"),
            Self::Of(process, Deed::Arrives(server)) => {
                write!(f, "process {process}: a message arrives at server {server}")
            }
            Self::Of(process, Deed::Loses(server)) => {
                write!(f, "process {process}: a message to server {server} is lost")
            }
            Self::Of(process, deed) => write!(f, "process {process}: {deed:?}"),
        }
    }
}
