//! Values without members, judged but not yet taken off the buffer.
//!
//! Small and plain to pass around, where a frame costs to move: the frame is made where it is to
//! be.

use bytes::{Buf, Bytes, BytesMut};

use crate::Frame;
use crate::line::CRLF;

/// The bytes of a verbatim string in front of its text: the format and a colon.
pub(crate) const FORMAT_LEN: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaf {
    Null,
    /// A simple string whose text is static: it holds on to no buffer, and counts no references.
    Known(&'static str),
    Integer(i64),
    Boolean(bool),
    Double(f64),
    /// A line at the front of the buffer, whose content has `len` bytes.
    Line {
        text: LineType,
        len: usize,
    },
    /// The bytes of a string, which are at the front of the buffer with their CRLF.
    String {
        string: StringType,
        length: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LineType {
    Simple,
    Error,
    BigNumber,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StringType {
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
            Self::Double(number) => Frame::Double(number),
            Self::Line { text: LineType::Simple, len } => Frame::Simple(take_line(buf, len)),
            Self::Line { text: LineType::Error, len } => Frame::Error(take_line(buf, len)),
            Self::Line { text: LineType::BigNumber, len } => Frame::BigNumber(take_line(buf, len)),
            Self::String { string, length } => string.frame(take_string(buf, length)),
        }
    }
}

impl StringType {
    #[inline]
    fn frame(self, mut text: Bytes) -> Frame {
        match self {
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
fn take_line(buf: &mut BytesMut, len: usize) -> Bytes {
    let mut line = buf.split_to(1 + len + CRLF.len()).freeze();
    line.advance(1);
    line.truncate(len);
    line
}

#[inline]
fn take_string(buf: &mut BytesMut, length: usize) -> Bytes {
    let mut text = buf.split_to(length + CRLF.len()).freeze();
    text.truncate(length);
    text
}
