//! A hierarchy of timing wheels (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels",
//! SOSP 1987, scheme 7).
//!
//! Each level stands for one digit of the time, in base 64. An item is at the level of the highest
//! digit in which its tick differs from the wheel's, in the list of its own digit there; when the
//! wheel gets to that list, its items move down. So an item moves at most once per level. The
//! ticks of one level all come before those of the next, so the next list is the first with items
//! on the first level that has some: two bit scans, however much time has passed.

const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Enough for every `u64`, so that no tick is out of reach.
const LEVELS: usize = 11;
/// No item, no list.
pub(super) const NONE: u32 = u32::MAX;

/// Where an item is: in the circular list of its tick, whose head the wheel knows; or in none, without a next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) next: u32,
    previous: u32,
    tick: u64,
}

impl Default for Place {
    fn default() -> Self {
        Self { next: NONE, previous: NONE, tick: 0 }
    }
}

/// The keeper of the items' places.
pub(super) trait Places {
    fn place(&mut self, index: u32) -> &mut Place;
}

#[derive(Debug)]
pub(super) struct Wheel {
    /// The wheel's tick; no item's is earlier.
    tick: u64,
    /// For each level, a bit for each list that has items.
    occupied: [u64; LEVELS],
    heads: Box<[u32]>,
}

impl Wheel {
    pub(super) fn new(tick: u64) -> Self {
        Self { tick, occupied: [0; LEVELS], heads: vec![NONE; LEVELS * DIGITS].into() }
    }

    /// Appends an item that is in no list to the list of its tick.
    pub(super) fn insert(&mut self, places: &mut impl Places, index: u32, tick: u64) {
        let tick = tick.max(self.tick);
        let list = self.list_of(tick);
        self.occupied[list >> DIGIT_BITS] |= 1 << (list % DIGITS);
        let head = self.heads[list];
        let (next, previous) = if head == NONE {
            self.heads[list] = index;
            (index, index)
        } else {
            let last = std::mem::replace(&mut places.place(head).previous, index);
            places.place(last).next = index;
            (head, last)
        };
        *places.place(index) = Place { next, previous, tick };
    }

    /// The list of a tick that is not before the wheel's.
    fn list_of(&self, tick: u64) -> usize {
        let level = (63 - ((tick ^ self.tick) | 1).leading_zeros()) / DIGIT_BITS;
        let digit = tick >> (level * DIGIT_BITS) & (DIGITS as u64 - 1);
        (level as usize) << DIGIT_BITS | usize::try_from(digit).unwrap_or(0)
    }

    /// Takes an item out of its list, if it is in one.
    pub(super) fn remove(&mut self, places: &mut impl Places, index: u32) {
        let Place { next, tick, .. } = *places.place(index);
        if next != NONE {
            self.remove_from(self.list_of(tick), places, index);
        }
    }

    fn remove_from(&mut self, list: usize, places: &mut impl Places, index: u32) {
        let Place { next, previous, .. } = *places.place(index);
        places.place(index).next = NONE;
        let head = &mut self.heads[list];
        if next == index {
            *head = NONE;
            self.occupied[list >> DIGIT_BITS] &= !(1 << (list % DIGITS));
            return;
        }
        if *head == index {
            *head = next;
        }
        places.place(next).previous = previous;
        places.place(previous).next = next;
    }

    /// Takes out the first item whose tick is not after `now`, and goes on to its tick; if there is
    /// none, to `now`.
    pub(super) fn pop(&mut self, places: &mut impl Places, now: u64) -> Option<u32> {
        while let Some((list, start)) = self.first().filter(|(_, start)| *start <= now) {
            self.tick = self.tick.max(start);
            if list < DIGITS {
                let head = self.heads[list];
                self.remove_from(list, places, head);
                return Some(head);
            }
            self.move_down(places, list);
        }
        self.tick = self.tick.max(now);
        None
    }

    /// Moves all items of a list that the wheel has got to at once: an item that stayed would come
    /// after items that were behind it.
    fn move_down(&mut self, places: &mut impl Places, list: usize) {
        while self.heads[list] != NONE {
            let head = self.heads[list];
            self.remove_from(list, places, head);
            let tick = places.place(head).tick;
            self.insert(places, head, tick);
        }
    }

    /// A tick that no item's is before, if there are items.
    pub(super) fn next(&self) -> Option<u64> {
        self.first().map(|(_, start)| start)
    }

    /// The first list that has items, and the first tick that belongs there.
    fn first(&self) -> Option<(usize, u64)> {
        let level = self.occupied.iter().position(|occupied| *occupied != 0)?;
        let digit = self.occupied[level].trailing_zeros();
        let shift = u32::try_from(level).unwrap_or(0) * DIGIT_BITS;
        let above = self.tick.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
        let start = (above << DIGIT_BITS | u64::from(digit)) << shift;
        Some((level << DIGIT_BITS | digit as usize, start))
    }
}
