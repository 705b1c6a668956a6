//! What a server tells a connection without a question: that a lock was handed over, and that a key has changed.
//!
//! Both come over the connection of the questions. A channel is its connection's own, so a server counts nobody for a
//! connection that has ended. Keys are tracked by `OPTIN`: only what a waiter reads is remembered, so those that do
//! not wait cost the server nothing. A server does not tell a connection of what that connection itself changed:
//! the machine knows of that.

use leasehold_resp::Frame;

use super::owner::{ID_LENGTH, write_digits};

/// What all channels begin with: `docs/acl.md` grants them by it.
const PREFIX: &[u8; 10] = b"leasehold:";
const CHANNEL_BYTES: usize = PREFIX.len() + ID_LENGTH;

/// What of it a reply is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    OfHandOvers,
    OfKeys,
}

/// Of one connection.
#[derive(Clone, Copy)]
pub(super) struct Subscription {
    channel: [u8; CHANNEL_BYTES],
    pub(super) is_asked: bool,
    /// The server has answered to all of it.
    pub(super) is_settled: bool,
    /// The server has confirmed the channel.
    pub(super) is_confirmed: bool,
    /// The server tells of changes to keys that are read behind `CLIENT CACHING YES`.
    pub(super) is_tracking: bool,
}

impl Subscription {
    pub(super) const NONE: Self = Self {
        channel: [0; CHANNEL_BYTES],
        is_asked: false,
        is_settled: false,
        is_confirmed: false,
        is_tracking: false,
    };

    /// The server is asked to tell of hand-overs on a channel of this number.
    pub(super) fn asked(id: u128) -> Self {
        let mut channel = [0; CHANNEL_BYTES];
        channel[..PREFIX.len()].copy_from_slice(PREFIX);
        write_digits(id, &mut channel[PREFIX.len()..]);
        Self { channel, is_asked: true, ..Self::NONE }
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.is_asked && !self.is_settled
    }

    pub(super) fn channel(&self) -> &[u8] {
        &self.channel
    }

    /// Whether a push says that the channel is subscribed to.
    pub(super) fn is_confirmed_by(&self, push: &Frame) -> bool {
        let Frame::Push(items) = push else { return false };
        let is = |item: &Frame, text: &[u8]| item.as_bytes().is_some_and(|word| word[..] == *text);
        matches!(&items[..], [kind, channel, ..] if is(kind, b"subscribe") && is(channel, &self.channel))
    }
}
