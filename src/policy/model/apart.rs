//! The model of keys apart: one lock in a Cluster slot that moves from one node to another, key by
//! key. The lock and its counter may be on different nodes, so that no script can have both.
//!
//! An attempt first asks for both keys at once. Where a node answers TRYAGAIN, it takes the lock,
//! then has the counter mint a token, then confirms that the lock is still its own: three commands
//! of one key each. Each goes to the slot's owner, and from there to where `ASK` or `MOVED` send it,
//! with any delay in between. An attempt may stop anywhere; its messages arrive anyway.
//!
//! Two failures are beyond the promise, with a test of each; they befall every command of a
//! Cluster. An operator that calls a migration off while the importing node has keys of the slot loses these
//! keys. And if a migration is called off and begun again while a command that the first one redirected
//! is still under way, the importing node carries it out although the other one has the key.

use std::fmt;

use super::explore::Model;
use super::tokens::{self, Issued};

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Attempts, each by an owner of its own.
    pub(super) attempts: usize,
    /// Proposals are 1 to this, in whatever order wall clocks give them.
    pub(super) tokens: u8,
    /// The lock may vanish under a holder: what tokens promise must not rest on exclusion.
    pub(super) is_lost_early: bool,
    /// How the migration may be called off.
    pub(super) called_off: CalledOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalledOff {
    Never,
    /// While the importing node has no key of the slot, whichever node learns of it first.
    WhileEmpty,
    /// Although the importing node has keys of the slot, which are then lost.
    WithKeys,
    /// While the importing node has none, and then the slot begins to move again.
    ToBeginAgain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The lock, then the counter, then the lock again.
    Confirmed,
    /// The token is issued once it is minted.
    Unconfirmed,
    /// The counter, then the lock.
    MintsFirst,
    /// A caller that was redirected once asks for the other key there, too.
    StaysWhereSent,
    /// If a node has not got all keys, the other one is asked.
    GoesAhead,
}

const ATTEMPTS_MAX: usize = 3;
const NODES: usize = 2;
const SOURCE: usize = 0;
const TARGET: usize = 1;

/// The node that serves the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Slot {
    Settled(usize),
    Moving,
    /// The source has the slot for good again, and the target does not know.
    HalfCalledOff,
    /// The source has the slot for good again, and all know.
    CalledOff,
}

/// The two keys on one node; 0 for a key that is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    owner: u8,
    counter: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// Asks for both keys.
    Whole,
    Take,
    Mint,
    Confirm,
    /// The owner was issued its token, and holds.
    Holding,
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Attempt {
    stage: Stage,
    /// The node that its command is going to, and whether behind an `ASKING`.
    at: usize,
    is_asking: bool,
    proposal: u8,
    token: u8,
    is_issued: bool,
    /// The largest token that had been issued when the attempt began.
    floor: u8,
    /// The place of this owner in the order in which the lock was taken.
    taken: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Places {
    slot: Slot,
    nodes: [Node; NODES],
    attempts: [Attempt; ATTEMPTS_MAX],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Begin { attempt: usize, proposal: u8 },
    Arrive { attempt: usize, stage: Stage, node: usize, outcome: Outcome },
    End(usize),
    Vanish(usize),
    Slot(&'static str),
}

/// A node's answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Refused,
    Ask,
    Moved,
    TryAgain,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begin { attempt, proposal } => {
                write!(f, "attempt {} begins, to propose {proposal}", attempt + 1)
            }
            Self::Arrive { attempt, stage, node, outcome } => {
                let (attempt, node) = (attempt + 1, node + 1);
                write!(f, "{stage:?} of attempt {attempt} at node {node}: {outcome:?}")
            }
            Self::End(attempt) => write!(f, "attempt {} gives up its lease", attempt + 1),
            Self::Vanish(node) => write!(f, "the lock on node {} vanishes", node + 1),
            Self::Slot(what) => f.write_str(what),
        }
    }
}

pub(super) struct Apart {
    pub(super) bounds: Bounds,
    pub(super) rule: Rule,
}

impl Apart {
    /// A node's redirect for a message; [`Outcome::Done`] if the node serves it. It has `has` of the
    /// message's `keys` keys.
    fn route(slot: Slot, node: usize, is_asking: bool, has: usize, keys: usize) -> Outcome {
        let imports = matches!(slot, Slot::Moving | Slot::HalfCalledOff);
        match (slot, node) {
            (Slot::Settled(owner), _) if owner == node => Outcome::Done,
            (Slot::HalfCalledOff | Slot::CalledOff, SOURCE) => Outcome::Done,
            (Slot::Moving, SOURCE) if has == keys => Outcome::Done,
            (Slot::Moving, SOURCE) if has == 0 => Outcome::Ask,
            (Slot::Moving, SOURCE) => Outcome::TryAgain,
            (_, TARGET) if imports && is_asking && (keys == 1 || has == keys) => Outcome::Done,
            (_, TARGET) if imports && is_asking => Outcome::TryAgain,
            _ => Outcome::Moved,
        }
    }

    /// The command of an attempt arrives.
    fn arrive(&self, places: &Places, number: usize) -> (Step, Places) {
        let mut next = *places;
        let Attempt { stage, at, is_asking, .. } = next.attempts[number];
        let node = next.nodes[at];
        let [has_lock, has_counter] = [node.owner != 0, node.counter != 0].map(usize::from);
        let (has, keys) = match stage {
            Stage::Whole => (has_lock + has_counter, 2),
            Stage::Mint => (has_counter, 1),
            _ => (has_lock, 1),
        };
        let mut outcome = Self::route(next.slot, at, is_asking, has, keys);
        match outcome {
            Outcome::Done => {
                if !self.carry_out(&mut next, number) {
                    outcome = Outcome::Refused;
                }
            }
            Outcome::Ask => next.attempts[number].go(TARGET, true),
            Outcome::Moved => next.attempts[number].go(1 - at, false),
            Outcome::TryAgain => {
                let first = if self.rule == Rule::MintsFirst { Stage::Mint } else { Stage::Take };
                self.turn_to(&mut next.attempts[number], first);
                if self.rule == Rule::GoesAhead {
                    next.attempts[number].go(TARGET, true);
                }
            }
            Outcome::Refused => {}
        }
        (Step::Arrive { attempt: number, stage, node: at, outcome }, next)
    }

    /// The next command goes first to where the slot is thought to be.
    fn turn_to(&self, attempt: &mut Attempt, stage: Stage) {
        attempt.stage = stage;
        let stays = matches!(self.rule, Rule::StaysWhereSent | Rule::GoesAhead);
        if !(stays && attempt.is_asking) {
            attempt.go(SOURCE, false);
        }
    }

    /// Runs the script; returns whether the owner got what it asked for.
    fn carry_out(&self, next: &mut Places, number: usize) -> bool {
        let owner = u8::try_from(number).expect("attempts are few") + 1;
        let taken = next.attempts.iter().map(|attempt| attempt.taken).max().unwrap_or(0) + 1;
        let attempt = &mut next.attempts[number];
        let node = &mut next.nodes[attempt.at];
        let takes = matches!(attempt.stage, Stage::Whole | Stage::Take);
        if takes && node.owner != 0 || attempt.stage == Stage::Confirm && node.owner != owner {
            attempt.stage = Stage::Over;
            return false;
        }
        if takes {
            (node.owner, attempt.taken) = (owner, taken);
        }
        if matches!(attempt.stage, Stage::Whole | Stage::Mint) {
            attempt.token = attempt.proposal.max(node.counter + 1);
            node.counter = attempt.token;
        }
        let then = match (attempt.stage, self.rule) {
            (Stage::Take, Rule::MintsFirst) => Stage::Holding,
            (Stage::Take, _) => Stage::Mint,
            (Stage::Mint, Rule::MintsFirst) => Stage::Take,
            (Stage::Mint, Rule::Unconfirmed) => Stage::Holding,
            (Stage::Mint, _) => Stage::Confirm,
            _ => Stage::Holding,
        };
        self.turn_to(attempt, then);
        attempt.is_issued = then == Stage::Holding;
        true
    }

    fn administer(&self, places: &Places, found: &mut Vec<(Step, Places)>) {
        let Places { slot, nodes: [source, target], .. } = *places;
        let mut push = |what, slot, nodes| {
            found.push((Step::Slot(what), Places { slot, nodes, ..*places }));
        };
        match slot {
            Slot::Settled(SOURCE) => push("the slot begins to move", Slot::Moving, places.nodes),
            Slot::Moving => {
                if source.owner != 0 {
                    let nodes =
                        [Node { owner: 0, ..source }, Node { owner: source.owner, ..target }];
                    push("the lock moves", slot, nodes);
                }
                if source.counter != 0 {
                    let counter = source.counter;
                    let nodes = [Node { counter: 0, ..source }, Node { counter, ..target }];
                    push("the counter moves", slot, nodes);
                }
                if source == Node::default() {
                    push("the slot has moved", Slot::Settled(TARGET), places.nodes);
                }
                let is_empty = target == Node::default();
                match self.bounds.called_off {
                    CalledOff::WhileEmpty if is_empty => {
                        push("it is called off", Slot::CalledOff, places.nodes);
                        push("the source calls it off", Slot::HalfCalledOff, places.nodes);
                    }
                    CalledOff::WithKeys => {
                        push("it is called off", Slot::CalledOff, places.nodes);
                    }
                    CalledOff::ToBeginAgain if is_empty => {
                        push("it is called off", Slot::Settled(SOURCE), places.nodes);
                    }
                    _ => {}
                }
            }
            Slot::HalfCalledOff => {
                push("the target calls it off", Slot::CalledOff, places.nodes);
            }
            Slot::Settled(_) | Slot::CalledOff => {}
        }
    }

    fn may_vanish(&self, places: &Places, node: usize) -> bool {
        let owner = usize::from(places.nodes[node].owner);
        owner != 0
            && (self.bounds.is_lost_early || places.attempts[owner - 1].stage != Stage::Holding)
    }
}

impl Attempt {
    fn issued(&self) -> Option<Issued> {
        let Self { token, floor, taken, .. } = *self;
        self.is_issued.then_some(Issued { token, floor, taken })
    }

    fn go(&mut self, at: usize, is_asking: bool) {
        (self.at, self.is_asking) = (at, is_asking);
    }
}

impl Model for Apart {
    type State = Places;
    type Step = Step;

    /// A lock that was held before, or one that never was, as the adversary likes.
    fn start(&self) -> Places {
        let (slot, nodes) = (Slot::Settled(SOURCE), Default::default());
        Places { slot, nodes, attempts: Default::default() }
    }

    fn steps(&self, places: &Places, found: &mut Vec<(Step, Places)>) {
        let issued = places.attempts.iter().filter(|attempt| attempt.is_issued);
        let floor = issued.map(|attempt| attempt.token).max().unwrap_or(0);
        for (number, attempt) in places.attempts[..self.bounds.attempts].iter().enumerate() {
            match attempt.stage {
                // Attempts are alike: they are numbered as they begin.
                Stage::Idle if number > 0 && places.attempts[number - 1].stage == Stage::Idle => {}
                Stage::Idle => {
                    for proposal in 1..=self.bounds.tokens {
                        let mut next = *places;
                        let stage = Stage::Whole;
                        next.attempts[number] =
                            Attempt { stage, proposal, floor, ..Attempt::default() };
                        found.push((Step::Begin { attempt: number, proposal }, next));
                    }
                }
                Stage::Holding => {
                    let mut next = *places;
                    next.attempts[number].stage = Stage::Over;
                    found.push((Step::End(number), next));
                }
                Stage::Over => {}
                _ => found.push(self.arrive(places, number)),
            }
        }
        for node in 0..NODES {
            if self.may_vanish(places, node) {
                let mut next = *places;
                next.nodes[node].owner = 0;
                found.push((Step::Vanish(node), next));
            }
        }
        self.administer(places, found);
    }

    /// The command of an ended attempt no longer matters; its token does.
    fn canonical(&self, mut places: Places) -> Places {
        for attempt in &mut places.attempts {
            if matches!(attempt.stage, Stage::Holding | Stage::Over) {
                attempt.go(SOURCE, false);
                attempt.proposal = 0;
            }
        }
        places
    }

    fn breach(&self, places: &Places) -> Option<&'static str> {
        let holding = places.attempts.iter().filter(|attempt| attempt.stage == Stage::Holding);
        if !self.bounds.is_lost_early && holding.count() > 1 {
            return Some("two attempts hold the lock at once");
        }
        tokens::breach(&places.attempts.iter().filter_map(Attempt::issued))
    }
}
