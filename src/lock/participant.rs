//! Where a hold is with one server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::core::Core;
use super::names::Names;
use super::one_or_many::OneOrMany;
use crate::net::connection::Connection;
use crate::policy::Exposure;
use crate::server::node::{LEASES, Node, WATCH};
use crate::server::place::Place;

/// One server's part of a hold.
pub(super) struct Participant {
    /// Which of the core's places the server is found at.
    place: u16,
    /// The first of the hold's locks that are with it: see [`Hold::names_at`].
    ///
    /// [`Hold::names_at`]: super::hold::Hold::names_at
    first_name: u32,
    /// The slot that all their keys are in.
    pub(super) slot: u16,
    binding: Mutex<Binding>,
}

/// The server, its lane, and the connection that the hold is on.
#[derive(Clone)]
pub(super) struct Binding {
    pub(super) node: Arc<Node>,
    lane: u32,
    pub(super) connection: Option<Arc<Connection>>,
    /// The server has said that it granted the lease, or, while keys are on two nodes, a part of it.
    pub(super) is_granted: bool,
    /// The last answer came from a server that it does not stay with.
    pub(super) is_away: bool,
    /// What it may have of the owner by what it was asked.
    exposure: Exposure,
    /// It was asked for the lease, and has not answered: bytes of that may be under way still.
    pub(super) is_unanswered: bool,
    /// That was so when the connection that it was asked on had ended, and it took another.
    was_left_unanswered: bool,
    /// The release is on its way, and is seen through.
    pub(super) is_released: bool,
}

/// The connections that a claim goes out on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lanes {
    /// That which all leases share.
    Shared,
    /// That on which servers tell of changes to what was read, where there is one.
    Watching,
}

impl Lanes {
    fn pick(self, node: &Node) -> usize {
        match self {
            Self::Watching if node.is_watching() => WATCH,
            Self::Shared | Self::Watching => LEASES,
        }
    }
}

impl Participant {
    /// One participant at each place, or as many at the only place as the locks have slots there.
    ///
    /// Locks of one slot stand next to each other in `names`: see [`Core::arrange`].
    pub(super) fn of(core: &Core, names: &[Names], lanes: Lanes) -> OneOrMany<Self> {
        let at = |place: usize, first_name: usize, slot: u16| {
            let node = core.places()[place].node(slot);
            let binding = Binding {
                lane: small(lanes.pick(&node)),
                node,
                connection: None,
                is_granted: false,
                is_away: false,
                exposure: Exposure::default(),
                is_unanswered: false,
                was_left_unanswered: false,
                is_released: false,
            };
            let (place, first_name) = (small(place), small(first_name));
            Self { place, first_name, slot, binding: Mutex::new(binding) }
        };
        let slot = |place: usize, name: usize| core.places()[place].slot(names[name].lock());
        if names.len() == 1 && core.is_single() {
            return OneOrMany::One([at(0, 0, slot(0, 0))]);
        }
        if !core.is_single() {
            return (0..core.places().len()).map(|place| at(place, 0, slot(place, 0))).collect();
        }
        let mut participants = Vec::new();
        let mut first = 0;
        for end in 1..=names.len() {
            if end == names.len() || slot(0, end) != slot(0, first) {
                participants.push(at(0, first, slot(0, first)));
                first = end;
            }
        }
        participants.into_iter().collect()
    }

    /// None where the lease is on the lane that tells of its end. Else whether that lane is ready, so
    /// that a renewal would move the lease there.
    pub(super) fn unarmed(&self) -> Option<bool> {
        let (node, lane) = {
            let binding = self.binding();
            (Arc::clone(&binding.node), binding.lane())
        };
        node.want(WATCH);
        (lane != WATCH).then(|| node.is_watching())
    }

    /// Whether another server serves its slot by now.
    pub(super) fn has_moved(&self, place: &Place) -> bool {
        let Some(directory) = place.directory() else { return false };
        !Arc::ptr_eq(&self.binding().node, &directory.serves(self.slot))
    }

    /// The same participant for the next owner on the same connection.
    pub(super) fn successor(&self) -> Self {
        self.with(Binding { is_granted: false, ..self.binding().clone() })
    }

    /// The same for the next holder of the same lease.
    pub(super) fn heir(&self) -> Self {
        self.with(self.binding().clone())
    }

    fn with(&self, binding: Binding) -> Self {
        Self {
            place: self.place,
            first_name: self.first_name,
            slot: self.slot,
            binding: Mutex::new(binding),
        }
    }

    pub(super) fn place(&self) -> usize {
        self.place.into()
    }

    pub(super) fn first_name(&self) -> usize {
        self.first_name as usize
    }

    pub(super) fn binding(&self) -> MutexGuard<'_, Binding> {
        self.binding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number of servers, lanes or locks, as every participant has some.
///
/// # Panics
///
/// When there are more than a process can have.
fn small<N: TryFrom<usize>>(number: usize) -> N {
    N::try_from(number).ok().expect("no process has so many")
}

impl Binding {
    pub(super) fn lane(&self) -> usize {
        self.lane as usize
    }

    /// Goes over to another lane of the same server.
    pub(super) fn change_to(&mut self, lane: usize) {
        self.was_left_unanswered = self.is_doubtful();
        (self.lane, self.connection) = (small(lane), None);
    }

    /// It is asked something.
    pub(super) fn ask(&mut self, is_vote: bool) {
        self.exposure.ask();
        self.is_unanswered |= is_vote;
    }

    /// Whether the server may have something of the owner.
    pub(super) fn is_exposed(&self) -> bool {
        self.is_granted || !self.exposure.is_none()
    }

    /// The last question was not run. Where it was the only one, the server is as one that was never asked.
    pub(super) fn note_not_run(&mut self) {
        if self.exposure.was_not_run() && !self.is_granted {
            self.connection = None;
        }
    }

    /// It is on this connection from here on.
    pub(super) fn take(&mut self, connection: Arc<Connection>) {
        self.was_left_unanswered = self.is_doubtful();
        self.connection = Some(connection);
    }

    /// An acquire was unanswered when its connection ended: it may still be carried out, whatever the
    /// server answers on another.
    pub(super) fn is_doubtful(&self) -> bool {
        self.was_left_unanswered || self.is_unanswered && self.is_unbound()
    }

    /// The connection that it was on has ended.
    pub(super) fn is_unbound(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.is_alive())
    }

    /// The connection that it is on, while that lives.
    pub(super) fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.clone().filter(|connection| connection.is_alive())
    }

    fn lanes(&self) -> Lanes {
        if self.lane() == WATCH { Lanes::Watching } else { Lanes::Shared }
    }

    /// Whether its server tells of changes to what it has answered.
    pub(super) fn is_watched(&self) -> bool {
        !self.is_away && self.lane() == WATCH && self.node.is_watching()
    }

    /// A lane of the same kind at another server.
    pub(super) fn lane_at(&self, node: &Node) -> usize {
        self.lanes().pick(node)
    }

    /// Moves to whichever server serves the slot by now; whether that is another one.
    pub(super) fn follow(&mut self, place: &Place, slot: u16) -> bool {
        let Some(directory) = place.directory() else { return false };
        let serving = directory.serves(slot);
        let is_moved = !Arc::ptr_eq(&self.node, &serving);
        if is_moved {
            self.move_to(serving);
        }
        is_moved
    }

    /// Moves to another server, to a lane of the same kind there.
    pub(super) fn move_to(&mut self, node: Arc<Node>) {
        let lane = self.lane_at(&node);
        self.node = node;
        self.change_to(lane);
    }
}
