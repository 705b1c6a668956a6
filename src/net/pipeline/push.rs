//! How commands get into a pipeline.

use bytes::BytesMut;
use leasehold_resp::encode_command;

use super::slots::Holder;
use super::{Pipeline, Terms, Ticket};
use crate::net::outcome::Fault;
use crate::net::owed::Owed;
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

    /// As [`Pipeline::push`], of a command that is encoded, with whom to wake for its outcome.
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
        let starts_at = self.outbox.append(encode);
        Ok(self.enqueue(Holder::Waits(waker.cloned()), starts_at, terms))
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
            let terms = Terms { asked_at, deadline: owed.again.pointless_at(), weight: 0 };
            self.enqueue(Holder::Gone, starts_at, terms);
        }
        let starts_at = self.outbox.append(|out| out.extend_from_slice(&owed.command));
        let terms = Terms { asked_at, deadline: owed.again.pointless_at(), weight: 0 };
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
        let ticket = self.slots.take(holder, starts_at, terms);
        self.waiting.push_back(ticket.index);
        ticket
    }
}
