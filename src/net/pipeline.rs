//! The matching of replies to commands on one connection: a state machine with no I/O.
//!
//! House rules. Every change of what waits for a reply is in this file. It does not know sockets,
//! tasks or clocks: bytes to send come out, frames and moments go in. The wakers are of any type
//! that can be cloned, so that fuzzing and model checking can drive it with plain numbers.
//!
//! Call order: [`Pipeline::push`] any number of commands (nothing can come between them while the
//! caller holds the lock), then [`Pipeline::commit`]. Whoever is told to write becomes the writer
//! and calls [`Outbox::next_chunk`] until it returns nothing. The reader feeds
//! [`Pipeline::deliver`]; the sweeper calls [`Pipeline::sweep`]; and [`Pipeline::fail`] ends it.
//!
//! A ticket that is given up ([`Pipeline::abandon`]) leaves its place in the queue behind: the
//! reply still comes, is matched to that place, and is thrown away.

use std::collections::VecDeque;
use std::task::Poll;
use std::time::Duration;

use leasehold_resp::{Frame, encode_command};

use super::outbox::{Commit, Outbox};
use super::outcome::{Failure, Fault, Outcome};
use super::owed::{Owed, Refused};
use super::refusal::ServerError;
use crate::policy::Moment;

/// A claim on one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    index: usize,
    generation: u32,
}

/// Who waits for the reply of one command, until when, and where its bytes begin.
struct Slot<W> {
    generation: u32,
    /// Whether its reply has still to come.
    queued: bool,
    holder: Holder<W>,
    /// The offset of its first byte in all that was ever appended.
    starts_at: u64,
    asked_at: Moment,
    deadline: Moment,
    /// Its share of the connection's bound, given back when its reply came.
    weight: u32,
}

enum Holder<W> {
    Waits(Option<W>),
    Settled(Outcome),
    Owed(Owed),
    Gone,
}

impl<W> Holder<W> {
    fn owed(&self) -> Option<&Owed> {
        if let Self::Owed(owed) = self { Some(owed) } else { None }
    }
}

/// What a sweep found.
#[derive(Debug)]
pub enum Sweep {
    /// Commands are under way: sweep again.
    Busy,
    /// Nothing was under way since the last sweep: no more sweeps until a push asks for them.
    Idle,
    /// Nothing was read for too long.
    Dead(Fault),
}

/// How long a command may wait, and what it weighs.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// When the command was asked for.
    pub asked_at: Moment,
    /// When its caller gives up on a reply.
    pub deadline: Moment,
    /// What is given back to the connection's bound when its reply came.
    pub weight: u32,
}

/// See the module's documentation.
pub struct Pipeline<W> {
    outbox: Outbox,
    slots: Vec<Slot<W>>,
    free: Vec<usize>,
    waiting: VecDeque<usize>,
    freed_weight: usize,
    /// A waker that another took the place of: see [`Pipeline::take_displaced`].
    displaced: Option<W>,
    /// What was owed and unanswered when the connection ended.
    unanswered: Vec<Owed>,
    /// What was owed and refused.
    refused: Vec<Refused>,
    /// Whether the sweeper runs.
    sweeping: bool,
    /// Whether anything was read, or began to wait in an empty queue, since the last sweep.
    stirred: bool,
    silent_since: Moment,
    fault: Option<Fault>,
}

impl<W: Clone> Default for Pipeline<W> {
    fn default() -> Self {
        Self {
            outbox: Outbox::default(),
            slots: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            freed_weight: 0,
            displaced: None,
            unanswered: Vec::new(),
            refused: Vec::new(),
            sweeping: false,
            stirred: false,
            silent_since: Moment::from_nanos(0),
            fault: None,
        }
    }
}

impl<W: Clone> Pipeline<W> {
    /// Why the connection ended, once it did.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Whether no slot is in use.
    #[cfg(test)]
    pub fn is_unused(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Commands whose replies have still to come, abandoned ones included.
    #[cfg(any(test, fuzzing))]
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// Appends a command and takes a place in the queue of replies.
    ///
    /// # Errors
    ///
    /// The connection's fault, once it has one: nothing of the command is sent.
    pub fn push(&mut self, args: &[&[u8]], terms: Terms) -> Result<Ticket, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let starts_at = self.outbox.append(|out| encode_command(out, args));
        Ok(self.enqueue(Holder::Waits(None), starts_at, terms))
    }

    /// As [`Pipeline::push`], for a reply that nobody will ask for; where a command has to go
    /// right `ahead` of it, with that one.
    ///
    /// # Errors
    ///
    /// What was to be sent, once nothing can be.
    pub fn push_owed(
        &mut self,
        owed: Owed,
        ahead: Option<&[&[u8]]>,
        asked_at: Moment,
    ) -> Result<(), Owed> {
        if self.outbox.is_closed() {
            return Err(owed);
        }
        if let Some(ahead) = ahead {
            let starts_at = self.outbox.append(|out| encode_command(out, ahead));
            let terms = Terms { asked_at, deadline: owed.pointless_at, weight: 0 };
            self.enqueue(Holder::Gone, starts_at, terms);
        }
        let starts_at = self.outbox.append(|out| out.extend_from_slice(&owed.command));
        let terms = Terms { asked_at, deadline: owed.pointless_at, weight: 0 };
        self.enqueue(Holder::Owed(owed), starts_at, terms);
        Ok(())
    }

    /// Appends a command that has no reply: its answers are pushes.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::push`].
    pub fn push_unanswered(&mut self, args: &[&[u8]]) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        self.outbox.append(|out| encode_command(out, args));
        Ok(())
    }

    fn enqueue(&mut self, holder: Holder<W>, starts_at: u64, terms: Terms) -> Ticket {
        self.stirred |= self.waiting.is_empty();
        let Terms { asked_at, deadline, weight } = terms;
        let index = self.free.pop().unwrap_or(self.slots.len());
        let generation = self.slots.get(index).map_or(0, |slot| slot.generation);
        let slot = Slot { generation, queued: true, holder, starts_at, asked_at, deadline, weight };
        match self.slots.get_mut(index) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.waiting.push_back(index);
        Ticket { index, generation }
    }

    /// Decides who sends what was pushed. With at most `write_inline` commands in flight it is
    /// the caller; with more it is the flusher, so that writes gather.
    pub fn commit(&mut self, write_inline: usize) -> Commit {
        self.outbox.commit(self.waiting.len() <= write_inline)
    }

    /// What is to be written, for whoever has the writer role.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
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

    /// Matches one frame to the command that waits longest; returns whom to wake.
    ///
    /// A push, known by its type alone, is nobody's reply: it is dropped here. Whoever wants to
    /// hear pushes takes them out before.
    ///
    /// # Errors
    ///
    /// When nothing waits that was sent: from here on no reply could be trusted. And the connection's fault,
    /// once it has one: nothing is matched any more.
    pub fn deliver(&mut self, frame: Frame) -> Result<Option<W>, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        self.stirred = true;
        if frame.is_push() {
            return Ok(None);
        }
        let sent = |&index: &usize| !self.outbox.is_unsent(self.slots[index].starts_at);
        if !self.waiting.front().is_some_and(sent) {
            return Err(Fault::Unsolicited);
        }
        let index = self.waiting.pop_front().expect("there is a first");
        Ok(self.answer(index, Ok(frame.into_value())))
    }

    /// Some bytes came, whether they completed a frame or not.
    pub fn note_read(&mut self) {
        self.stirred = true;
    }

    /// The slot has left the queue: settles it if somebody waits, frees it if nobody does.
    fn answer(&mut self, index: usize, outcome: Outcome) -> Option<W> {
        let slot = &mut self.slots[index];
        slot.queued = false;
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
                if let (Holder::Owed(owed), Ok(reply)) = (holder, outcome) {
                    let error = reply.error().map(|text| ServerError::new(text));
                    self.refused.extend(error.map(|error| Refused { owed, error }));
                }
                self.recycle(index);
                None
            }
        }
    }

    /// What was owed and refused since this was last asked.
    pub fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    fn recycle(&mut self, index: usize) {
        self.slots[index].generation = self.slots[index].generation.wrapping_add(1);
        self.free.push(index);
    }

    /// The weight of all that was answered since this was last asked.
    pub fn take_freed_weight(&mut self) -> usize {
        std::mem::take(&mut self.freed_weight)
    }

    /// The outcome of a ticket, or `waker` is kept to be woken when there is one.
    ///
    /// # Panics
    ///
    /// When the ticket was settled or abandoned before.
    pub fn poll(&mut self, ticket: Ticket, waker: &W) -> Poll<Outcome> {
        let slot = self.slot(ticket);
        match &mut slot.holder {
            Holder::Waits(kept) => {
                self.displaced = kept.replace(waker.clone());
                Poll::Pending
            }
            holder => {
                let Holder::Settled(outcome) = std::mem::replace(holder, Holder::Gone) else {
                    unreachable!("whoever has a ticket waits or is settled");
                };
                self.release(ticket.index);
                Poll::Ready(outcome)
            }
        }
    }

    /// The waker that the last poll put another in the place of, to be dropped where no lock is
    /// held: what goes with it is its own affair.
    pub fn take_displaced(&mut self) -> Option<W> {
        self.displaced.take()
    }

    /// Nobody will ask for this ticket's outcome any more. What waited for it is given back, to be
    /// dropped as [`Pipeline::take_displaced`] says.
    ///
    /// # Panics
    ///
    /// When the ticket was settled or abandoned before.
    pub fn abandon(&mut self, ticket: Ticket) -> Option<W> {
        let waited = std::mem::replace(&mut self.slot(ticket).holder, Holder::Gone);
        self.release(ticket.index);
        if let Holder::Waits(waker) = waited { waker } else { None }
    }

    fn slot(&mut self, ticket: Ticket) -> &mut Slot<W> {
        let slot = &mut self.slots[ticket.index];
        assert_eq!(slot.generation, ticket.generation, "a ticket serves once");
        slot
    }

    /// Frees a slot that has no holder left, unless its reply has still to come.
    fn release(&mut self, index: usize) {
        if !self.slots[index].queued {
            self.recycle(index);
        }
    }

    /// Settles what has waited too long (its place in the queue stays), and finds out whether the
    /// connection is dead: commands wait, and nothing was read for `dead_after`.
    pub fn sweep(&mut self, now: Moment, dead_after: Duration, woken: &mut Vec<W>) -> Sweep {
        let stirred = std::mem::take(&mut self.stirred);
        if stirred {
            self.silent_since = now;
        }
        if self.waiting.is_empty() {
            self.sweeping = stirred;
            return if stirred { Sweep::Busy } else { Sweep::Idle };
        }
        for &index in &self.waiting {
            let slot = &mut self.slots[index];
            if slot.deadline > now {
                continue;
            }
            if let Holder::Waits(waker) = &mut slot.holder {
                woken.extend(waker.take());
                let waited = slot.deadline.since(slot.asked_at);
                slot.holder = Holder::Settled(Err(Failure::Unknown(Fault::Timeout(waited))));
            }
        }
        let silent_for = now.since(self.silent_since);
        if silent_for >= dead_after { Sweep::Dead(Fault::Silent(silent_for)) } else { Sweep::Busy }
    }

    /// Ends the connection: what waits is told whether any of its bytes were handed to a writer,
    /// nothing is taken or matched any more. The first fault stays.
    pub fn fail(&mut self, fault: Fault, woken: &mut Vec<W>) {
        self.orphan(fault, woken);
        self.outbox.close();
    }

    /// Nobody reads any more: as [`Pipeline::fail`], but what is owed can still be sent.
    pub fn orphan(&mut self, fault: Fault, woken: &mut Vec<W>) {
        let fault = self.fault.get_or_insert(fault).clone();
        while let Some(index) = self.waiting.pop_front() {
            self.unanswered.extend(self.slots[index].holder.owed().cloned());
            let is_unsent = self.outbox.is_unsent(self.slots[index].starts_at);
            let failure = if is_unsent { Failure::NotSent } else { Failure::Unknown };
            woken.extend(self.answer(index, Err(failure(fault.clone()))));
        }
    }
}

#[cfg(test)]
mod tests;
