//! What the reply to a command can be, and what it says of those before it.

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame};

use super::fault::Fault;
use super::rules::Standing;

pub(super) const STAMP_DIGITS: usize = 16;

pub(super) type Digits = [u8; STAMP_DIGITS];

/// A stamp in a command or a reply.
pub(super) fn spelled(stamp: Digits) -> [u8; STAMP_DIGITS + 7] {
    let mut spelled = *b"$16\r\n0000000000000000\r\n";
    spelled[5..][..STAMP_DIGITS].copy_from_slice(&stamp);
    spelled
}

/// What the reply to a command can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A script's: the stamp, or an array that begins with it.
    Stamped(Digits),
    /// `OK` or nothing.
    Flag,
    /// This digest of a script.
    Digest(&'static [u8]),
    /// A number.
    Number,
    /// A text, or nothing.
    Text,
    /// No reply but an error: a push confirms the channel.
    Subscribed,
    /// Anything.
    Any,
}

impl Place {
    /// Takes the reply that there nearly always is, if it has come whole. Nobody needs the stamp once it has been seen.
    #[inline]
    pub(super) fn skip(
        self,
        decoder: &mut Decoder,
        bytes: &mut BytesMut,
    ) -> Option<(Frame, Standing)> {
        match self {
            Self::Stamped(digits) => {
                let is_it = decoder.skip(bytes, &spelled(digits));
                is_it.then(|| (Frame::Bulk(Bytes::new()), Standing::Proves))
            }
            Self::Flag => {
                let is_it = decoder.skip(bytes, b"+OK\r\n");
                is_it.then(|| (Frame::Simple(Bytes::from_static(b"OK")), Standing::Pends))
            }
            _ => None,
        }
    }

    pub(super) fn judge(self, frame: &Frame) -> Result<Standing, Fault> {
        let value = frame.value();
        let is_stamp = |frame: &Frame, digits: &Digits| matches!(frame, Frame::Bulk(text) if text[..] == *digits);
        match (self, value) {
            (Self::Stamped(digits), Frame::Bulk(_)) if is_stamp(value, &digits) => {
                Ok(Standing::Proves)
            }
            (Self::Stamped(digits), Frame::Array(items))
                if items.first().is_some_and(|first| is_stamp(first, &digits)) =>
            {
                Ok(Standing::Proves)
            }
            (Self::Digest(digest), Frame::Bulk(text)) if text[..] == *digest => Ok(Standing::Pends),
            (Self::Flag, Frame::Simple(_) | Frame::Null)
            | (Self::Number, Frame::Integer(_))
            | (Self::Text, Frame::Bulk(_) | Frame::Null)
            | (Self::Any, _) => Ok(Standing::Pends),
            _ => Err(Fault::Misplaced),
        }
    }
}
