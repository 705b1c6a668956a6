//! Replies, one by one: each can be lost, repeated or preceded by another.

use bytes::BytesMut;
use leasehold_resp::{Decoder, Limits, encode_frame};

/// A fault of one reply, not counting pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The reply is dropped.
    Lost,
    /// The reply is delivered twice.
    Twice,
    /// This frame, in RESP, is delivered before it.
    Stray(&'static [u8]),
    /// It and all later replies on its connection are replaced by pushes.
    OnlyPushes,
}

/// The push that replaces a reply.
const PUSH: &[u8] = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$7\r\nnothing\r\n";

/// The replies on one connection, whole or in parts.
pub(super) struct Replies {
    decoder: Decoder,
    received: BytesMut,
    are_over: bool,
}

impl Default for Replies {
    fn default() -> Self {
        let decoder = Decoder::new(Limits::default());
        Self { decoder, received: BytesMut::new(), are_over: false }
    }
}

impl Replies {
    /// The bytes to deliver for these. A part of a frame is kept until the rest has come.
    pub(super) fn pass(&mut self, bytes: &[u8], mut harm: impl FnMut() -> Option<Harm>) -> Vec<u8> {
        self.received.extend_from_slice(bytes);
        let mut passed = BytesMut::new();
        while let Some(reply) =
            self.decoder.decode(&mut self.received).expect("a server keeps to its protocol")
        {
            let harm = if reply.is_push() || self.are_over { None } else { harm() };
            self.are_over |= harm == Some(Harm::OnlyPushes);
            if self.are_over && !reply.is_push() {
                passed.extend_from_slice(PUSH);
                continue;
            }
            if let Some(Harm::Stray(stray)) = harm {
                passed.extend_from_slice(stray);
            }
            let times = match harm {
                Some(Harm::Lost) => 0,
                Some(Harm::Twice) => 2,
                _ => 1,
            };
            (0..times).for_each(|_| encode_frame(&mut passed, &reply));
        }
        passed.to_vec()
    }
}
