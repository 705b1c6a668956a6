//! The timers of a task that keeps up to millions of leases.

use std::num::NonZeroU32;

use super::Moment;

mod wheel;

use wheel::{NONE, Place, Wheel};

const TICK_NANOS: u64 = 1_000_000;
/// The vector grows by one in this many of its items, and a few: if it doubled, up to half of it
/// would be unused.
const GROWTH_SHARE: usize = 16;
const GROWTH_MIN: usize = 8;
/// Once no items are left, room for more than this many is freed.
const KEPT_MAX: usize = 256;

/// Names an item of a [`TimerWheel`], and never another item once that one was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TimerKey {
    index: u32,
    generation: NonZeroU32,
}

/// Items, each with at most one moment at which it is due.
///
/// Times are kept in ticks of a millisecond, rounded up: an item may be due up to one tick late,
/// and never early. Inserting, rescheduling and removing cost the same however many items there
/// are, and allocate only when there are more items than ever before. The schedule is a hierarchy
/// of timing wheels: see [`wheel`].
#[derive(Debug)]
pub(crate) struct TimerWheel<T> {
    slots: Vec<Slot<T>>,
    wheel: Wheel,
    /// The head of the list of vacant slots, linked by their `next`.
    vacant: u32,
    /// The generation of a new slot.
    first: NonZeroU32,
    len: usize,
}

/// A slot of the slab: an item, or room for one.
#[derive(Debug)]
struct Slot<T> {
    item: Option<T>,
    /// The generation of the item, or of the next one if the slot is vacant.
    generation: NonZeroU32,
    place: Place,
}

impl<T> wheel::Places for Vec<Slot<T>> {
    fn place(&mut self, index: u32) -> &mut Place {
        &mut self[index as usize].place
    }
}

impl<T> TimerWheel<T> {
    pub(crate) fn new(now: Moment) -> Self {
        let wheel = Wheel::new(now.as_nanos() / TICK_NANOS);
        Self { slots: Vec::new(), wheel, vacant: NONE, first: NonZeroU32::MIN, len: 0 }
    }

    /// Adds an item that is due at `at`.
    ///
    /// # Panics
    ///
    /// With more than 4 billion items.
    pub(crate) fn insert(&mut self, item: T, at: Moment) -> TimerKey {
        let index = self.vacant;
        let index = if index == NONE {
            let index = u32::try_from(self.slots.len()).ok().filter(|index| *index != NONE);
            let index = index.expect("memory ends before 4 billion items do");
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(self.slots.len() / GROWTH_SHARE + GROWTH_MIN);
            }
            let generation = self.first;
            self.slots.push(Slot { item: Some(item), generation, place: Place::default() });
            index
        } else {
            let slot = &mut self.slots[index as usize];
            self.vacant = slot.place.next;
            slot.item = Some(item);
            index
        };
        self.len += 1;
        self.wheel.insert(&mut self.slots, index, tick_at(at));
        TimerKey { index, generation: self.slots[index as usize].generation }
    }

    /// Makes an item due at `at` instead; `false` if it is gone.
    #[inline(never)]
    pub(crate) fn reschedule(&mut self, entry: TimerKey, at: Moment) -> bool {
        let is_there = self.get(entry).is_some();
        if is_there {
            self.wheel.remove(&mut self.slots, entry.index);
            self.wheel.insert(&mut self.slots, entry.index, tick_at(at));
        }
        is_there
    }

    /// Removes an item, if it is there.
    pub(crate) fn discard(&mut self, entry: TimerKey) {
        if self.get(entry).is_none() {
            return;
        }
        self.wheel.remove(&mut self.slots, entry.index);
        self.len -= 1;
        let slot = &mut self.slots[entry.index as usize];
        slot.item = None;
        // A slot whose generations are used up stays empty, so that no name is ever used twice.
        if let Some(generation) = slot.generation.checked_add(1) {
            slot.generation = generation;
            slot.place.next = self.vacant;
            self.vacant = entry.index;
        }
        if self.len == 0 && self.slots.len() > KEPT_MAX {
            self.let_go();
        }
    }

    /// Frees the room for items, once there are none. Still no name is used twice.
    #[cold]
    fn let_go(&mut self) {
        let last = self.slots.iter().map(|slot| slot.generation).max();
        if let Some(first) = last.map_or(Some(self.first), |last| last.checked_add(1)) {
            (self.slots, self.vacant, self.first) = (Vec::new(), NONE, first);
        }
    }

    pub(crate) fn get(&self, entry: TimerKey) -> Option<&T> {
        let slot = self.slots.get(entry.index as usize)?;
        if slot.generation == entry.generation { slot.item.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, entry: TimerKey) -> Option<&mut T> {
        let slot = self.slots.get_mut(entry.index as usize)?;
        if slot.generation == entry.generation { slot.item.as_mut() } else { None }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TimerKey, &T)> {
        (0_u32..).zip(&self.slots).filter_map(|(index, slot)| {
            let entry = TimerKey { index, generation: slot.generation };
            slot.item.as_ref().map(|item| (entry, item))
        })
    }

    /// Appends to `due` at most `most` items that are due at `now` or before, the earlier first. They
    /// stay, and are due again only once they are rescheduled.
    pub(crate) fn take_due(&mut self, now: Moment, most: usize, due: &mut Vec<TimerKey>) {
        let now = now.as_nanos() / TICK_NANOS;
        for _ in 0..most {
            let Some(index) = self.wheel.pop(&mut self.slots, now) else { break };
            due.push(TimerKey { index, generation: self.slots[index as usize].generation });
        }
    }

    /// When to call [`TimerWheel::take_due`] next: not later than the first item is due, rounded up
    /// to the tick. Perhaps nothing is due then, but the next answer is later.
    pub(crate) fn next_at(&self) -> Option<Moment> {
        self.wheel.next().map(|tick| Moment::from_nanos(tick.saturating_mul(TICK_NANOS)))
    }
}

fn tick_at(at: Moment) -> u64 {
    at.as_nanos().div_ceil(TICK_NANOS)
}

#[cfg(test)]
mod tests;
