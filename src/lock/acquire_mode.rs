//! How an acquire goes about others who want the lock.

/// What an acquire does about others who want the lock: see `acquire.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcquireMode {
    pub(super) taking: Taking,
    pub(super) waiting: Waiting,
}

/// In the order in which one waiter comes to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Taking {
    /// Takes it if it is free and nobody waits for it.
    Turn,
    /// Only looks.
    Look,
    /// Takes it if it is free.
    Take,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    No,
    /// To be counted among those who wait.
    Uncounted,
    Counted,
}

impl AcquireMode {
    /// For one who neither waits nor minds those who do.
    pub(super) const TAKE: Self = Self { taking: Taking::Take, waiting: Waiting::No };
    /// For one who wants to know who has it.
    pub(super) const LOOK: Self = Self { taking: Taking::Look, waiting: Waiting::No };
    /// For one who has just come.
    pub(super) const TURN: Self = Self { taking: Taking::Turn, waiting: Waiting::No };

    pub(super) fn words(self) -> [&'static [u8]; 2] {
        let taking: &[u8] = match self.taking {
            Taking::Take => b"take",
            Taking::Turn => b"turn",
            Taking::Look => b"look",
        };
        let waiting: &[u8] = match self.waiting {
            Waiting::No => b"",
            Waiting::Uncounted => b"1",
            Waiting::Counted => b"0",
        };
        [taking, waiting]
    }
}
