//! The matching of replies to commands on one connection: a state machine with no I/O.
//!
//! House rules. Every change of what waits for a reply is in this file or below it. It does not know
//! sockets, tasks or clocks: bytes to send come out, frames and moments go in. The wakers are of any
//! type that can be cloned, so that fuzzing and model checking can drive it with plain numbers.
//!
//! Call order: [`Pipeline::push`] any number of commands (nothing can come between them while the
//! caller holds the lock), then [`Pipeline::commit`]. The caller that is told to write becomes the writer
//! and calls [`Pipeline::next_chunk`] until it returns nothing. The reader has all that came judged
//! ([`Pipeline::judge`]) before it delivers any of it ([`Pipeline::deliver`]); the sweeper calls
//! [`Pipeline::sweep`]; and [`Pipeline::fail`] ends it.
//!
//! A ticket that is given up ([`Pipeline::abandon`]) leaves its place in the queue behind: the
//! reply still comes, is matched to that place, and is thrown away.

use std::collections::VecDeque;
use std::task::Poll;

use bytes::BytesMut;
use leasehold_resp::Frame;

use super::outbox::Outbox;
use super::outcome::{Failure, Fault, Outcome};
use super::owed::{Owed, Refused};
use super::proof::{Seal, Stamps, Standing};
use super::refusal::ServerError;
use crate::policy::Moment;

mod judged;
mod lateness;
#[cfg(test)]
pub(super) mod mutated;
mod patience;
mod push;
mod slots;

use judged::Judged;
pub use patience::{Patience, Sweep};
use slots::{Holder, Slots};
pub use slots::{Terms, Ticket};

/// See the module's documentation.
pub struct Pipeline<W> {
    outbox: Outbox,
    slots: Slots<W>,
    waiting: VecDeque<usize>,
    /// How many of those that wait are parts of what another one is counted for.
    parts: usize,
    stamps: Stamps,
    /// Whether something was pushed whose reply needs a proof, and nothing behind it that would be one.
    is_unsealed: bool,
    /// Those whose replies have still to come.
    seals: VecDeque<Seal>,
    /// What came of the frames that were judged last.
    judged: Judged,
    /// How many commands were answered.
    answered: u64,
    /// Whether a seal was pushed and not committed.
    has_asked: bool,
    freed_weight: usize,
    /// What was owed and unanswered when the connection ended.
    unanswered: Vec<Owed>,
    /// What was owed and refused.
    refused: Vec<Refused>,
    /// Whether the sweeper runs.
    sweeping: bool,
    /// Whether anything was answered, or began to wait in an empty queue, since the last sweep.
    stirred: bool,
    /// Whether a push came since the last reply.
    pushed: bool,
    /// Whether there is a seal for which the server was asked since the last reply.
    asked: bool,
    silent_since: Moment,
    fault: Option<Fault>,
}

impl<W: Clone> Pipeline<W> {
    /// One whose stamps begin at a `random` number.
    pub fn new(random: u64) -> Self {
        Self {
            outbox: Outbox::default(),
            slots: Slots::default(),
            waiting: VecDeque::new(),
            parts: 0,
            stamps: Stamps::new(random),
            is_unsealed: false,
            seals: VecDeque::new(),
            judged: Judged::default(),
            answered: 0,
            has_asked: false,
            freed_weight: 0,
            unanswered: Vec::new(),
            refused: Vec::new(),
            sweeping: false,
            stirred: false,
            pushed: false,
            asked: false,
            silent_since: Moment::from_nanos(0),
            fault: None,
        }
    }

    /// Why the connection ended, once it did.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Whether no slot is in use.
    #[cfg(test)]
    pub fn is_unused(&self) -> bool {
        let (slots, free) = self.slots.count();
        slots == free
    }

    /// Commands whose replies have still to come, abandoned ones included.
    #[cfg(any(test, fuzzing))]
    pub fn in_flight(&self) -> usize {
        self.waiting.len() + self.seals.len()
    }

    /// See [`Outbox::hand_over`].
    pub fn hand_over(&mut self, rest: BytesMut) {
        self.outbox.hand_over(rest);
    }

    /// Whether the sweeper has to be woken because commands are under way and it sleeps.
    pub fn wants_sweeper(&mut self) -> bool {
        let wanted = !self.sweeping && !self.waiting.is_empty();
        self.sweeping |= wanted;
        wanted
    }

    /// What was owed and unanswered when the connection ended, once.
    pub fn take_unanswered(&mut self) -> Vec<Owed> {
        std::mem::take(&mut self.unanswered)
    }

    /// What is owed and not answered yet.
    pub fn owed(&self) -> impl Iterator<Item = &Owed> {
        self.waiting.iter().filter_map(|&index| self.slots[index].holder.owed())
    }

    /// Compares all that has come and is not delivered yet with what waits for it: how many of these
    /// frames, from the first on, may be delivered, which is to be done before the next call. Those behind them
    /// are to be given again, before what comes next, and are not looked at again: nothing proves yet
    /// that they are in their places.
    ///
    /// # Errors
    ///
    /// When one of them cannot be the reply to the command at its place, or none waits there: a
    /// reply was lost, or there is one too many. None of them can be trusted. And the connection's
    /// fault, once it has one.
    pub fn judge(&mut self, frames: &[Frame]) -> Result<usize, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let mut judged = std::mem::take(&mut self.judged).delivered();
        for frame in frames.iter().skip(judged.frames) {
            let standing = self.judge_next(frame, &mut judged)?;
            judged.note(standing);
        }
        let proved = self.concluded(&judged);
        self.judged = judged;
        Ok(proved)
    }

    /// What the frame behind those `judged` says of them.
    #[inline]
    fn judge_next(&mut self, frame: &Frame, judged: &mut Judged) -> Result<Standing, Fault> {
        if frame.is_push() {
            self.pushed = true;
            return Ok(Standing::Passes);
        }
        let behind = self.answered + judged.commands as u64;
        if let Some(seal) = self.seals.get(judged.seals).filter(|seal| seal.behind == behind) {
            judged.seals += 1;
            let is_sent = !self.outbox.is_unsent(seal.starts_at);
            return if is_sent {
                seal.judge(frame, judged.pending)
            } else {
                Err(Fault::Unsolicited)
            };
        }
        let slot = self.waiting.get(judged.commands).map(|index| &self.slots[*index]);
        judged.commands += 1;
        let slot = slot.filter(|slot| !self.outbox.is_unsent(slot.starts_at));
        slot.ok_or_else(|| unasked(frame, behind))?.place.judge(frame)
    }

    /// How many of those judged may be delivered. Where a refused script is among the others, a seal
    /// goes behind it: the script that was to prove it may have been refused, too.
    fn concluded(&mut self, judged: &Judged) -> usize {
        if judged.is_refused && judged.seals == self.seals.len() {
            self.ask();
            self.has_asked = true;
        }
        judged.proved
    }

    /// Whether a seal was pushed while replies were judged, and has to be committed.
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.has_asked)
    }

    /// Matches one frame to the command that waits longest; returns the waker to call. The frame has
    /// been judged.
    ///
    /// A push, known by its type alone, is nobody's reply: it is dropped here. A reader that wants to
    /// hear pushes takes them out before.
    ///
    /// # Errors
    ///
    /// When nothing waits that was sent: from here on no reply could be trusted. And the connection's fault,
    /// once it has one: nothing is matched any more.
    #[inline]
    pub fn deliver(&mut self, frame: Frame) -> Result<Option<W>, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if frame.is_push() {
            return Ok(None);
        }
        self.stirred = true;
        if self.seals.front().is_some_and(|seal| seal.behind == self.answered) {
            self.seals.pop_front();
            return Ok(None);
        }
        let sent = |&index: &usize| !self.outbox.is_unsent(self.slots[index].starts_at);
        if !self.waiting.front().is_some_and(sent) {
            return Err(Fault::Unsolicited);
        }
        let index = self.waiting.pop_front().expect("there is a first");
        self.answered += 1;
        let reply = self.slots[index].place.told(frame);
        let waker = self.answer(index, Ok(reply));
        if waker.is_some() {
            self.outbox.expect_one();
        }
        Ok(waker)
    }

    /// The slot has left the queue: settles it if somebody waits, frees it if nobody does.
    fn answer(&mut self, index: usize, outcome: Outcome) -> Option<W> {
        let slot = &mut self.slots[index];
        slot.queued = false;
        self.parts -= usize::from(slot.place.is_part());
        self.freed_weight += slot.weight as usize;
        match &mut slot.holder {
            Holder::Waits(waker) => {
                let waker = waker.take();
                slot.holder = Holder::Settled(outcome);
                waker
            }
            // It timed out and its holder has not looked yet: it stays as it is.
            Holder::Settled(_) => None,
            Holder::Owed(_) | Holder::Gone => {
                let holder = std::mem::replace(&mut slot.holder, Holder::Gone);
                self.slots.release(index);
                if let (Holder::Owed(owed), Ok(reply)) = (holder, outcome) {
                    let error = reply.error().map(|text| ServerError::new(text));
                    self.refused.extend(error.map(|error| Refused { owed, error }));
                }
                None
            }
        }
    }

    /// What was owed and refused since this was last asked.
    pub fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    /// The weight of all that was answered since this was last asked.
    pub fn take_freed_weight(&mut self) -> usize {
        std::mem::take(&mut self.freed_weight)
    }

    /// The outcome of a ticket; where there is none yet, `keep` stores the waker for when there is
    /// one. The waker that it takes out is to be dropped where no mutex is held: what goes with a waker is its
    /// own affair.
    ///
    /// # Panics
    ///
    /// When the ticket was settled or abandoned before.
    #[inline]
    pub fn poll(&mut self, ticket: Ticket, keep: impl FnOnce(&mut Option<W>)) -> Poll<Outcome> {
        match &mut self.slots.of(ticket).holder {
            Holder::Waits(waker) => {
                keep(waker);
                Poll::Pending
            }
            holder => {
                let Holder::Settled(outcome) = std::mem::replace(holder, Holder::Gone) else {
                    unreachable!("whoever has a ticket waits or is settled");
                };
                self.slots.release(ticket.index);
                Poll::Ready(outcome)
            }
        }
    }

    /// Nobody will ask for this ticket's outcome any more. What waited for it is given back, to be
    /// dropped as [`Pipeline::poll`] says.
    ///
    /// # Panics
    ///
    /// When the ticket was settled or abandoned before.
    pub fn abandon(&mut self, ticket: Ticket) -> Option<W> {
        let waited = std::mem::replace(&mut self.slots.of(ticket).holder, Holder::Gone);
        self.slots.release(ticket.index);
        if let Holder::Waits(waker) = waited { waker } else { None }
    }

    /// Nobody will ask for this ticket's outcome any more, but `owed` is what it was sent for: from
    /// here on it is as if it had been pushed as that. What waited for it is given back, to be
    /// dropped as [`Pipeline::poll`] says.
    ///
    /// # Errors
    ///
    /// What is owed, if the outcome has come and settles nothing.
    ///
    /// # Panics
    ///
    /// When the ticket was settled or abandoned before.
    pub fn owe(&mut self, ticket: Ticket, owed: Owed) -> Result<Option<W>, Owed> {
        let slot = self.slots.of(ticket);
        if slot.queued {
            let waited = std::mem::replace(&mut slot.holder, Holder::Owed(owed));
            return Ok(if let Holder::Waits(waker) = waited { waker } else { None });
        }
        let settled = std::mem::replace(&mut slot.holder, Holder::Gone);
        self.slots.release(ticket.index);
        match settled {
            Holder::Settled(Ok(reply)) if reply.error().is_none() => Ok(None),
            _ => Err(owed),
        }
    }

    /// Ends the connection: what waits is told whether any of its bytes were handed to a writer,
    /// nothing is taken or matched any more. The first fault stays.
    pub fn fail(&mut self, fault: Fault, woken: &mut Vec<W>) {
        self.settle_all(fault, Failure::NotSent, woken);
        self.outbox.close();
    }

    /// Nobody reads any more: as [`Pipeline::fail`], but what is owed can still be sent, and with
    /// it what was pushed before it. So of nothing that waits is it known that it is not sent.
    pub fn orphan(&mut self, fault: Fault, woken: &mut Vec<W>) {
        self.settle_all(fault, Failure::Unknown, woken);
    }

    fn settle_all(&mut self, fault: Fault, unsent: fn(Fault) -> Failure, woken: &mut Vec<W>) {
        let fault = self.fault.get_or_insert(fault).clone();
        self.is_unsealed = false;
        self.seals.clear();
        while let Some(index) = self.waiting.pop_front() {
            self.unanswered.extend(self.slots[index].holder.owed().cloned());
            let is_unsent = self.outbox.is_unsent(self.slots[index].starts_at);
            let failure = if is_unsent { unsent } else { Failure::Unknown };
            woken.extend(self.answer(index, Err(failure(fault.clone()))));
        }
    }
}

/// What it means that a frame comes for which no command was sent, behind this number of replies. A server
/// that has no room for a client, or does not let it in, says so at once.
#[cold]
fn unasked(frame: &Frame, behind: u64) -> Fault {
    match frame.error() {
        Some(text) if behind == 0 => Fault::TurnedAway(ServerError::new(text)),
        _ => Fault::Unsolicited,
    }
}

#[cfg(test)]
mod harms;
#[cfg(test)]
mod tests;
