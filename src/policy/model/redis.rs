//! The scripts, as the model's servers run them: `scripts/*.lua` line by line, on one lock.

/// The lock's owner: 0 for none, when the key is absent.
pub(super) type Owner = u8;

/// The two keys of one lock on one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Keys {
    /// The lock's value.
    pub(super) owner: Owner,
    /// The lock's remaining TTL, in ticks.
    pub(super) left: u8,
    /// The fence counter.
    pub(super) counter: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Granted,
    Held,
    Stale,
}

impl Keys {
    /// `scripts/acquire.lua` in mode 'vote'; a predecessor of 0 is none.
    pub(super) fn acquire(
        &mut self,
        owner: Owner,
        predecessor: Owner,
        ttl: u8,
        token: u8,
    ) -> Reply {
        if ![0, owner, predecessor].contains(&self.owner) {
            return Reply::Held;
        }
        if token <= self.counter {
            return Reply::Stale;
        }
        *self = Self { owner, left: ttl, counter: token };
        Reply::Granted
    }

    /// The same for the lock alone. A refusal of a stale token, which leaves both keys as they
    /// were, is covered by an acquire that never arrives.
    pub(super) fn take(&mut self, owner: Owner, predecessor: Owner, ttl: u8) -> bool {
        let is_free = [0, owner, predecessor].contains(&self.owner);
        if is_free {
            (self.owner, self.left) = (owner, ttl);
        }
        is_free
    }

    /// A repair: sets a missing lock, for an owner whose `token` was issued. A counter above that stays.
    pub(super) fn repair(&mut self, owner: Owner, ttl: u8, token: u8) -> Reply {
        if self.owner != 0 {
            return Reply::Held;
        }
        *self = Self { owner, left: ttl, counter: self.counter.max(token) };
        Reply::Granted
    }

    /// `scripts/extend.lua`.
    pub(super) fn extend(&mut self, owner: Owner, ttl: u8) -> bool {
        let is_own = self.owner == owner;
        if is_own {
            self.left = ttl;
        }
        is_own
    }

    /// `scripts/release.lua`.
    pub(super) fn release(&mut self, owner: Owner) -> bool {
        let is_own = self.owner == owner;
        if is_own {
            self.drop_lock();
        }
        is_own
    }

    /// DEL, an expiry, or a loss of the lock alone.
    pub(super) fn drop_lock(&mut self) {
        (self.owner, self.left) = (0, 0);
    }
}
