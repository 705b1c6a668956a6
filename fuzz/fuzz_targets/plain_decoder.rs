//! The decoder and its plain double agree on every input: frames, errors, and waiting.
#![no_main]

use bytes::BytesMut;
use leasehold_resp::{Decoder, Limits};
use libfuzzer_sys::fuzz_target;

mod limits;
#[path = "../../resp/tests/support/plain.rs"]
mod plain;

fuzz_target!(|bytes: &[u8]| {
    for limits in limits::default_and_tight() {
        compare(bytes, limits);
    }
});

fn compare(bytes: &[u8], limits: Limits) {
    let mut decoder = Decoder::new(limits);
    let mut received = BytesMut::from(bytes);
    let mut rest = bytes;
    loop {
        let decoded = decoder.decode(&mut received);
        match plain::decode(rest, limits) {
            Ok(Some((frame, used))) => {
                assert_eq!(decoded, Ok(Some(frame)));
                rest = &rest[used..];
                assert_eq!(received, rest, "both took the same bytes");
            }
            Ok(None) => return assert_eq!(decoded, Ok(None)),
            Err(error) => return assert_eq!(decoded, Err(error)),
        }
    }
}
