//! The Redis serialization protocol, RESP2 and RESP3: bytes to [`Frame`]s and back.
//!
//! No I/O happens here. A reader appends what it received to a [`BytesMut`](bytes::BytesMut) and
//! asks a [`Decoder`] for frames; a writer appends commands to one with [`encode_command`].
//!
//! The peer is not trusted: every form is checked exactly, every size is compared with [`Limits`]
//! before its bytes come, a declared length reserves nothing, and nesting costs no stack while
//! decoding. The same bytes give the same frames, or the same [`DecodeError`], in whatever pieces
//! they come.
//!
//! This crate knows nothing of commands, connections or replies: its caller matches frames to
//! commands.
//!
//! ```
//! use bytes::BytesMut;
//! use leasehold_resp::{Decimal, Decoder, Frame, Limits, encode_command};
//!
//! let mut out = BytesMut::new();
//! encode_command(&mut out, &[b"PEXPIRE", b"lock", &Decimal::new(30_000)]);
//! assert_eq!(out, "*3\r\n$7\r\nPEXPIRE\r\n$4\r\nlock\r\n$5\r\n30000\r\n");
//!
//! let mut decoder = Decoder::new(Limits::default());
//! let mut received = BytesMut::from(":1\r\n+O");
//! assert_eq!(decoder.decode(&mut received)?, Some(Frame::Integer(1)));
//! assert_eq!(decoder.decode(&mut received)?, None);
//! received.extend_from_slice(b"K\r\n");
//! assert_eq!(decoder.decode(&mut received)?, Some(Frame::Simple("OK".into())));
//! # Ok::<(), leasehold_resp::DecodeError>(())
//! ```

#![forbid(unsafe_code)]

/// The README's snippet is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod decimal;
mod decoder;
mod encode;
mod error;
mod frame;
mod leaf;
mod limits;
mod line;
mod open;
mod scalar;

pub use decimal::Decimal;
pub use decoder::Decoder;
pub use encode::{
    command_len, encode_bulk, encode_command, encode_frame, encode_parts, parts_len, store_command,
    store_parts,
};
pub use error::DecodeError;
pub use frame::Frame;
pub use limits::Limits;
