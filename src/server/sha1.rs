//! SHA-1, by which a server knows a script. Nothing here has to be secret or unforgeable.
//!
//! The steps are those of FIPS 180-4, sections 5.1.1 (padding), 5.3.1 (first value) and 6.1.2.

use std::fmt::Write;

const BLOCK: usize = 64;
const FIRST: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

/// The digest of `text`, in hexadecimal digits.
pub(crate) fn digest(text: &[u8]) -> String {
    let bits = 8 * text.len() as u64;
    let mut padded = text.to_vec();
    padded.push(0x80);
    padded.resize((text.len() + 1 + 8).next_multiple_of(BLOCK) - 8, 0);
    padded.extend(bits.to_be_bytes());
    let value = padded.chunks_exact(BLOCK).fold(FIRST, add_block);
    value.iter().fold(String::new(), |mut digits, word| {
        write!(digits, "{word:08x}").expect("a string takes all");
        digits
    })
}

fn add_block(value: [u32; 5], block: &[u8]) -> [u32; 5] {
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for n in 16..80 {
        words[n] = (words[n - 3] ^ words[n - 8] ^ words[n - 14] ^ words[n - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = value;
    for (n, word) in words.into_iter().enumerate() {
        let (mixed, constant) = match n / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let sum = [mixed, e, constant, word].into_iter().fold(a.rotate_left(5), u32::wrapping_add);
        (a, b, c, d, e) = (sum, a, b.rotate_left(30), c, d);
    }
    let mut sums = [a, b, c, d, e];
    sums.iter_mut().zip(value).for_each(|(sum, before)| *sum = sum.wrapping_add(before));
    sums
}

#[cfg(test)]
mod tests {
    use leasehold_resp::Frame;

    use super::*;
    use crate::support::RedisServer;

    /// FIPS 180-4's examples, and lengths around a block's end.
    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(digest(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(digest(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(digest(long.as_bytes()), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        let million = vec![b'a'; 1_000_000];
        assert_eq!(digest(&million), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }

    #[test]
    fn a_server_calls_a_script_by_the_same_digest() {
        let server = RedisServer::start();
        for length in [0, 1, 54, 55, 56, 63, 64, 65, 119, 120, 1000] {
            let script = format!("return '{}'", "x".repeat(length));
            let Frame::Bulk(known) = server.cli(&["SCRIPT", "LOAD", &script]) else { panic!() };
            assert_eq!(digest(script.as_bytes()).as_bytes(), &known[..], "{length}");
        }
    }
}
