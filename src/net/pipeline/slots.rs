//! Places for commands under way: used again, and told apart by their generation.

use std::ops::{Index, IndexMut};

use crate::net::outcome::Outcome;
use crate::net::owed::Owed;
use crate::net::proof::{Expected, Place};
use crate::policy::Moment;

/// A claim on one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub(super) index: usize,
    generation: u32,
}

/// The waiter for the reply of one command, its deadline, and where its bytes begin.
pub(super) struct Slot<W> {
    generation: u32,
    /// Whether its reply has still to come.
    pub(super) queued: bool,
    pub(super) holder: Holder<W>,
    /// What its reply can be.
    pub(super) place: Place,
    /// The offset of its first byte in all that was ever appended.
    pub(super) starts_at: u64,
    pub(super) asked_at: Moment,
    pub(super) deadline: Moment,
    /// Its share of the connection's bound, given back when its reply came.
    pub(super) weight: u32,
}

pub(super) enum Holder<W> {
    Waits(Option<W>),
    Settled(Outcome),
    Owed(Owed),
    Gone,
}

impl<W> Holder<W> {
    pub(super) fn owed(&self) -> Option<&Owed> {
        if let Self::Owed(owed) = self { Some(owed) } else { None }
    }
}

/// What the reply to a command can be, how long it may take, and what the command weighs.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What the reply can be.
    pub expected: Expected,
    /// When the command was asked for.
    pub asked_at: Moment,
    /// When its caller gives up on a reply.
    pub deadline: Moment,
    /// What is given back to the connection's bound when its reply came.
    pub weight: u32,
}

/// See the module's documentation.
pub(super) struct Slots<W> {
    slots: Vec<Slot<W>>,
    free: Vec<usize>,
}

impl<W> Default for Slots<W> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<W> Slots<W> {
    /// How many there are, and how many of them are free.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        (self.slots.len(), self.free.len())
    }

    /// One for a command whose reply has still to come.
    #[inline]
    pub(super) fn take(
        &mut self,
        holder: Holder<W>,
        place: Place,
        starts_at: u64,
        terms: Terms,
    ) -> Ticket {
        let Terms { asked_at, deadline, weight, .. } = terms;
        let (queued, generation) = (true, 0);
        if let Some(index) = self.free.pop() {
            // Piece by piece, as a slot takes longer to move.
            let slot = &mut self.slots[index];
            (slot.queued, slot.holder, slot.place) = (queued, holder, place);
            (slot.starts_at, slot.asked_at) = (starts_at, asked_at);
            (slot.deadline, slot.weight) = (deadline, weight);
            return Ticket { index, generation: slot.generation };
        }
        let index = self.slots.len();
        let slot =
            Slot { generation, queued, holder, place, starts_at, asked_at, deadline, weight };
        self.slots.push(slot);
        Ticket { index, generation }
    }

    /// # Panics
    ///
    /// When the ticket was settled or abandoned before.
    pub(super) fn of(&mut self, ticket: Ticket) -> &mut Slot<W> {
        let slot = &mut self.slots[ticket.index];
        assert_eq!(slot.generation, ticket.generation, "a ticket serves once");
        slot
    }

    /// Frees a slot that has no holder left, unless its reply has still to come.
    pub(super) fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if !slot.queued {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }
}

impl<W> Index<usize> for Slots<W> {
    type Output = Slot<W>;

    fn index(&self, index: usize) -> &Slot<W> {
        &self.slots[index]
    }
}

impl<W> IndexMut<usize> for Slots<W> {
    fn index_mut(&mut self, index: usize) -> &mut Slot<W> {
        &mut self.slots[index]
    }
}
