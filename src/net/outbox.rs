//! The bytes that wait to be written, and the role of their writer: no I/O here either.

use bytes::BytesMut;

use super::proof::{Digits, STAMP_DIGITS};

/// An `ECHO`, with room for a stamp.
const SEAL: &[u8] = b"*2\r\n$4\r\nECHO\r\n$16\r\n0000000000000000\r\n";
/// What a word ends with.
const CRLF_BYTES: usize = 2;
/// Buffers that grew past this are not kept for reuse.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;
/// Fewer commands than this are not worth a write before the flusher's turn: with it, 64 tasks on one
/// thread made half as many pairs again, and fewer tasks neither more nor less.
pub(super) const GATHERED_MIN: usize = if cfg!(any(leasehold_loom, fuzzing)) { 2 } else { 16 };

/// Encoded commands on their way to a writer. There is one writer at a time.
#[derive(Default)]
pub struct Outbox {
    outgoing: BytesMut,
    spare: BytesMut,
    /// Bytes ever appended.
    appended: u64,
    /// Of these, bytes ever handed to a writer: any of them may be on the wire.
    handed_out: u64,
    /// Commands that were appended since.
    gathered: usize,
    /// How many were given a reply and have not been seen since: each may be about to append.
    expected: usize,
    writer: Writer,
    /// The connection has ended: nothing is given out any more, not even what was left.
    closed: bool,
}

/// The present writer.
#[derive(Default)]
enum Writer {
    /// Nobody: the next commit decides.
    #[default]
    Idle,
    /// A caller or the flusher, right now.
    Active,
    /// The role waits for the flusher, with what the last writer could not get rid of.
    OnOffer(BytesMut),
}

/// The party that is to write what was appended.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// The caller that asked.
    Ours,
    /// The flusher, which is to be woken.
    Flushers,
    /// The present writer, which writes already.
    Others,
}

/// What a commit asks of its caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Commit {
    /// Write this, then ask for the next chunk: the caller is the writer now.
    Write(BytesMut),
    /// Wake the flusher: it is to be the writer.
    WakeFlusher,
    /// Nothing to do: somebody is writing already and will take this along.
    Queued,
}

impl Outbox {
    /// Appends what `encode` writes; returns the offset at which it begins.
    pub(super) fn append(&mut self, encode: impl FnOnce(&mut BytesMut)) -> u64 {
        self.gathered += 1;
        self.expected = self.expected.saturating_sub(1);
        self.append_part(encode)
    }

    /// The same of a part of what another command is counted for.
    pub(super) fn append_part(&mut self, encode: impl FnOnce(&mut BytesMut)) -> u64 {
        let starts_at = self.appended;
        let before = self.outgoing.len();
        encode(&mut self.outgoing);
        self.appended += (self.outgoing.len() - before) as u64;
        starts_at
    }

    /// Writes a stamp into the room for it at the end of what was appended last.
    pub(super) fn stamp(&mut self, digits: &Digits) {
        let end = self.outgoing.len() - CRLF_BYTES;
        self.outgoing[end - STAMP_DIGITS..end].copy_from_slice(digits);
    }

    /// Appends a seal; returns the offset at which it begins.
    pub(super) fn append_seal(&mut self, digits: &Digits) -> u64 {
        let (starts_at, before) = (self.appended, self.outgoing.len());
        self.outgoing.extend_from_slice(SEAL);
        self.stamp(digits);
        self.appended += (self.outgoing.len() - before) as u64;
        starts_at
    }

    /// Somebody is woken by a reply, and is likely to have another command.
    pub(super) fn expect_one(&mut self) {
        self.expected += 1;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether nothing from this offset on was ever handed to a writer.
    pub(super) fn is_unsent(&self, offset: u64) -> bool {
        offset >= self.handed_out
    }

    /// Decides which party writes what was appended: the caller, at once, or the flusher, so that writes
    /// gather.
    ///
    /// With at most `write_inline` commands in flight it is the caller, but only the last of those
    /// that the same replies have woken. With more it is the flusher, until as many commands have
    /// gathered as the server has still to answer: it would soon have nothing to do.
    pub(super) fn take_turn(&mut self, in_flight: usize, write_inline: usize) -> Turn {
        let is_last_of_few = in_flight <= write_inline && self.expected == 0;
        let is_plenty = self.gathered >= GATHERED_MIN && 2 * self.gathered >= in_flight;
        let caller_may_write = is_last_of_few || is_plenty;
        let is_free = match &self.writer {
            Writer::Idle => true,
            // The flusher has been called, and has nothing to write before this.
            Writer::OnOffer(rest) => rest.is_empty() && caller_may_write,
            Writer::Active => false,
        };
        if self.outgoing.is_empty() || !is_free {
            return Turn::Others;
        }
        if caller_may_write {
            self.writer = Writer::Active;
            return Turn::Ours;
        }
        self.writer = Writer::OnOffer(BytesMut::new());
        Turn::Flushers
    }

    /// What the writer is to write.
    pub(super) fn hand_out(&mut self) -> BytesMut {
        self.handed_out = self.appended;
        self.gathered = 0;
        std::mem::replace(&mut self.outgoing, std::mem::take(&mut self.spare))
    }

    /// The writer has sent all it had and gives the buffer back: more to write, or the role ends.
    pub(super) fn next_chunk(&mut self, mut sent: BytesMut) -> Option<BytesMut> {
        sent.clear();
        // What the flusher gives back may be the empty buffer that called it.
        let is_larger = sent.capacity() > self.spare.capacity();
        if is_larger && sent.capacity() <= KEPT_BUFFER_BYTES {
            self.spare = sent;
        }
        if self.outgoing.is_empty() {
            self.writer = Writer::Idle;
            return None;
        }
        Some(self.hand_out())
    }

    /// The writer cannot go on without waiting: the role, and the rest, wait for the flusher.
    pub(super) fn hand_over(&mut self, rest: BytesMut) {
        self.writer = if self.closed { Writer::Idle } else { Writer::OnOffer(rest) };
    }

    /// The flusher takes the role if it is on offer, with what there is to write. A caller that has not come
    /// by now is expected no longer.
    pub(super) fn take_over(&mut self) -> Option<BytesMut> {
        self.expected = 0;
        match std::mem::replace(&mut self.writer, Writer::Active) {
            Writer::OnOffer(rest) if !rest.is_empty() => Some(rest),
            Writer::OnOffer(empty) => self.next_chunk(empty),
            other => {
                self.writer = other;
                None
            }
        }
    }

    /// Gives back the room that a handshake with its scripts took, and that single commands do not need.
    pub(super) fn give_room_back(&mut self) {
        self.spare = BytesMut::new();
        if self.outgoing.is_empty() {
            self.outgoing = BytesMut::new();
        }
    }

    /// Forgets what was not handed out, and what is on offer.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.outgoing = BytesMut::new();
        self.spare = BytesMut::new();
        if let Writer::OnOffer(rest) = &mut self.writer {
            rest.clear();
        }
    }
}
