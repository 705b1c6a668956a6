//! What replies that are judged together come to.

use crate::net::proof::{Pending, Standing};

/// What the frames judged so far come to.
#[derive(Default)]
pub(super) struct Judged {
    /// How many of them are replies to commands, and to seals.
    pub(super) commands: usize,
    pub(super) seals: usize,
    pub(super) frames: usize,
    /// How many of them, from the first on, may be delivered.
    pub(super) proved: usize,
    /// How many of those are replies to commands, and to seals.
    proved_commands: usize,
    proved_seals: usize,
    /// What is to be proved of those behind.
    pub(super) pending: Pending,
    /// An error is among those behind.
    pub(super) is_refused: bool,
}

impl Judged {
    /// One more frame was judged.
    #[inline]
    pub(super) fn note(&mut self, standing: Standing) {
        match standing {
            Standing::Proves => (self.pending, self.is_refused) = (Pending::Nothing, false),
            Standing::Pends(as_what) => {
                self.pending = self.pending.max(as_what);
                self.is_refused |= as_what == Pending::Errors;
            }
            Standing::Passes => {}
        }
        self.frames += 1;
        if self.pending == Pending::Nothing {
            self.proved = self.frames;
            (self.proved_commands, self.proved_seals) = (self.commands, self.seals);
        }
    }

    /// What is left once those that may be have been delivered.
    #[inline]
    pub(super) fn delivered(self) -> Self {
        Self {
            commands: self.commands - self.proved_commands,
            seals: self.seals - self.proved_seals,
            frames: self.frames - self.proved,
            pending: self.pending,
            is_refused: self.is_refused,
            ..Self::default()
        }
    }
}
