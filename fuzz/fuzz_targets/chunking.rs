//! The frames and the error do not depend on how the bytes were cut.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod limits;
#[path = "../../resp/tests/support/pieces.rs"]
mod pieces;

use pieces::{decode_in_pieces, decode_whole};

/// Every cut of a longer input would take its square.
const EVERY_CUT_MAX: usize = 128;

fuzz_target!(|bytes: &[u8]| {
    for limits in limits::default_and_tight() {
        let whole = decode_whole(bytes, limits);
        for size in [1, 2, 3, 7] {
            assert_eq!(decode_in_pieces(bytes, std::iter::repeat(size), limits), whole);
        }
        // Sizes that the input itself says: so the fuzzer can search for them.
        let sizes = bytes.iter().map(|byte| usize::from(byte % 16));
        assert_eq!(decode_in_pieces(bytes, sizes, limits), whole);
        for cut in 1..bytes.len().min(EVERY_CUT_MAX) {
            assert_eq!(decode_in_pieces(bytes, [cut], limits), whole);
        }
    }
});
