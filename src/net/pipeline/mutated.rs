//! A pipeline that can have a known bug: see `policy::mutants`. In tests, connections have this one.

use std::ops::{Deref, DerefMut};

use leasehold_resp::Frame;

use super::Judged;
use super::slots::{Holder, Slot};
use crate::net::outcome::{Failure, Fault};
use crate::net::proof::{Pending, Place, Standing};
use crate::policy::mutants::Mutant;

/// The pipeline of the library, but for what is altered here on the way in and out.
pub(in crate::net) struct Pipeline<W>(super::Pipeline<W>);

impl<W> Deref for Pipeline<W> {
    type Target = super::Pipeline<W>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<W> DerefMut for Pipeline<W> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<W: Clone> Pipeline<W> {
    pub(in crate::net) fn new(random: u64) -> Self {
        Self(super::Pipeline::new(random))
    }

    /// As [`super::Pipeline::judge`].
    pub(in crate::net) fn judge(&mut self, frames: &[Frame]) -> Result<usize, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let mut judged = Judged::default();
        for frame in frames {
            self.stirred |= frame.is_push() && Mutant::PushIsASignOfLife.is_on();
            let standing = self.judge_next(frame, &mut judged);
            match self.altered(frame, &judged, standing) {
                Err(_) if Mutant::BelievedUpToTheMisplaced.is_on() && judged.proved > 0 => break,
                standing => judged.note(standing?),
            }
        }
        Ok(self.concluded(&judged))
    }

    /// What a reply is taken for, the last of those judged.
    fn altered(
        &self,
        frame: &Frame,
        judged: &Judged,
        standing: Result<Standing, Fault>,
    ) -> Result<Standing, Fault> {
        let is_stamp_ignored = || {
            let number = judged.commands.checked_sub(1);
            let place = number.and_then(|number| self.waiting.get(number));
            let is_stamped =
                place.is_some_and(|index| matches!(self.slots[*index].place, Place::Stamped(_)));
            is_stamped && has_text_first(frame)
        };
        match standing {
            Err(Fault::Misplaced) if Mutant::StampNotCompared.is_on() && is_stamp_ignored() => {
                Ok(Standing::Proves)
            }
            Err(Fault::Misplaced) if Mutant::MisplacedReplyEndsNothing.is_on() => {
                Ok(Standing::Passes)
            }
            Err(Fault::Unsolicited) if Mutant::StrayReplyIsDropped.is_on() => Ok(Standing::Passes),
            Ok(Standing::Pends(Pending::Errors)) if Mutant::ErrorNotProved.is_on() => {
                Ok(Standing::Passes)
            }
            Ok(Standing::Pends(Pending::Grants)) if Mutant::SealNotWaitedFor.is_on() => {
                Ok(Standing::Passes)
            }
            standing => standing,
        }
    }

    /// As [`super::Pipeline::deliver`].
    pub(in crate::net) fn deliver(&mut self, frame: Frame) -> Result<Option<W>, Fault> {
        if self.fault.is_none() && !frame.is_push() {
            if Mutant::LateReplyToTheNext.is_on() {
                self.forget_the_timed_out();
            }
            if Mutant::MisplacedReplyEndsNothing.is_on() && self.is_misplaced(&frame) {
                self.answered += 1;
                self.stirred = true;
                let index = self.waiting.pop_front().expect("a command is at its place");
                return Ok(self.answer(index, Err(Failure::Unknown(Fault::Misplaced))));
            }
        }
        match self.0.deliver(frame) {
            Err(Fault::Unsolicited) if Mutant::StrayReplyIsDropped.is_on() => Ok(None),
            delivered => delivered,
        }
    }

    /// Whether a command is next that cannot have this reply.
    fn is_misplaced(&self, frame: &Frame) -> bool {
        let is_seal = self.seals.front().is_some_and(|seal| seal.behind == self.answered);
        let next = self.waiting.front().filter(|_| !is_seal);
        next.is_some_and(|index| self.slots[*index].place.judge(frame).is_err())
    }

    /// A late reply is the next one's.
    fn forget_the_timed_out(&mut self) {
        let is_over = |slot: &Slot<W>| matches!(slot.holder, Holder::Settled(_) | Holder::Gone);
        while let Some(&index) = self.waiting.front().filter(|index| is_over(&self.slots[**index]))
        {
            self.waiting.pop_front();
            self.answered += 1;
            self.answer(index, Ok(Frame::Null));
        }
    }
}

/// Whether there is text where a script's reply has its stamp.
fn has_text_first(frame: &Frame) -> bool {
    match frame.value() {
        Frame::Bulk(_) => true,
        Frame::Array(items) => matches!(items.first(), Some(Frame::Bulk(_))),
        _ => false,
    }
}
