//! SHA-1, by which a server knows a script. Nothing here has to be secret or unforgeable.
//!
//! The steps are those of FIPS 180-4, sections 5.1.1 (padding), 5.3.1 (first value) and 6.1.2.

const BLOCK: usize = 64;
const FIRST: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

/// By which a script is called.
pub type Digest = [u8; 40];

/// The digest of `text`, in hexadecimal digits.
pub(crate) const fn digest(text: &[u8]) -> Digest {
    let length = (text.len() + 1 + 8).next_multiple_of(BLOCK);
    let mut value = FIRST;
    let mut at = 0;
    while at < length {
        value = add_block(value, text, at);
        at += BLOCK;
    }
    let mut digits = [0; 40];
    let mut n = 0;
    while n < digits.len() {
        let digit = value[n / 8] >> (28 - 4 * (n % 8)) & 0xf;
        digits[n] = b"0123456789abcdef"[digit as usize];
        n += 1;
    }
    digits
}

/// The byte of the padded text that is at `n`: behind the text a one, and at the end of the last block the
/// length in bits.
const fn padded(text: &[u8], n: usize) -> u32 {
    let end = (n / BLOCK + 1) * BLOCK;
    if n < text.len() {
        text[n] as u32
    } else if n == text.len() {
        0x80
    } else if end - n <= 8 && end - 8 > text.len() {
        ((8 * text.len() as u64) >> (8 * (end - 1 - n)) & 0xff) as u32
    } else {
        0
    }
}

/// The value once the block of the padded text that begins `at` has been added to it.
const fn add_block(value: [u32; 5], text: &[u8], at: usize) -> [u32; 5] {
    let [mut a, mut b, mut c, mut d, mut e] = value;
    let mut words = [0_u32; 80];
    let mut n = 0;
    while n < words.len() {
        words[n] = if n < 16 {
            let first = at + 4 * n;
            padded(text, first) << 24
                | padded(text, first + 1) << 16
                | padded(text, first + 2) << 8
                | padded(text, first + 3)
        } else {
            (words[n - 3] ^ words[n - 8] ^ words[n - 14] ^ words[n - 16]).rotate_left(1)
        };
        let (mixed, constant) = match n / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let sum = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
        let sum = sum.wrapping_add(constant).wrapping_add(words[n]);
        (a, b, c, d, e) = (sum, a, b.rotate_left(30), c, d);
        n += 1;
    }
    let [f, g, h, i, j] = value;
    [a.wrapping_add(f), b.wrapping_add(g), c.wrapping_add(h), d.wrapping_add(i), e.wrapping_add(j)]
}

#[cfg(test)]
mod tests {
    /// FIPS 180-4's examples.
    #[test]
    fn digests_are_those_of_the_standard() {
        use super::digest;

        assert_eq!(&digest(b"abc"), b"a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(&digest(b""), b"da39a3ee5e6b4b0d3255bfef95601890afd80709");
        let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(&digest(long.as_bytes()), b"84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        let million = vec![b'a'; 1_000_000];
        assert_eq!(&digest(&million), b"34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
}
