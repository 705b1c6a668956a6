//! The limits of what a peer may make a decoder hold, and a frame's use of them.

use crate::DecodeError;
use crate::scalar::CRLF;

/// Bounds on one top-level frame.
///
/// A length or a count beyond a limit is refused when it is declared, not when its bytes come.
/// All limits count bytes or values on the wire, so they are the same on every machine.
/// Make your own from the default: `Limits { depth: 8, ..Limits::default() }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many arrays, maps, sets, pushes and attributes may be open at once. A value is inside
    /// the attribute that precedes it.
    ///
    /// Default 128: replies of Redis itself stay under ten. Decoding would bear more, but dropping
    /// and comparing frames is recursive; so more than [`Limits::DEPTH_MAX`] counts as that.
    pub depth: usize,
    /// How many bytes one string may have, in all of its chunks together; the format of a verbatim
    /// string counts.
    ///
    /// Default 512 MiB: `proto-max-bulk-len`, the most that Redis stores in one string.
    pub bulk_bytes: usize,
    /// How many values there may be inside one frame, at all levels together. A key, a value and
    /// an attribute's key and value are one each; an attribute itself is none.
    ///
    /// Default 1,048,576: an element can cost 3 bytes on the wire and takes 40 or more in memory,
    /// so `frame_bytes` alone would allow a reply to grow more than tenfold.
    pub elements: usize,
    /// How many bytes a simple string, an error, a double or a big number may have. The lines that
    /// hold an integer, a length or less have narrower bounds of their own.
    ///
    /// Default 64 KiB: the longest line that Redis itself accepts.
    pub line_bytes: usize,
    /// How many bytes one frame may have on the wire, from its type to its last line's end.
    ///
    /// Default 1 GiB: what Redis allows for one command by default (`client-query-buffer-limit`).
    pub frame_bytes: usize,
}

impl Limits {
    /// The deepest nesting that any limit allows: frames this deep can be dropped and compared on
    /// a small thread's stack.
    pub const DEPTH_MAX: usize = 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 128,
            bulk_bytes: 512 << 20,
            elements: 1 << 20,
            line_bytes: 64 << 10,
            frame_bytes: 1 << 30,
        }
    }
}

/// One frame's use of its limits.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    frame_bytes: usize,
    elements: usize,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        let depth = limits.depth.min(Limits::DEPTH_MAX);
        Self { limits: Limits { depth, ..limits }, frame_bytes: 0, elements: 0 }
    }

    /// Begins another frame.
    pub(crate) fn renew(&mut self) {
        self.frame_bytes = 0;
        self.elements = 0;
    }

    #[inline]
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether a frame may have this many bytes in all.
    #[inline]
    pub(crate) fn allows_frame(&self, bytes: usize) -> bool {
        bytes <= self.limits.frame_bytes
    }

    pub(crate) fn check_depth(&self, open: usize) -> Result<(), DecodeError> {
        let limit = self.limits.depth;
        if open < limit { Ok(()) } else { Err(DecodeError::TooDeep { limit }) }
    }

    #[inline]
    pub(crate) fn use_bytes(&mut self, bytes: usize) -> Result<(), DecodeError> {
        let limit = self.limits.frame_bytes;
        self.frame_bytes = sum_within(self.frame_bytes, bytes, limit)
            .ok_or(DecodeError::FrameTooLong { limit })?;
        Ok(())
    }

    pub(crate) fn use_elements(&mut self, count: usize) -> Result<(), DecodeError> {
        let limit = self.limits.elements;
        self.elements = sum_within(self.elements, count, limit)
            .ok_or(DecodeError::TooManyElements { limit })?;
        Ok(())
    }

    /// Counts the bytes that a string's line announced; `before` of the string came in chunks.
    pub(crate) fn use_string(&mut self, before: usize, length: usize) -> Result<(), DecodeError> {
        let limit = self.limits.bulk_bytes;
        sum_within(before, length, limit).ok_or(DecodeError::BulkTooLong { limit })?;
        self.use_bytes(length.saturating_add(CRLF.len()))
    }
}

fn sum_within(used: usize, more: usize, limit: usize) -> Option<usize> {
    used.checked_add(more).filter(|&sum| sum <= limit)
}
