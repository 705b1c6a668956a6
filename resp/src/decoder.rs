//! Bytes to frames, as they come.
//!
//! All state of a half-received frame is here: the open aggregates (`open.rs` has what each of them
//! waits for), the part of the innermost value that is being read, and the use of the frame's limits.
//! A line is checked in this order, whatever pieces it comes in: its type and whether that may be
//! here, its bound and its end, the frame's bytes, the number of values, and then its content.

use bytes::{Buf, BytesMut};

use crate::leaf::{FORMAT_LEN, Leaf, TextType};
use crate::limits::Budget;
use crate::line::{self, LineEnd};
use crate::open::{Aggregate, Left, List, Open, Pairs};
use crate::scalar::{CRLF, Length};
use crate::{DecodeError, Frame, Limits};

/// Turns a peer's bytes into frames.
///
/// Received bytes are appended to one buffer; [`Decoder::decode`] takes whole values off its front
/// and remembers what it has seen of the rest. One decoder belongs to one connection: the buffer's
/// bytes must not be changed or replaced between calls.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    reading: Reading,
    open: Vec<Open>,
    /// The chunks so far, while a streamed string is open.
    chunks: Option<BytesMut>,
    budget: Budget,
}

#[derive(Clone, Copy, Debug)]
enum State {
    BetweenFrames,
    WithinFrame,
    Failed(DecodeError),
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    /// A line whose first `scanned` content bytes are known to hold no end.
    Line { scanned: usize },
    /// The bytes of a string after its line.
    Payload { text: TextType, len: usize },
    /// The bytes of a streamed string's next chunk after its line.
    Chunk { length: usize },
}

impl Reading {
    const NEW_LINE: Self = Self::Line { scanned: 0 };
}

/// The meaning of the bytes at the front of the buffer.
enum Event {
    /// More bytes are needed.
    Starved,
    /// The bytes opened, continued or ended a value.
    Progress,
    Leaf(Leaf),
    /// The bytes ended a string that came in chunks.
    LastChunk,
}

impl Decoder {
    /// A decoder at the beginning of a connection.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            state: State::BetweenFrames,
            reading: Reading::NEW_LINE,
            open: Vec::new(),
            chunks: None,
            budget: Budget::new(limits),
        }
    }

    /// Takes the next frame off the front of `buf`, or returns `None` if more bytes are needed.
    ///
    /// Call it until it returns `None`, then append to `buf` and call it again. Parts of a frame
    /// that have been read are taken off `buf` before the frame is whole.
    ///
    /// # Errors
    ///
    /// The peer broke the protocol or a limit. That is final: every later call returns the same error.
    #[inline]
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        // Most replies to a lock's commands are single values. They need no state; and inlined,
        // their frame is not moved from call to call, which costs more than reading it.
        if matches!(self.state, State::BetweenFrames) {
            if let Some((leaf, skipped)) = line::common_leaf(buf, self.budget.limits()) {
                if self.budget.allows_frame(skipped + leaf.text_len()) {
                    buf.advance(skipped);
                    return Ok(Some(leaf.take(buf)));
                }
            }
        }
        self.decode_any(buf)
    }

    /// Takes the next frame off the front of `buf` without making it, if its bytes are these: for expected replies. The
    /// limits are not checked.
    #[inline]
    pub fn skip(&mut self, buf: &mut BytesMut, frame: &[u8]) -> bool {
        let is_it = matches!(self.state, State::BetweenFrames) && buf.starts_with(frame);
        if is_it {
            buf.advance(frame.len());
        }
        is_it
    }

    /// Whether an incomplete frame at the front, if any, is a push. `buf` has the bytes that
    /// [`Decoder::decode`] has left.
    #[must_use]
    pub fn is_in_push(&self, buf: &[u8]) -> bool {
        match self.open.first() {
            Some(outermost) => outermost.is_push(),
            None => buf.first() == Some(&b'>'),
        }
    }

    fn decode_any(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        match self.state {
            State::Failed(error) => return Err(error),
            State::WithinFrame => {}
            State::BetweenFrames if buf.is_empty() => return Ok(None),
            State::BetweenFrames => {
                if let Some(array) = self.take_short_array(buf) {
                    return Ok(Some(array));
                }
                self.budget.renew();
            }
        }
        let outcome = self.read_frame(buf);
        self.state = match &outcome {
            Ok(Some(_)) => State::BetweenFrames,
            Ok(None) => State::WithinFrame,
            Err(error) => State::Failed(*error),
        };
        outcome
    }

    /// Takes an array of few common leaves, if all of it is at the front of `buf`: most replies of several values are
    /// such arrays, which need no state.
    fn take_short_array(&self, buf: &mut BytesMut) -> Option<Frame> {
        let [b'*', count @ b'1'..=b'9', b'\r', b'\n', ..] = buf[..] else { return None };
        let (count, limits) = (usize::from(count - b'0'), self.budget.limits());
        let mut leaves = [(Leaf::Null, 0); 9];
        let mut at = 4;
        for place in &mut leaves[..count] {
            let (leaf, skipped) = line::common_leaf(&buf[at..], limits)?;
            at += skipped + leaf.text_len();
            *place = (leaf, skipped);
        }
        let is_allowed = limits.depth > 0 && count <= limits.elements;
        if !is_allowed || !self.budget.allows_frame(at) {
            return None;
        }
        buf.advance(4);
        let take = |&(leaf, skipped): &(Leaf, usize)| {
            buf.advance(skipped);
            leaf.take(buf)
        };
        Some(Frame::Array(leaves[..count].iter().map(take).collect()))
    }

    fn read_frame(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        loop {
            let value = match self.next_event(buf)? {
                Event::Starved => return Ok(None),
                Event::Progress => None,
                Event::Leaf(leaf) => Some(leaf.take(buf)),
                Event::LastChunk => {
                    Some(Frame::Bulk(self.chunks.take().unwrap_or_default().freeze()))
                }
            };
            match (value, self.open.last_mut()) {
                (Some(value), None) => return Ok(Some(value)),
                (Some(value), Some(innermost)) => innermost.push(value),
                (None, _) => {}
            }
            self.read_common_members(buf);
            if let Some(frame) = self.close_whole() {
                return Ok(Some(frame));
            }
        }
    }

    /// Reads members of the innermost list as long as they are common leaves, between which nothing
    /// else has to be checked.
    fn read_common_members(&mut self, buf: &mut BytesMut) {
        if !matches!(self.reading, Reading::Line { scanned: 0 }) || self.chunks.is_some() {
            return;
        }
        let Some(Open::List { left: Left::Members(left), items, .. }) = self.open.last_mut() else {
            return;
        };
        while *left > 0 {
            let Some((leaf, skipped)) = line::common_leaf(buf, self.budget.limits()) else {
                return;
            };
            if self.budget.use_bytes(skipped + leaf.text_len()).is_err() {
                return;
            }
            buf.advance(skipped);
            items.push(leaf.take(buf));
            *left -= 1;
        }
    }

    /// Closes the aggregates that are whole, each into the one around it; returns the frame if
    /// that was the outermost.
    fn close_whole(&mut self) -> Option<Frame> {
        loop {
            let whole = self.open.last_mut()?.take_whole()?;
            self.open.pop();
            match self.open.last_mut() {
                Some(outer) => outer.push(whole),
                None => return Some(whole),
            }
        }
    }

    fn next_event(&mut self, buf: &mut BytesMut) -> Result<Event, DecodeError> {
        match self.reading {
            Reading::Line { scanned } => match self.find_line(buf, scanned)? {
                Some((kind, len)) => self.read_line(buf, kind, len),
                None => Ok(Event::Starved),
            },
            Reading::Payload { text, len } => self.read_payload(buf, text, len),
            Reading::Chunk { length } => self.read_chunk(buf, length),
        }
    }

    /// Reads the line at the front of `buf`, whose content has `len` bytes.
    fn read_line(
        &mut self,
        buf: &mut BytesMut,
        kind: u8,
        len: usize,
    ) -> Result<Event, DecodeError> {
        match kind {
            b'$' | b'!' | b'=' | b';' | b'*' | b'~' | b'%' | b'>' | b'|' => {
                let length = line::take_length(buf, len)?;
                self.begin(buf, kind, length)
            }
            b'.' => {
                line::skip(buf, len);
                if let Some(innermost) = self.open.last_mut() {
                    innermost.end();
                }
                Ok(Event::Progress)
            }
            _ => line::read_scalar(buf, kind, len).map(Event::Leaf),
        }
    }

    /// The type of the line at the front of `buf` and the length of its content, once all of it is
    /// there and counted.
    fn find_line(
        &mut self,
        buf: &[u8],
        scanned: usize,
    ) -> Result<Option<(u8, usize)>, DecodeError> {
        let Some((&kind, content)) = buf.split_first() else {
            return Ok(None);
        };
        self.check_place(kind)?;
        let bound = line::bound(kind, self.budget.limits().line_bytes)?;
        let len = match line::find_end(content, scanned, bound) {
            LineEnd::At(len) => len,
            LineEnd::NotIn(scanned) => {
                self.reading = Reading::Line { scanned };
                return Ok(None);
            }
            LineEnd::Bare => return Err(DecodeError::BareNewline),
            LineEnd::BeyondBound => return Err(line::too_long(kind, bound)),
        };
        self.reading = Reading::NEW_LINE;
        let line_len = 1 + len + CRLF.len();
        match kind {
            b'.' | b';' => self.budget.use_bytes(line_len)?,
            _ => self.begin_value(line_len)?,
        }
        Ok(Some((kind, len)))
    }

    /// Counts a value, by its first line.
    fn begin_value(&mut self, line_len: usize) -> Result<(), DecodeError> {
        self.budget.use_bytes(line_len)?;
        if self.open.last().is_some_and(Open::is_streamed) {
            self.budget.use_elements(1)?;
        }
        Ok(())
    }

    /// Whether a value of this type may be here, judged by the type alone.
    fn check_place(&self, kind: u8) -> Result<(), DecodeError> {
        match kind {
            b';' if self.chunks.is_none() => Err(DecodeError::UnexpectedChunk),
            b';' => Ok(()),
            _ if self.chunks.is_some() => Err(DecodeError::ExpectedChunk),
            b'>' if !self.open.is_empty() => Err(DecodeError::NestedPush),
            b'.' => self.open.last().ok_or(DecodeError::UnexpectedEnd)?.check_end(),
            _ => Ok(()),
        }
    }

    /// Begins the value that a length or a count announces.
    fn begin(
        &mut self,
        buf: &mut BytesMut,
        kind: u8,
        length: Length,
    ) -> Result<Event, DecodeError> {
        match (kind, length) {
            (b'$', Length::Of(length)) => self.begin_string(buf, TextType::Bulk, length),
            (b'$' | b'*', Length::Null) => Ok(Event::Leaf(Leaf::Null)),
            (b'$', Length::Streamed) => {
                self.chunks = Some(BytesMut::new());
                Ok(Event::Progress)
            }
            (b'!', Length::Of(length)) => self.begin_string(buf, TextType::BlobError, length),
            (b'=', Length::Of(length)) if length < FORMAT_LEN => Err(DecodeError::InvalidVerbatim),
            (b'=', Length::Of(length)) => self.begin_string(buf, TextType::Verbatim, length),
            (b';', Length::Of(0)) => Ok(Event::LastChunk),
            (b';', Length::Of(length)) => self.begin_chunk(length),
            (b'*', _) => self.begin_aggregate(Aggregate::List(List::Array), length),
            (b'~', _) => self.begin_aggregate(Aggregate::List(List::Set), length),
            (b'%', _) => self.begin_aggregate(Aggregate::Pairs(Pairs::Map), length),
            (b'>', Length::Of(_)) => self.begin_aggregate(Aggregate::List(List::Push), length),
            (b'|', Length::Of(_)) => {
                self.begin_aggregate(Aggregate::Pairs(Pairs::Attributes), length)
            }
            _ => Err(DecodeError::InvalidLength),
        }
    }

    #[inline(never)]
    fn begin_string(
        &mut self,
        buf: &mut BytesMut,
        text: TextType,
        len: usize,
    ) -> Result<Event, DecodeError> {
        self.budget.use_string(0, len)?;
        self.reading = Reading::Payload { text, len };
        self.read_payload(buf, text, len)
    }

    fn begin_chunk(&mut self, length: usize) -> Result<Event, DecodeError> {
        let before = self.chunks.as_ref().map_or(0, BytesMut::len);
        self.budget.use_string(before, length)?;
        self.reading = Reading::Chunk { length };
        Ok(Event::Progress)
    }

    #[inline(never)]
    fn begin_aggregate(
        &mut self,
        aggregate: Aggregate,
        length: Length,
    ) -> Result<Event, DecodeError> {
        let left = match length {
            Length::Of(count) => Left::Members(count),
            Length::Streamed => Left::UntilEnd,
            Length::Null => return Err(DecodeError::InvalidLength),
        };
        self.budget.check_depth(self.open.len())?;
        self.budget.use_elements(aggregate.announced(left))?;
        self.open.push(Open::new(aggregate, left));
        Ok(Event::Progress)
    }

    #[inline(never)]
    fn read_payload(
        &mut self,
        buf: &[u8],
        text: TextType,
        len: usize,
    ) -> Result<Event, DecodeError> {
        if !line::is_payload_whole(buf, len)? {
            return Ok(Event::Starved);
        }
        if matches!(text, TextType::Verbatim) && buf[FORMAT_LEN - 1] != b':' {
            return Err(DecodeError::InvalidVerbatim);
        }
        self.reading = Reading::NEW_LINE;
        Ok(Event::Leaf(Leaf::Text { text, len }))
    }

    fn read_chunk(&mut self, buf: &mut BytesMut, length: usize) -> Result<Event, DecodeError> {
        if !line::is_payload_whole(buf, length)? {
            return Ok(Event::Starved);
        }
        self.reading = Reading::NEW_LINE;
        self.chunks.get_or_insert_default().extend_from_slice(&buf[..length]);
        buf.advance(length + CRLF.len());
        Ok(Event::Progress)
    }
}
