//! What replies that are judged together come to.

use crate::net::proof::{Pending, Standing};

/// What the frames judged so far come to.
#[derive(Default)]
pub(super) struct Judged {
    /// How many of them are replies to commands, and to seals.
    pub(super) commands: usize,
    pub(super) seals: usize,
    frames: usize,
    /// How many of them, from the first on, may be delivered.
    pub(super) proved: usize,
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
        }
    }
}
