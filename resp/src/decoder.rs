//! Bytes to frames, as they come.
//!
//! All state of a half-received frame is here: the aggregates that are open (`open.rs` says what
//! each of them waits for), what is being read of the innermost value, and what the frame has used
//! up of its limits. A value is judged in this order, whatever pieces it comes in: its type byte
//! and whether it may stand there, its line's bound and end, the frame's bytes, the number of
//! values, then what the line says.

use bytes::{Buf, Bytes, BytesMut};

use crate::open::{Left, List, Open, Pairs};
use crate::scalar::{self, Length};
use crate::{DecodeError, Frame, Limits};

const CRLF_LEN: usize = 2;

/// The bytes of a verbatim string in front of its text: the format and a colon.
const FORMAT_LEN: usize = 4;

/// Turns what a peer sends into frames.
///
/// Received bytes are appended to one buffer; [`Decoder::decode`] takes whole values off its front
/// and remembers what it has seen of the rest. One decoder belongs to one connection: the buffer's
/// bytes must not be changed or replaced between calls.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    open: Vec<Open>,
    reading: Reading,
    /// The chunks so far, while a streamed string is open.
    chunks: Option<BytesMut>,
    frame_bytes: usize,
    elements: usize,
    failure: Option<DecodeError>,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    /// A line, of whose content `scanned` bytes are known to hold no end.
    Line { scanned: usize },
    /// The bytes of a string, whose line has been read.
    Payload { string: StringType, length: usize },
}

#[derive(Clone, Copy, Debug)]
enum StringType {
    Bulk,
    BlobError,
    Verbatim,
    Chunk,
}

enum Step {
    /// More bytes are needed.
    Starved,
    /// Something was read that is no value yet.
    Onward,
    Value(Frame),
}

impl Decoder {
    /// A decoder at the beginning of a connection.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Limits {
                depth: limits.depth.min(Limits::DEPTH_MAX),
                ..limits
            },
            open: Vec::new(),
            reading: Reading::Line { scanned: 0 },
            chunks: None,
            frame_bytes: 0,
            elements: 0,
            failure: None,
        }
    }

    /// Takes the next frame off the front of `buf`, or returns `None` if more bytes are needed.
    ///
    /// Call it until it returns `None`, then append to `buf` and call it again. Parts of a frame
    /// that have been understood are taken off `buf` before the frame is whole.
    ///
    /// # Errors
    ///
    /// What the peer did wrong. That is final: every later call returns the same error.
    #[inline]
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.advance(buf)
            .inspect_err(|&failure| self.failure = Some(failure))
    }

    fn advance(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        loop {
            let step = match self.reading {
                Reading::Line { scanned } => self.read_line(buf, scanned)?,
                Reading::Payload { string, length } => self.read_payload(buf, string, length)?,
            };
            match step {
                Step::Starved => return Ok(None),
                Step::Onward => {}
                Step::Value(value) => {
                    if let Some(frame) = self.place(value) {
                        self.frame_bytes = 0;
                        self.elements = 0;
                        return Ok(Some(frame));
                    }
                }
            }
        }
    }

    /// Puts a value where it belongs; returns the frame if that made it whole.
    fn place(&mut self, value: Frame) -> Option<Frame> {
        let mut value = value;
        while let Some(innermost) = self.open.last_mut() {
            value = innermost.accept(value)?;
            self.open.pop();
        }
        Some(value)
    }

    fn read_line(&mut self, buf: &mut BytesMut, scanned: usize) -> Result<Step, DecodeError> {
        let Some((&kind, content)) = buf.split_first() else {
            return Ok(Step::Starved);
        };
        self.check_place(kind)?;
        let bound = self.line_bound(kind)?;
        let end = match find_line_end(content, scanned, bound) {
            LineEnd::At(end) => end,
            LineEnd::NotIn(scanned) => {
                self.reading = Reading::Line { scanned };
                return Ok(Step::Starved);
            }
            LineEnd::Bare => return Err(DecodeError::BareNewline),
            LineEnd::BeyondBound => return Err(self.over_long(kind)),
        };
        self.reading = Reading::Line { scanned: 0 };
        self.use_bytes(1 + end + CRLF_LEN)?;
        if !matches!(kind, b'.' | b';') && self.open.last().is_some_and(Open::is_streamed) {
            self.use_elements(1)?;
        }
        self.read_content(buf, kind, end)
    }

    /// Reads the line at the front of `buf`, whose content has `len` bytes, and takes it off.
    fn read_content(
        &mut self,
        buf: &mut BytesMut,
        kind: u8,
        len: usize,
    ) -> Result<Step, DecodeError> {
        let content = &buf[1..=len];
        let value = match kind {
            b'+' => return Ok(Step::Value(Frame::Simple(take_simple(buf, len)))),
            b'-' => return Ok(Step::Value(Frame::Error(take_line(buf, len)))),
            b'(' if scalar::is_big_number(content) => {
                return Ok(Step::Value(Frame::BigNumber(take_line(buf, len))));
            }
            b':' => scalar::integer(content).map(Frame::Integer),
            b'#' => scalar::boolean(content).map(Frame::Boolean),
            b',' => scalar::double(content).map(Frame::Double),
            b'_' => Some(Frame::Null),
            b'.' => Some(self.end_streamed()?),
            b'$' | b'!' | b'=' | b';' | b'*' | b'~' | b'>' | b'%' | b'|' => {
                let length = scalar::length(content).ok_or(DecodeError::InvalidLength)?;
                buf.advance(1 + len + CRLF_LEN);
                return match kind {
                    b'$' | b'!' | b'=' | b';' => self.begin_string(kind, length),
                    _ => self.begin_aggregate(kind, length),
                };
            }
            _ => None,
        };
        let value = value.ok_or_else(|| malformed(kind))?;
        buf.advance(1 + len + CRLF_LEN);
        Ok(Step::Value(value))
    }

    fn end_streamed(&mut self) -> Result<Frame, DecodeError> {
        self.open
            .pop()
            .and_then(|mut open| open.finish())
            .ok_or(DecodeError::UnexpectedEnd)
    }

    fn begin_string(&mut self, kind: u8, length: Length) -> Result<Step, DecodeError> {
        let (string, length) = match (kind, length) {
            (b'$', Length::Null) => return Ok(Step::Value(Frame::Null)),
            (b'$', Length::Streamed) => {
                self.chunks = Some(BytesMut::new());
                return Ok(Step::Onward);
            }
            (b'$', Length::Of(length)) => (StringType::Bulk, length),
            (b'!', Length::Of(length)) => (StringType::BlobError, length),
            (b'=', Length::Of(length)) if length < FORMAT_LEN => {
                return Err(DecodeError::InvalidVerbatim);
            }
            (b'=', Length::Of(length)) => (StringType::Verbatim, length),
            (b';', Length::Of(0)) => {
                let text = self.chunks.take().unwrap_or_default().freeze();
                return Ok(Step::Value(Frame::Bulk(text)));
            }
            (b';', Length::Of(length)) => (StringType::Chunk, length),
            _ => return Err(DecodeError::InvalidLength),
        };
        let already = self.chunks.as_ref().map_or(0, BytesMut::len);
        if length > self.limits.bulk_bytes.saturating_sub(already) {
            return Err(DecodeError::BulkTooLong {
                limit: self.limits.bulk_bytes,
            });
        }
        self.use_bytes(length.saturating_add(CRLF_LEN))?;
        self.reading = Reading::Payload { string, length };
        Ok(Step::Onward)
    }

    fn read_payload(
        &mut self,
        buf: &mut BytesMut,
        string: StringType,
        length: usize,
    ) -> Result<Step, DecodeError> {
        let Some(end) = buf.get(length..length + CRLF_LEN) else {
            return Ok(Step::Starved);
        };
        if end != b"\r\n" {
            return Err(DecodeError::UnterminatedString);
        }
        self.reading = Reading::Line { scanned: 0 };
        if let (StringType::Chunk, Some(chunks)) = (string, &mut self.chunks) {
            chunks.extend_from_slice(&buf[..length]);
            buf.advance(length + CRLF_LEN);
            return Ok(Step::Onward);
        }
        let mut text = buf.split_to(length + CRLF_LEN).freeze();
        text.truncate(length);
        Ok(Step::Value(match string {
            StringType::Bulk | StringType::Chunk => Frame::Bulk(text),
            StringType::BlobError => Frame::BlobError(text),
            StringType::Verbatim => verbatim(text)?,
        }))
    }

    fn begin_aggregate(&mut self, kind: u8, length: Length) -> Result<Step, DecodeError> {
        let (left, members) = match (kind, length) {
            (b'*', Length::Null) => return Ok(Step::Value(Frame::Null)),
            (b'*' | b'~' | b'%', Length::Streamed) => (Left::UntilEnd, 0),
            (_, Length::Of(count)) => (Left::Members(count), count),
            _ => return Err(DecodeError::InvalidLength),
        };
        if self.open.len() >= self.limits.depth {
            return Err(DecodeError::TooDeep {
                limit: self.limits.depth,
            });
        }
        self.use_elements(match kind {
            b'%' | b'|' => members.saturating_mul(2),
            _ => members,
        })?;
        let mut opened = match kind {
            b'*' => Open::list(List::Array, left),
            b'~' => Open::list(List::Set, left),
            b'>' => Open::list(List::Push, left),
            b'%' => Open::pairs(Pairs::Map, left),
            _ => Open::pairs(Pairs::Attributes, left),
        };
        let whole = if matches!(left, Left::Members(0)) {
            opened.finish()
        } else {
            None
        };
        Ok(whole.map_or_else(
            || {
                self.open.push(opened);
                Step::Onward
            },
            Step::Value,
        ))
    }

    /// Whether a value of this type may stand here, as far as that is known from the type alone.
    fn check_place(&self, kind: u8) -> Result<(), DecodeError> {
        match kind {
            b';' if self.chunks.is_none() => Err(DecodeError::UnexpectedChunk),
            b';' => Ok(()),
            _ if self.chunks.is_some() => Err(DecodeError::ExpectedChunk),
            b'>' if !self.open.is_empty() => Err(DecodeError::NestedPush),
            b'.' => self
                .open
                .last()
                .ok_or(DecodeError::UnexpectedEnd)?
                .check_end(),
            _ => Ok(()),
        }
    }

    /// How many bytes a line of this type may have between its type and its end.
    fn line_bound(&self, kind: u8) -> Result<usize, DecodeError> {
        match kind {
            b'+' | b'-' | b',' | b'(' => Ok(self.limits.line_bytes),
            b':' | b'$' | b'!' | b'=' | b';' | b'*' | b'~' | b'>' | b'%' | b'|' => {
                Ok(scalar::INTEGER_BYTES_MAX)
            }
            b'#' => Ok(1),
            b'_' | b'.' => Ok(0),
            _ => Err(DecodeError::UnknownType(kind)),
        }
    }

    /// What is wrong with a line of this type that is longer than its bound.
    fn over_long(&self, kind: u8) -> DecodeError {
        match kind {
            b'+' | b'-' | b',' | b'(' => DecodeError::LineTooLong {
                limit: self.limits.line_bytes,
            },
            _ => malformed(kind),
        }
    }

    fn use_bytes(&mut self, bytes: usize) -> Result<(), DecodeError> {
        let limit = self.limits.frame_bytes;
        use_up(&mut self.frame_bytes, bytes, limit).ok_or(DecodeError::FrameTooLong { limit })
    }

    fn use_elements(&mut self, elements: usize) -> Result<(), DecodeError> {
        let limit = self.limits.elements;
        use_up(&mut self.elements, elements, limit).ok_or(DecodeError::TooManyElements { limit })
    }
}

/// What is wrong with a line that does not say what its type says.
fn malformed(kind: u8) -> DecodeError {
    match kind {
        b':' => DecodeError::InvalidInteger,
        b'#' => DecodeError::InvalidBoolean,
        b'_' => DecodeError::InvalidNull,
        b',' => DecodeError::InvalidDouble,
        b'(' => DecodeError::InvalidBigNumber,
        b'.' => DecodeError::InvalidEnd,
        _ => DecodeError::InvalidLength,
    }
}

fn use_up(used: &mut usize, more: usize, limit: usize) -> Option<()> {
    *used = used.checked_add(more).filter(|&sum| sum <= limit)?;
    Some(())
}

enum LineEnd {
    /// The content has this many bytes, and CRLF is behind it.
    At(usize),
    /// The end has not come, and is not in this many bytes.
    NotIn(usize),
    /// A CR or an LF is there alone.
    Bare,
    BeyondBound,
}

/// Looks for the end of a line in its content, behind the bytes that were looked at before.
fn find_line_end(content: &[u8], scanned: usize, bound: usize) -> LineEnd {
    let visible = content.len().min(bound.saturating_add(1));
    let unseen = content.get(scanned..visible).unwrap_or_default();
    match memchr::memchr2(b'\r', b'\n', unseen) {
        None if content.len() > bound => LineEnd::BeyondBound,
        None => LineEnd::NotIn(visible),
        Some(offset) => {
            let end = scanned + offset;
            match content[end..] {
                [b'\r'] => LineEnd::NotIn(end),
                [b'\r', b'\n', ..] => LineEnd::At(end),
                _ => LineEnd::Bare,
            }
        }
    }
}

/// Takes a line off the front of `buf` and returns its content of `len` bytes.
fn take_line(buf: &mut BytesMut, len: usize) -> Bytes {
    let mut line = buf.split_to(1 + len + CRLF_LEN).freeze();
    line.advance(1);
    line.truncate(len);
    line
}

/// As [`take_line`], but the commonest replies share static text: they hold on to no buffer, and
/// count no references.
fn take_simple(buf: &mut BytesMut, len: usize) -> Bytes {
    let known: &'static [u8] = match &buf[1..=len] {
        b"OK" => b"OK",
        b"PONG" => b"PONG",
        b"QUEUED" => b"QUEUED",
        _ => return take_line(buf, len),
    };
    buf.advance(1 + len + CRLF_LEN);
    Bytes::from_static(known)
}

fn verbatim(mut text: Bytes) -> Result<Frame, DecodeError> {
    match text[..] {
        [a, b, c, b':', ..] => {
            text.advance(FORMAT_LEN);
            Ok(Frame::Verbatim {
                format: [a, b, c],
                text,
            })
        }
        _ => Err(DecodeError::InvalidVerbatim),
    }
}
