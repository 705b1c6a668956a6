//! The server's keys of one lock and its queue.

/// Processes, at most.
pub(in super::super) const PROCESSES: usize = 3;
/// A client of another library, which knows no queue.
pub(super) const FOREIGN: Owner = u8::MAX;

/// An owner: 0 for nobody; else the process and its attempt.
pub(super) type Owner = u8;

/// Entries that the queue has room for: each process has one, and a stray may leave another.
pub(super) const ENTRIES: usize = PROCESSES + 1;
/// Ticks that an entry lives without a command of its waiter.
pub(super) const ENTRY_LIFE: u8 = 3;

/// Maximum dead entries, gaps and garbage that a script takes out before it does anything else.
pub(super) const LOOKS: u8 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) left: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) owner: Owner,
    /// Ticks until the key expires.
    pub(super) left: u8,
    /// The counter; 0 once it is lost.
    pub(super) counter: u8,
    /// The largest token ever minted: the server's clock is above it.
    pub(super) minted: u8,
    /// Ticks for which the restart quarantine keeps everybody from asking.
    pub(super) guarded: u8,
    pub(super) queue: [Entry; ENTRIES],
    pub(super) len: u8,
    /// The number of dead waiters' entries, gaps and garbage before all entries.
    pub(super) dead: u8,
}

impl Server {
    pub(super) fn new() -> Self {
        Self { counter: 1, minted: 1, ..Self::default() }
    }

    pub(super) fn tick(&mut self, entries_expire: bool) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 && self.owner != FOREIGN {
            self.owner = 0;
        }
        self.guarded = self.guarded.saturating_sub(1);
        let len = if entries_expire { usize::from(self.len) } else { 0 };
        self.queue[..len].iter_mut().for_each(|entry| entry.left = entry.left.saturating_sub(1));
    }

    /// Restarts the server without memory; it grants nothing for this number of ticks.
    pub(super) fn restart(&mut self, guarded: u8) {
        *self = Self { minted: self.minted, guarded, ..Self::default() };
    }

    pub(super) fn free(&mut self) {
        (self.owner, self.left) = (0, 0);
    }

    pub(super) fn place(&self, owner: Owner) -> Option<usize> {
        self.queue[..usize::from(self.len)].iter().position(|entry| entry.owner == owner)
    }

    pub(super) fn queues(&self, owner: Owner) -> bool {
        self.place(owner).is_some()
    }

    pub(super) fn remove(&mut self, owner: Owner) {
        let Some(place) = self.place(owner) else { return };
        self.queue.copy_within(place + 1.., place);
        self.queue[ENTRIES - 1] = Entry::default();
        self.len -= 1;
    }

    /// Removes waiters at the front that have not asked for too long.
    pub(super) fn purge(&mut self) {
        while self.len > 0 && self.queue[0].left == 0 {
            self.remove(self.queue[0].owner);
        }
    }

    /// Takes out dead entries, as many as a script may; returns whether some are left.
    pub(super) fn clear(&mut self) -> bool {
        self.dead = self.dead.saturating_sub(LOOKS);
        self.dead > 0
    }

    pub(super) fn take(&mut self, owner: Owner, ttl: u8) {
        self.remove(owner);
        (self.owner, self.left) = (owner, ttl);
    }
}
