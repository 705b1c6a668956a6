//! What a peer may make a decoder hold.

/// Bounds on one top-level frame.
///
/// A length or a count that breaks one is refused when it is declared, not when its bytes come.
/// All of them count what is on the wire, so that a frame is refused or not whatever the machine.
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
