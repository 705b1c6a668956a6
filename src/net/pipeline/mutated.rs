//! What a pipeline does that has a known bug: see `policy::mutants`.

use leasehold_resp::Frame;

use super::Pipeline;
use super::slots::{Holder, Slot};
use crate::net::outcome::Fault;
use crate::policy::mutants::Mutant;

impl<W: Clone> Pipeline<W> {
    /// A late reply is the next one's.
    pub(super) fn forget_the_timed_out(&mut self) {
        let is_over = |slot: &Slot<W>| matches!(slot.holder, Holder::Settled(_) | Holder::Gone);
        while let Some(&index) = self.waiting.front().filter(|index| is_over(&self.slots[**index]))
        {
            self.waiting.pop_front();
            self.answered += 1;
            self.answer(index, Ok(Frame::Null));
        }
    }
}

/// Whether a mutant keeps the connection for all that.
pub(super) fn is_borne(fault: &Fault) -> bool {
    match fault {
        Fault::Unsolicited => Mutant::StrayReplyIsDropped.is_on(),
        Fault::Misplaced => Mutant::MisplacedReplyEndsNothing.is_on(),
        _ => false,
    }
}
