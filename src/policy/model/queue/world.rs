//! The state of the search of hand-over: processes, messages, and faults that may still come.

use std::fmt;
use std::time::Duration;

use super::super::super::{Moment, Term};
use super::keys::{Owner, PROCESSES, Server};

/// Maximum commands, answers or pushes of one process under way.
pub(super) const UNDER_WAY: usize = 3;
/// How far an exploration goes, and what may fail how often.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Bounds {
    pub(in super::super) processes: usize,
    pub(in super::super) attempts: u8,
    pub(in super::super) tick: Duration,
    /// TTLs in ticks, of each process.
    pub(in super::super) ttl: [u8; PROCESSES],
    /// Commands of one process under way beside its first.
    pub(in super::super) questions: usize,
    /// Ticks after an answer in which a waiter asks nothing.
    pub(in super::super) rests: u8,
    /// Whether a process tries to take the lock before it enters the queue.
    pub(in super::super) newcomers: bool,
    pub(in super::super) extensions: bool,
    /// Whether a holder may hand on to another owner of its process, however many wait.
    pub(in super::super) relays: bool,
    /// Whether every state has to let the waiters have the lock in the end.
    pub(in super::super) is_live: bool,
    /// Whether nobody may overtake a waiter in the queue.
    pub(in super::super) is_fair: bool,
    pub(in super::super) faults: Faults,
}

/// The faults that may still come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in super::super) struct Faults {
    /// Commands, answers and pushes that are lost.
    pub(in super::super) losses: u8,
    pub(in super::super) crashes: u8,
    pub(in super::super) cancels: u8,
    /// Subscriptions that end, with what is under way on them.
    pub(in super::super) drops: u8,
    /// Times that a foreign client takes a free lock.
    pub(in super::super) foreign: u8,
    /// Times that the counter is lost.
    pub(in super::super) counters: u8,
    /// Commands that arrive from a connection that has ended, at any later time.
    pub(in super::super) strays: u8,
    /// Restarts without memory, with the restart quarantine.
    pub(in super::super) restarts: u8,
    /// Dead waiters' entries that are put before all others.
    pub(in super::super) dead: u8,
    /// Pushes by a user that may read the queue and publish, with a token that no server minted.
    pub(in super::super) forgeries: u8,
}

/// A rule that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Weakness {
    None,
    CountsFromThePush,
    CountsFromAnUnansweredQuestion,
    AnyTokenIsPushed,
    HandsOverWithoutMinting,
    LostCounterGoesOn,
    PushWithoutOwner,
    YoursWithoutRearming,
    HeartbeatQueuesAgain,
    /// Replicas and other nodes of a Cluster deliver a message that by the server's own count nobody got.
    TellsWhomItPassesOver,
    EntriesNeverExpire,
    BeatsDoNotTake,
    NewcomerOvertakes,
    NoGuard,
    /// A take-over finds each lock as good as free, not its predecessor's alone.
    TakesOverFromAnybody,
    TakesOverWithoutMinting,
    /// A release that came to the bound of its work frees the lock.
    BoundEndsTheSearch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Ask {
    Take,
    Enqueue,
    Beat,
    Leave,
    Extend,
    /// Takes the lock over from the owner before, of the same process.
    TakeOver,
}

/// A command or an answer under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Mail {
    pub(super) what: u8,
    pub(super) owner: Owner,
    /// Ticks since the command was sent.
    pub(super) age: u8,
    pub(super) token: u8,
}

/// Messages under way, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Mails {
    pub(super) mails: [Mail; UNDER_WAY],
    pub(super) len: u8,
}

impl Mails {
    pub(super) fn push(&mut self, mail: Mail) {
        self.mails[usize::from(self.len)] = mail;
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Mail {
        let first = self.mails[0];
        self.mails.copy_within(1.., 0);
        self.mails[UNDER_WAY - 1] = Mail::default();
        self.len -= 1;
        first
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == UNDER_WAY
    }

    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Mail> {
        self.mails.iter_mut().take(usize::from(self.len))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// See [`WaiterState`].
    Asking,
    Waiting {
        since: u8,
    },
    /// The process hands on to this owner of its own.
    TakingOver,
    Holding {
        since: u8,
    },
    Done,
    Dead,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) phase: Phase,
    pub(super) attempts: u8,
    pub(super) owner: Owner,
    /// Its owner's release is for the owner before, too.
    pub(super) succeeds: bool,
    pub(super) is_subscribed: bool,
    pub(super) is_first: bool,
    /// Ticks since the last command was sent, for a weakness alone.
    pub(super) asked: u8,
    pub(super) questions: Mails,
    pub(super) answers: Mails,
    pub(super) pushes: Mails,
    pub(super) stray: Mail,
    /// The waiters that the server had in the queue before it: bits.
    pub(super) behind: u8,
    pub(super) is_queued: bool,
    /// The process held when the server lost its memory.
    pub(super) is_keyless: bool,
}

impl Process {
    pub(super) fn waits(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Waiting { .. })
    }

    pub(super) fn holds(&self) -> bool {
        matches!(self.phase, Phase::Holding { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct World {
    pub(super) server: Server,
    pub(super) processes: [Process; PROCESSES],
    /// The largest token that a holder has had.
    pub(super) issued: u8,
    pub(super) faults: Faults,
    pub(super) breach: Option<Breach>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Breach {
    Token,
    Order,
    Idle,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Event {
    Tick,
    Expires,
    ForeignTakes,
    ForeignReleases,
    CounterLost,
    Restarts,
    DeadStandFirst,
    Of(usize, Deed),
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Deed {
    Starts,
    Beats,
    Cancels,
    Crashes,
    Releases,
    Extends,
    HandsOn,
    GivesUp,
    QuestionArrives,
    QuestionLost,
    QuestionStrays,
    StrayArrives,
    AnswerRead,
    AnswerLost,
    PushForged,
    PushRead,
    PushLost,
    SubscriptionEnds,
    Subscribes,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(process, deed) => write!(f, "process {process}: {deed:?}"),
            event => write!(f, "{event:?}"),
        }
    }
}

pub(in super::super) struct Queues {
    pub(in super::super) bounds: Bounds,
    pub(in super::super) weakness: Weakness,
    pub(super) terms: [Term; PROCESSES],
    /// How far the server's clock may run ahead within a TTL, in ticks.
    pub(super) drift: u8,
}

impl Queues {
    pub(in super::super) fn new(bounds: Bounds, weakness: Weakness) -> Self {
        let term = |ttl: u8| Term::new(bounds.tick * u32::from(ttl), Some(Duration::ZERO));
        let terms = bounds.ttl.map(|ttl| term(ttl).expect("the bounds are terms"));
        let begin = Moment::from_nanos(0);
        let drift = |term: &Term| term.ttl() - term.deadline(begin).since(begin);
        let drift = terms.iter().map(drift).min().expect("there are processes");
        let drift = u8::try_from(drift.as_nanos() / bounds.tick.as_nanos());
        Self { bounds, weakness, terms, drift: drift.expect("drift is small") }
    }

    pub(super) fn is(&self, weakness: Weakness) -> bool {
        self.weakness == weakness
    }

    pub(super) fn process_of(&self, owner: Owner) -> usize {
        usize::from((owner - 1) / self.bounds.attempts)
    }

    pub(super) fn ttl(&self, process: usize) -> u8 {
        self.bounds.ttl[process]
    }

    /// A moment some ticks ago, and now.
    pub(super) fn moments(&self, age: u8) -> (Moment, Moment) {
        let begin = Moment::from_nanos(0);
        (begin, begin.after(self.bounds.tick * u32::from(age)))
    }

    /// Whether a lease that counts from `age` ticks ago is over.
    pub(super) fn is_over(&self, process: usize, age: u8) -> bool {
        let (from, now) = self.moments(age);
        now >= self.terms[process].deadline(from)
    }

    /// A process that enters the queue is behind all that are in it.
    pub(super) fn note_queued(&self, world: &mut World, process: usize, owner: Owner) {
        let it = &world.processes[process];
        if !self.bounds.is_fair || it.is_queued || it.owner != owner || !it.waits() {
            return;
        }
        let others = world.processes.iter().enumerate().filter(|(_, other)| other.is_queued);
        let behind = others.fold(0, |bits, (other, _)| bits | 1 << other);
        let it = &mut world.processes[process];
        (it.behind, it.is_queued) = (behind, true);
    }

    pub(super) fn note_granted(&self, world: &mut World, process: usize, owner: Owner) {
        if !self.bounds.is_fair {
            return;
        }
        world.note_lost_places(process);
        let it = &world.processes[process];
        let others = world.processes.iter().any(|other| other.is_queued);
        if it.owner == owner && (it.is_queued && it.behind != 0 || !it.is_queued && others) {
            world.breach = Some(Breach::Order);
        }
        world.leaves_queue(process);
    }
}

impl World {
    /// A waiter that is late with a command, or misses a push, loses its place, as documented.
    pub(super) fn note_lost_places(&mut self, but: usize) {
        for number in (0..PROCESSES).filter(|number| *number != but) {
            let process = &self.processes[number];
            if process.is_queued && !self.server.queues(process.owner) {
                self.leaves_queue(number);
            }
        }
    }

    pub(super) fn leaves_queue(&mut self, process: usize) {
        let it = &mut self.processes[process];
        (it.is_queued, it.behind) = (false, 0);
        self.processes.iter_mut().for_each(|other| other.behind &= !(1 << process));
    }
}
