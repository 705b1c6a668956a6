//! The floor beneath every decoder.

use std::hint::black_box;

/// Finds each line's end, reads each number, skips each payload; keeps nothing, checks
/// nothing. Returns how many replies there were.
pub fn scan_all(wire: &[u8]) -> usize {
    let mut rest = wire;
    let mut members = 0;
    let mut count = 0;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\r', rest).expect("well-formed");
        let kind = rest[0];
        let number = match kind {
            b':' | b'$' | b'*' => atoi(&rest[1..end]),
            _ => 0,
        };
        rest = &rest[end + 2..];
        if kind == b'$' && number >= 0 {
            rest = &rest[usize::try_from(number).expect("not negative") + 2..];
        }
        black_box(number);
        if kind == b'*' {
            members += number;
            count += 1;
        } else if members > 0 {
            members -= 1;
        } else {
            count += 1;
        }
    }
    count
}

fn atoi(text: &[u8]) -> i64 {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    sign * digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
}
