//! Bytes that arrive in pieces.

use bytes::BytesMut;
use leasehold_resp::{DecodeError, Decoder, Frame, Limits};

/// Everything that a connection's bytes decode to: the frames, and the error that ended them.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    pub frames: Vec<Frame>,
    pub error: Option<DecodeError>,
}

/// Decodes `bytes` as if each read had brought as many as the next of `sizes` says, and the last
/// read the rest.
pub fn decode_in_pieces(
    bytes: &[u8],
    sizes: impl IntoIterator<Item = usize>,
    limits: Limits,
) -> Decoded {
    let mut decoder = Decoder::new(limits);
    let mut received = BytesMut::new();
    let mut decoded = Decoded { frames: Vec::new(), error: None };
    let mut rest = bytes;
    let mut sizes = sizes.into_iter();
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |size| size.clamp(1, rest.len()));
        let (piece, later) = rest.split_at(size);
        received.extend_from_slice(piece);
        rest = later;
        loop {
            match decoder.decode(&mut received) {
                Ok(Some(frame)) => decoded.frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.decode(&mut received), Err(error), "an error is final");
                    decoded.error = Some(error);
                    return decoded;
                }
            }
        }
    }
    decoded
}

pub fn decode_whole(bytes: &[u8], limits: Limits) -> Decoded {
    decode_in_pieces(bytes, [], limits)
}
