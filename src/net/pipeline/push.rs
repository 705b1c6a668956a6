//! How commands get into a pipeline, and are given what proves their replies.

use bytes::BytesMut;
use leasehold_resp::encode_command;

use super::slots::Holder;
use super::{Pipeline, Terms, Ticket};
use crate::net::outbox::{Commit, Turn};
use crate::net::outcome::Fault;
use crate::net::owed::Owed;
use crate::net::proof::{Expected, Place, Seal};
use crate::policy::Moment;

impl<W: Clone> Pipeline<W> {
    /// Appends a command and takes a place in the queue of replies.
    ///
    /// # Errors
    ///
    /// The connection's fault, once it has one: nothing of the command is sent.
    pub fn push(&mut self, args: &[&[u8]], terms: Terms) -> Result<Ticket, Fault> {
        self.append(|out| encode_command(out, args), terms, None)
    }

    /// As [`Pipeline::push`], of a command that is encoded, with the waker to call for its outcome.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::push`].
    pub fn push_encoded(
        &mut self,
        command: &[u8],
        terms: Terms,
        waker: &W,
    ) -> Result<Ticket, Fault> {
        self.append(|out| out.extend_from_slice(command), terms, Some(waker))
    }

    /// As [`Pipeline::push`], of several commands that are one for their caller: nothing comes between
    /// them, and the last of their replies alone wakes the caller.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::push`].
    #[inline]
    pub fn push_all<const N: usize>(
        &mut self,
        commands: [(&[&[u8]], Terms); N],
        waker: &W,
    ) -> Result<[Ticket; N], Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        Ok(commands.map(|(args, terms)| {
            let waker = (!terms.expected.is_part()).then(|| waker.clone());
            self.enqueue(|out| encode_command(out, args), Holder::Waits(waker), terms)
        }))
    }

    #[inline]
    fn append(
        &mut self,
        encode: impl FnOnce(&mut BytesMut),
        terms: Terms,
        waker: Option<&W>,
    ) -> Result<Ticket, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        Ok(self.enqueue(encode, Holder::Waits(waker.cloned()), terms))
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
        let deadline = owed.again.pointless_at();
        let terms = |expected| Terms { expected, asked_at, deadline, weight: 0 };
        if let Some(ahead) = ahead {
            let encode = |out: &mut BytesMut| encode_command(out, ahead);
            self.enqueue(encode, Holder::Gone, terms(Expected::Flag));
        }
        let (command, terms) = (owed.command.clone(), terms(owed.expected));
        self.enqueue(|out| out.extend_from_slice(&command), Holder::Owed(owed), terms);
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

    #[inline]
    fn enqueue(
        &mut self,
        encode: impl FnOnce(&mut BytesMut),
        holder: Holder<W>,
        terms: Terms,
    ) -> Ticket {
        let starts_at = if terms.expected.is_part() {
            self.parts += 1;
            self.outbox.append_part(encode)
        } else {
            self.outbox.append(encode)
        };
        let place = match terms.expected {
            Expected::Stamp => {
                let stamp = self.stamps.next();
                self.outbox.stamp(&stamp.digits);
                self.is_unsealed = false;
                Place::Stamped(stamp)
            }
            expected => {
                self.is_unsealed |= expected.is_pending();
                Place::Unstamped(expected)
            }
        };
        self.stirred |= self.waiting.is_empty();
        let ticket = self.slots.take(holder, place, starts_at, terms);
        self.waiting.push_back(ticket.index);
        ticket
    }

    /// Decides which party sends what was pushed, as [`Outbox::take_turn`] says.
    ///
    /// [`Outbox::take_turn`]: crate::net::outbox::Outbox
    pub fn commit(&mut self, write_inline: usize) -> Commit {
        match self.outbox.take_turn(self.waiting.len() - self.parts, write_inline) {
            Turn::Ours => {
                self.seal();
                Commit::Write(self.outbox.hand_out())
            }
            Turn::Flushers => Commit::WakeFlusher,
            Turn::Others => Commit::Queued,
        }
    }

    /// As [`Outbox::next_chunk`].
    ///
    /// [`Outbox::next_chunk`]: crate::net::outbox::Outbox
    pub fn next_chunk(&mut self, sent: BytesMut) -> Option<BytesMut> {
        self.seal();
        self.outbox.next_chunk(sent)
    }

    /// As [`Outbox::take_over`].
    ///
    /// [`Outbox::take_over`]: crate::net::outbox::Outbox
    pub fn take_over(&mut self) -> Option<BytesMut> {
        self.seal();
        self.outbox.take_over()
    }

    /// As [`Outbox::give_room_back`].
    ///
    /// [`Outbox::give_room_back`]: crate::net::outbox::Outbox
    pub fn give_room_back(&mut self) {
        self.outbox.give_room_back();
    }

    /// Puts a seal behind what was pushed, if a reply to any of it needs a proof and nothing behind it
    /// is one: one a write at the most, so that it costs little where many write together.
    #[inline]
    fn seal(&mut self) {
        if self.is_unsealed {
            self.ask();
        }
    }

    /// Puts a seal behind all that waits.
    pub fn ask(&mut self) {
        self.is_unsealed = false;
        if self.outbox.is_closed() {
            return;
        }
        let digits = self.stamps.next().digits;
        let starts_at = self.outbox.append_seal(&digits);
        let behind = self.answered + self.waiting.len() as u64;
        self.seals.push_back(Seal { behind, starts_at, digits });
    }
}
