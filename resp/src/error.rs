//! The errors of a peer.

/// How the peer broke the protocol or a limit. Final for its connection: the beginning of the next
/// frame is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// No value begins with this byte.
    #[error("the peer began a value with byte 0x{0:02x}, which is no type of the protocol")]
    UnknownType(u8),
    /// A line has a CR without LF, or an LF without CR.
    #[error("the peer sent a CR or an LF that is not part of a line's CRLF")]
    BareNewline,
    /// The bytes of a string are not followed by CRLF.
    #[error("the peer sent a string whose declared length is not followed by CRLF")]
    UnterminatedString,
    /// An integer is not an optional `-` and digits in the range of 64 bits.
    #[error("the peer sent an integer that is not decimal digits within 64 bits")]
    InvalidInteger,
    /// A length or count is not of the forms that its type allows.
    #[error("the peer declared a length or count that its type does not allow")]
    InvalidLength,
    /// A boolean is neither `t` nor `f`.
    #[error("the peer sent a boolean that is neither t nor f")]
    InvalidBoolean,
    /// A null has bytes after its type.
    #[error("the peer sent a null with something in it")]
    InvalidNull,
    /// A double does not follow the grammar.
    #[error("the peer sent a double that is not a decimal number, inf, -inf or nan")]
    InvalidDouble,
    /// A big number is not an optional sign and digits.
    #[error("the peer sent a big number that is not decimal digits")]
    InvalidBigNumber,
    /// A verbatim string does not begin with three bytes of format and a colon.
    #[error("the peer sent a verbatim string without its format")]
    InvalidVerbatim,
    /// The end of a streamed aggregate has bytes after its type.
    #[error("the peer sent an end of a streamed aggregate with something in it")]
    InvalidEnd,
    /// An end while no streamed aggregate is open, or while a value is due.
    #[error("the peer ended a streamed aggregate where none could end")]
    UnexpectedEnd,
    /// A streamed map ended between a key and its value.
    #[error("the peer ended a streamed map behind a key that has no value")]
    KeyWithoutValue,
    /// A streamed aggregate ended between an attribute and its value.
    #[error("the peer ended a streamed aggregate behind an attribute that has no value")]
    AttributeWithoutValue,
    /// A chunk outside a streamed string.
    #[error("the peer sent a chunk of a string where no streamed string is open")]
    UnexpectedChunk,
    /// Something other than a chunk inside a streamed string.
    #[error("the peer sent something else than a chunk inside a streamed string")]
    ExpectedChunk,
    /// A push inside another value, or after an attribute.
    #[error("the peer sent a push message inside another value")]
    NestedPush,
    /// A line is longer than [`Limits::line_bytes`](crate::Limits::line_bytes).
    #[error("the peer sent a line longer than {limit} bytes")]
    LineTooLong {
        /// The limit.
        limit: usize,
    },
    /// A string is longer than [`Limits::bulk_bytes`](crate::Limits::bulk_bytes).
    #[error("the peer declared a string longer than {limit} bytes")]
    BulkTooLong {
        /// The limit.
        limit: usize,
    },
    /// A frame has more values than [`Limits::elements`](crate::Limits::elements).
    #[error("the peer declared more than {limit} values in one frame")]
    TooManyElements {
        /// The limit.
        limit: usize,
    },
    /// A frame is nested deeper than [`Limits::depth`](crate::Limits::depth).
    #[error("the peer nested values deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A frame is longer than [`Limits::frame_bytes`](crate::Limits::frame_bytes).
    #[error("the peer sent a frame longer than {limit} bytes")]
    FrameTooLong {
        /// The limit.
        limit: usize,
    },
}
