//! The model of turns: processes that wait for one lock of several servers, of which the leader has the queue.
//!
//! The leader keeps its own lock for the owner whose turn it is, the *turn*. Another owner of the same process,
//! the *vote*, then asks all servers, and names the turn, which it finds as good as free. Real is [`Quorum`];
//! the scripts are copied by hand. There is no clock: a key may expire at any moment, unless its process holds
//! the lock by it; a vote whose key has expired comes too late to hold. So this searches the order of
//! messages and steps, and not how a lease counts, which `lease` and `queue` search.

use super::super::{Quorum, Verdict};
use super::explore::Model;
use world::{
    Deed, ENTRIES, LEADER, Message, OWNERS, Owner, Phase, Process, SERVERS, SILENT, Step, World,
};

mod world;

pub(super) use world::{Bounds, Faults, Weakness};

pub(super) const BOTH: &str = "two processes hold the lock at once";
pub(super) const ROBBED: &str = "a turn is taken from the process whose it is";
pub(super) const STUCK: &str = "no waiter has the lock, though nothing fails";

/// Rounds within which a waiter has to get the lock once nothing fails any more.
const PATIENCE: usize = 6;

pub(super) struct Turns {
    pub(super) bounds: Bounds,
    pub(super) weakness: Weakness,
}

impl Turns {
    fn is(&self, weakness: Weakness) -> bool {
        self.weakness == weakness
    }

    fn send(&self, process: &mut Process, server: usize, message: Message) {
        if !(self.bounds.is_silent && server == SILENT) {
            process.lanes[server].push(message);
        }
    }

    fn send_all(&self, process: &mut Process, message: Message) {
        (0..SERVERS).for_each(|server| self.send(process, server, message));
    }

    /// A server carries out a message.
    fn carry_out(&self, world: &mut World, number: usize, server: usize, message: Message) {
        let lock = world.locks[server];
        match message {
            Message::Nothing => {}
            Message::Enter(turn) => {
                let Some(end) = world.queue.iter().position(|it| *it == 0) else { return };
                world.queue[end] = turn;
                if lock == 0 && end == 0 {
                    world.call(turn);
                }
            }
            Message::Vote { owner, turn } => {
                let is_own = lock == 0 || lock == owner || lock == turn;
                let is_robbed = !is_own && self.is(Weakness::AnyTurnIsFree) && world.is_turn(lock);
                world.is_robbed |= is_robbed;
                if is_own || is_robbed {
                    world.locks[server] = owner;
                    let process = &mut world.processes[number];
                    process.granted |= u8::from(process.vote == owner) << server;
                }
            }
            Message::Release(owner) => {
                let process = &world.processes[number];
                let frees_any = self.is(Weakness::TurnFreesTheLock)
                    && server == LEADER
                    && owner != process.vote;
                if server == LEADER {
                    world.leave_queue(owner);
                }
                if lock == owner || frees_any {
                    world.locks[server] = 0;
                    if server == LEADER && world.queue[0] != 0 {
                        world.call(world.queue[0]);
                    }
                }
            }
        }
    }

    fn arrive(&self, world: &mut World, number: usize, server: usize) {
        let message = world.processes[number].lanes[server].pop();
        self.carry_out(world, number, server, message);
    }

    fn vote(&self, process: &mut Process, number: usize) {
        if process.vote == 0 || !self.is(Weakness::VotesAgainAsTheSame) {
            process.vote = process.fresh(number);
        }
        process.again = self.bounds.again;
        process.phase = Phase::Voting;
        self.ask_all(process);
    }

    /// The process asks all servers: from now on its vote counts.
    fn ask_all(&self, process: &mut Process) {
        (process.granted, process.is_late) = (0, false);
        let turn = if self.is(Weakness::VotesWithoutTheTurn) { 0 } else { process.turn };
        self.send_all(process, Message::Vote { owner: process.vote, turn });
    }

    fn give_back_turn(&self, process: &mut Process) {
        let turn = std::mem::take(&mut process.turn);
        process.is_called = false;
        if turn != 0 && !self.is(Weakness::TurnIsNotGivenBack) {
            self.send(process, LEADER, Message::Release(turn));
        }
    }

    /// Releases the vote's owner on all servers, whatever they answered.
    fn end_vote(&self, process: &mut Process) {
        self.send_all(process, Message::Release(process.vote));
        process.granted = 0;
        if !self.is(Weakness::VotesAgainAsTheSame) {
            process.vote = 0;
        }
    }

    fn has_won(&self, process: &Process) -> bool {
        let quorum = Quorum::new(SERVERS, Some(self.bounds.quorum)).expect("it is one");
        let granted = process.granted.count_ones() as usize;
        !process.is_late && quorum.verdict(granted, 0) == Verdict::Won
    }

    /// A process does this by itself; `false` if it cannot, when nothing would change.
    fn does(&self, world: &mut World, number: usize, deed: Deed) -> bool {
        let (locks, queue) = (world.locks, world.queue);
        let process = &mut world.processes[number];
        match (deed, process.phase) {
            (Deed::Enters, Phase::Idle) => {
                (process.turn, process.is_called) = (process.fresh(number), false);
                process.phase = Phase::Queued;
                self.send(process, LEADER, Message::Enter(process.turn));
            }
            (Deed::HearsOfItsTurn, Phase::Queued) if process.is_called => {
                process.phase = Phase::HasTurn;
                if self.is(Weakness::TurnIsTheLock) {
                    (process.vote, process.phase) = (process.turn, Phase::Holding);
                }
            }
            // The first in the queue asks now and then.
            (Deed::TakesItsTurn, Phase::Queued)
                if locks[LEADER] == 0 && queue[0] == process.turn =>
            {
                world.call(queue[0]);
            }
            (Deed::Votes, Phase::HasTurn) => self.vote(process, number),
            (Deed::Votes, Phase::Idle) if self.bounds.newcomers => self.vote(process, number),
            (Deed::Wins, Phase::Voting) if self.has_won(process) => {
                process.phase = Phase::Holding;
                if process.granted & 1 << LEADER != 0 {
                    // The vote has taken over the turn's lock.
                    (process.turn, process.is_called) = (0, false);
                }
                self.give_back_turn(process);
            }
            (Deed::VotesAgain, Phase::Voting) if process.turn != 0 && process.again > 0 => {
                process.again -= 1;
                self.ask_all(process);
            }
            (Deed::GivesUp, Phase::Voting) => {
                self.end_vote(process);
                process.phase = if process.turn == 0 { Phase::Idle } else { Phase::HasTurn };
            }
            (Deed::Leaves, Phase::Queued | Phase::HasTurn) => {
                self.give_back_turn(process);
                (process.phase, process.vote) = (Phase::Idle, 0);
            }
            (Deed::Releases, Phase::Holding) => {
                self.end_vote(process);
                (process.phase, process.vote) = (Phase::Idle, 0);
            }
            _ => return false,
        }
        true
    }

    fn expire(world: &mut World, server: usize) {
        let lock = std::mem::take(&mut world.locks[server]);
        for process in world.processes.iter_mut().filter(|process| process.vote == lock) {
            process.is_late |= process.phase == Phase::Voting;
        }
    }

    fn is_held(world: &World, owner: Owner) -> bool {
        let holds = |process: &Process| process.phase == Phase::Holding && process.vote == owner;
        world.processes.iter().any(holds)
    }

    /// Whether no waiter gets the lock, although from here on all messages arrive, holders release, and no
    /// key of a living process expires.
    fn is_stuck(&self, world: &World) -> bool {
        let waited = world.processes.map(|process| process.waits());
        let mut world = *world;
        for _ in 0..PATIENCE {
            for (number, has_waited) in (0..self.bounds.processes).zip(waited) {
                for server in 0..SERVERS {
                    while world.processes[number].lanes[server].first() != Message::Nothing {
                        self.arrive(&mut world, number, server);
                    }
                }
                if world.processes[number].phase == Phase::Dead {
                    let is_its = |owner: Owner| usize::from(owner / OWNERS) == number;
                    let theirs = world.queue.into_iter().filter(|it| *it != 0 && is_its(*it));
                    theirs.for_each(|entry| world.leave_queue(entry));
                    let keys = world.locks.iter_mut().filter(|lock| is_its(**lock));
                    keys.for_each(|lock| *lock = 0);
                    continue;
                }
                let well = [Deed::TakesItsTurn, Deed::HearsOfItsTurn, Deed::Wins];
                for deed in well {
                    self.does(&mut world, number, deed);
                }
                let process = &world.processes[number];
                if process.phase == Phase::Holding && has_waited {
                    return false;
                }
                let next = match process.phase {
                    Phase::Holding => Deed::Releases,
                    Phase::Voting => Deed::GivesUp,
                    Phase::HasTurn => Deed::Votes,
                    _ => continue,
                };
                self.does(&mut world, number, next);
            }
        }
        waited.contains(&true)
    }
}

impl Model for Turns {
    type State = World;
    type Step = Step;

    fn start(&self) -> World {
        World { faults: self.bounds.faults, ..World::default() }
    }

    fn steps(&self, world: &World, found: &mut Vec<(Step, World)>) {
        let mut add = |step, change: &dyn Fn(&mut World) -> bool| {
            let mut next = *world;
            if change(&mut next) {
                found.push((step, next));
            }
        };
        let faults = &world.faults;
        for server in 0..SERVERS {
            let lock = world.locks[server];
            if lock != 0 && faults.expiries > 0 && !Self::is_held(world, lock) {
                add(Step::Expires(server), &|next| {
                    next.faults.expiries -= 1;
                    Self::expire(next, server);
                    true
                });
            }
            if faults.memories > 0 {
                add(Step::Forgets(server), &|next| {
                    next.faults.memories -= 1;
                    next.locks[server] = 0;
                    if server == LEADER {
                        next.queue = [0; ENTRIES];
                    }
                    true
                });
            }
        }
        for number in 0..self.bounds.processes {
            let process = &world.processes[number];
            for server in 0..SERVERS {
                if process.lanes[server].first() == Message::Nothing {
                    continue;
                }
                add(Step::Of(number, Deed::Arrives(server)), &|next| {
                    self.arrive(next, number, server);
                    true
                });
                if faults.losses > 0 {
                    add(Step::Of(number, Deed::Loses(server)), &|next| {
                        next.faults.losses -= 1;
                        next.processes[number].lanes[server].pop();
                        true
                    });
                }
            }
            if faults.crashes > 0 && process.phase != Phase::Dead {
                add(Step::Of(number, Deed::Crashes), &|next| {
                    next.faults.crashes -= 1;
                    next.processes[number].phase = Phase::Dead;
                    true
                });
            }
            for deed in [
                Deed::Enters,
                Deed::HearsOfItsTurn,
                Deed::TakesItsTurn,
                Deed::Votes,
                Deed::Wins,
                Deed::VotesAgain,
                Deed::GivesUp,
                Deed::Leaves,
                Deed::Releases,
            ] {
                let begins = matches!(deed, Deed::Enters | Deed::Votes);
                if process.has_room() && (!begins || process.owners < self.bounds.owners) {
                    add(Step::Of(number, deed), &|next| self.does(next, number, deed));
                }
            }
        }
    }

    fn canonical(&self, world: World) -> World {
        world
    }

    fn breach(&self, world: &World) -> Option<&'static str> {
        let holders = world.processes.iter().filter(|process| process.phase == Phase::Holding);
        if holders.count() > 1 {
            return Some(BOTH);
        }
        if world.is_robbed {
            return Some(ROBBED);
        }
        (self.bounds.is_live && self.is_stuck(world)).then_some(STUCK)
    }
}
