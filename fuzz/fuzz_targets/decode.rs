//! Whatever a peer sends, decoding returns, holds memory in proportion to the input, and waits only if it has to.
#![no_main]

use allocation_counter::measure;
use bytes::BytesMut;
use leasehold_resp::{Decoder, Limits};
use libfuzzer_sys::fuzz_target;

/// The dearest input is `%1\r\n:1\r\n` and the like: few bytes on the wire make room for four pairs
/// of 80 bytes. All allocations together, freed or not, stay under this much for each byte.
const BYTES_PER_BYTE: u64 = 256;
const BYTES_AT_ONCE: u64 = 4096;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::new(Limits::default());
    let mut received = BytesMut::from(bytes);
    let mut frames = Vec::with_capacity(bytes.len());
    let mut failure = None;
    let allocations = measure(|| {
        while failure.is_none() {
            match decoder.decode(&mut received) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => failure = Some(error),
            }
        }
    });
    let bound = BYTES_AT_ONCE + BYTES_PER_BYTE * bytes.len() as u64;
    assert!(allocations.bytes_total <= bound, "{allocations:?} for {} bytes", bytes.len());

    let left = received.clone();
    let again = decoder.decode(&mut received);
    assert_eq!(again, failure.map_or(Ok(None), Err), "asked twice without a new byte");
    assert_eq!(received, left);
});
