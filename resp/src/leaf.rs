//! Values without members, judged but not yet taken off the buffer.
//!
//! They are small and cheap to move, unlike frames: a frame is made where it is needed.

use bytes::{Buf, Bytes, BytesMut};

use crate::Frame;
use crate::scalar::CRLF;

/// The length of a verbatim string's format and colon, before its text.
pub(crate) const FORMAT_LEN: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaf {
    Null,
    /// A simple string with a static text, which keeps no buffer and counts no references.
    Known(&'static str),
    Integer(i64),
    Boolean(bool),
    /// The text at the front of the buffer: this many bytes and their CRLF.
    Text {
        text: TextType,
        len: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TextType {
    Simple,
    Error,
    BigNumber,
    Double,
    Bulk,
    BlobError,
    Verbatim,
}

impl Leaf {
    /// The value as a frame; its text, if it is one, is taken off `buf`.
    #[inline]
    pub(crate) fn take(self, buf: &mut BytesMut) -> Frame {
        match self {
            Self::Null => Frame::Null,
            Self::Known(text) => Frame::Simple(Bytes::from_static(text.as_bytes())),
            Self::Integer(number) => Frame::Integer(number),
            Self::Boolean(truth) => Frame::Boolean(truth),
            Self::Text { text, len } => text.frame(take_text(buf, len)),
        }
    }

    /// How many bytes [`Leaf::take`] takes off.
    #[inline]
    pub(crate) fn text_len(self) -> usize {
        match self {
            Self::Text { len, .. } => len + CRLF.len(),
            _ => 0,
        }
    }
}

impl TextType {
    #[inline]
    fn frame(self, mut text: Bytes) -> Frame {
        match self {
            Self::Simple => Frame::Simple(text),
            Self::Error => Frame::Error(text),
            Self::BigNumber => Frame::BigNumber(text),
            Self::Double => Frame::Double(text),
            Self::Bulk => Frame::Bulk(text),
            Self::BlobError => Frame::BlobError(text),
            Self::Verbatim => {
                let format = [text[0], text[1], text[2]];
                text.advance(FORMAT_LEN);
                Frame::Verbatim { format, text }
            }
        }
    }
}

#[inline]
fn take_text(buf: &mut BytesMut, len: usize) -> Bytes {
    let mut text = buf.split_to(len + CRLF.len()).freeze();
    text.truncate(len);
    text
}
