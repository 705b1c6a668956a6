//! Lines: their bounds, their ends, and how their content is taken off the buffer.
//!
//! Nothing here knows of nesting, or of what came before the line.

use bytes::{Buf, BytesMut};

use crate::leaf::{Leaf, TextType};
use crate::scalar::{self, CRLF, INTEGER_BYTES_MAX, Length};
use crate::{DecodeError, Limits};

pub(crate) enum LineEnd {
    /// The content has this many bytes, followed by CRLF.
    At(usize),
    /// The end has not come; it is not in the first this many bytes.
    NotIn(usize),
    /// A CR or an LF is alone.
    Bare,
    BeyondBound,
}

/// How many bytes a line of this type may have between its type and its end.
#[inline]
pub(crate) fn bound(kind: u8, line_bytes: usize) -> Result<usize, DecodeError> {
    match kind {
        b'+' | b'-' | b',' | b'(' => Ok(line_bytes),
        b':' | b'$' | b'!' | b'=' | b';' | b'*' | b'~' | b'%' | b'>' | b'|' => {
            Ok(INTEGER_BYTES_MAX)
        }
        b'#' => Ok(1),
        b'_' | b'.' => Ok(0),
        _ => Err(DecodeError::UnknownType(kind)),
    }
}

/// The error for a line of this type that is longer than its bound.
#[cold]
pub(crate) fn too_long(kind: u8, bound: usize) -> DecodeError {
    match kind {
        b'+' | b'-' | b',' | b'(' => DecodeError::LineTooLong { limit: bound },
        _ => malformed(kind),
    }
}

/// The error for a line whose content does not fit its type.
#[cold]
fn malformed(kind: u8) -> DecodeError {
    match kind {
        b':' => DecodeError::InvalidInteger,
        b'#' => DecodeError::InvalidBoolean,
        b'_' => DecodeError::InvalidNull,
        b',' => DecodeError::InvalidDouble,
        b'(' => DecodeError::InvalidBigNumber,
        b'.' => DecodeError::InvalidEnd,
        _ => DecodeError::InvalidLength,
    }
}

/// Finds the end of a line in its content, after the bytes that were scanned before.
pub(crate) fn find_end(content: &[u8], scanned: usize, bound: usize) -> LineEnd {
    let visible = content.len().min(bound.saturating_add(1));
    let unseen = content.get(scanned..visible).unwrap_or_default();
    // A vector search pays only if a line can be long.
    let offset = if bound > INTEGER_BYTES_MAX {
        memchr::memchr2(b'\r', b'\n', unseen)
    } else {
        unseen.iter().position(|byte| matches!(byte, b'\r' | b'\n'))
    };
    match offset {
        None if content.len() > bound => LineEnd::BeyondBound,
        None => LineEnd::NotIn(visible),
        Some(offset) => {
            let end = scanned + offset;
            match content[end..] {
                [b'\r'] => LineEnd::NotIn(end),
                [b'\r', b'\n', ..] => LineEnd::At(end),
                _ => LineEnd::Bare,
            }
        }
    }
}

/// Reads the line of a scalar at the front of `buf`; its content has `len` bytes. All but text is
/// taken off.
pub(crate) fn read_scalar(buf: &mut BytesMut, kind: u8, len: usize) -> Result<Leaf, DecodeError> {
    let content = &buf[1..=len];
    let leaf = match kind {
        b'+' if content == b"PONG" => Some(Leaf::Known("PONG")),
        b'+' if content == b"QUEUED" => Some(Leaf::Known("QUEUED")),
        b'+' => Some(Leaf::Text { text: TextType::Simple, len }),
        b'-' => Some(Leaf::Text { text: TextType::Error, len }),
        b'(' if scalar::is_big_number(content) => {
            Some(Leaf::Text { text: TextType::BigNumber, len })
        }
        b':' => scalar::integer(content).map(Leaf::Integer),
        b'#' => scalar::boolean(content).map(Leaf::Boolean),
        b',' if scalar::is_double(content) => Some(Leaf::Text { text: TextType::Double, len }),
        b'_' => Some(Leaf::Null),
        _ => None,
    };
    let leaf = leaf.ok_or_else(|| malformed(kind))?;
    buf.advance(1 + len + CRLF.len() - leaf.text_len());
    Ok(leaf)
}

/// Takes the line of a length or a count off the front of `buf`.
pub(crate) fn take_length(buf: &mut BytesMut, len: usize) -> Result<Length, DecodeError> {
    let length = scalar::length(&buf[1..=len]).ok_or(DecodeError::InvalidLength)?;
    skip(buf, len);
    Ok(length)
}

pub(crate) fn skip(buf: &mut BytesMut, len: usize) {
    buf.advance(1 + len + CRLF.len());
}

/// Whether all bytes of a string and its CRLF are at the front of `buf`.
#[inline]
pub(crate) fn is_payload_whole(buf: &[u8], length: usize) -> Result<bool, DecodeError> {
    match buf.get(length..length + CRLF.len()) {
        None => Ok(false),
        Some(end) if end == CRLF => Ok(true),
        Some(_) => Err(DecodeError::UnterminatedString),
    }
}

/// A value of the commonest forms if all of it is at the front of `buf`, and the number of bytes
/// before its text. Other forms, and all errors, go the long way.
#[inline(never)]
pub(crate) fn common_leaf(buf: &[u8], limits: &Limits) -> Option<(Leaf, usize)> {
    match buf {
        [b':', text @ ..] => {
            let (number, digits) = short_number(text)?;
            Some((Leaf::Integer(number), 1 + digits + CRLF.len()))
        }
        [b'+', b'O', b'K', b'\r', b'\n', ..] if limits.line_bytes >= 2 => {
            Some((Leaf::Known("OK"), 5))
        }
        [b'$', b'-', b'1', b'\r', b'\n', ..] => Some((Leaf::Null, 5)),
        [b'_', b'\r', b'\n', ..] => Some((Leaf::Null, 3)),
        [b'$', text @ ..] => {
            let (len, digits) = short_number(text)?;
            let len = usize::try_from(len).ok().filter(|&len| len <= limits.bulk_bytes)?;
            let skipped = digits + CRLF.len();
            let is_whole = text.get(skipped + len..skipped + len + CRLF.len()) == Some(CRLF);
            is_whole.then_some((Leaf::Text { text: TextType::Bulk, len }, 1 + skipped))
        }
        [b'-', text @ ..] => match find_end(text, 0, limits.line_bytes) {
            LineEnd::At(len) => Some((Leaf::Text { text: TextType::Error, len }, 1)),
            _ => None,
        },
        _ => None,
    }
}

/// A number that is too short to overflow, and how many digits it has.
#[inline]
fn short_number(text: &[u8]) -> Option<(i64, usize)> {
    const DIGITS_MAX: usize = 18;
    if let Some(number) = stamp(text) {
        return Some((number, STAMP_DIGITS));
    }
    let mut number = 0;
    for (count, &byte) in text.iter().enumerate().take(DIGITS_MAX + 1) {
        match byte {
            b'0'..=b'9' if count < DIGITS_MAX => number = number * 10 + i64::from(byte - b'0'),
            b'\r' if count > 0 && text.get(count + 1) == Some(&b'\n') => {
                return Some((number, count));
            }
            _ => return None,
        }
    }
    None
}

/// The digits of the most frequent long numbers: tokens and stamps.
const STAMP_DIGITS: usize = 16;

/// A number of [`STAMP_DIGITS`] digits, read at once: digit by digit, it would take as long as the
/// rest of such a reply.
#[inline]
fn stamp(text: &[u8]) -> Option<i64> {
    let (digits, behind) = text.split_first_chunk::<STAMP_DIGITS>()?;
    if !behind.starts_with(CRLF) {
        return None;
    }
    let (high, low) = digits.split_at(STAMP_DIGITS / 2);
    Some(eight_digits(*high.first_chunk()?)? * 100_000_000 + eight_digits(*low.first_chunk()?)?)
}

/// The number that eight bytes spell, if all of them are digits: as the bytes of one number, in
/// which each step joins neighbours.
#[inline]
fn eight_digits(text: [u8; 8]) -> Option<i64> {
    const HIGH: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    const THREES: u64 = 0x3030_3030_3030_3030;
    const SIXES: u64 = 0x0606_0606_0606_0606;
    let bytes = u64::from_le_bytes(text);
    // Digits are 0x30 to 0x39: from 0x3A on, adding six gives 0x40 or more.
    if bytes & HIGH != THREES || bytes.wrapping_add(SIXES) & HIGH != THREES {
        return None;
    }
    let ones = bytes & 0x0F0F_0F0F_0F0F_0F0F;
    let pairs = (ones * 10 + (ones >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    let eight = (fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF;
    i64::try_from(eight).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_were_scanned_are_not_looked_at_again() {
        assert!(matches!(find_end(b"a\nb\r\n", 2, 64), LineEnd::At(3)));
        assert!(matches!(find_end(b"\n\n\n\n", 4, 64), LineEnd::NotIn(4)));
    }

    #[test]
    fn what_was_scanned_ends_before_a_cr_that_waits_for_its_lf() {
        assert!(matches!(find_end(b"abc", 0, 64), LineEnd::NotIn(3)));
        assert!(matches!(find_end(b"abc\r", 3, 64), LineEnd::NotIn(3)));
        assert!(matches!(find_end(b"abc\r\n", 3, 64), LineEnd::At(3)));
    }

    #[test]
    fn nothing_behind_the_bound_is_looked_at() {
        for bound in [3, 30] {
            let content = b"x".repeat(bound + 1);
            assert!(matches!(find_end(&content, 0, bound), LineEnd::BeyondBound));
            assert!(matches!(find_end(&content[1..], 0, bound), LineEnd::NotIn(_)));
        }
    }

    #[test]
    fn numbers_of_any_length_are_read_and_nothing_but_digits_is() {
        for digits in 1..=18 {
            for number in ["123456789098765432", "999999999999999999", "000000000000000000"] {
                let text = &number[..digits];
                let wire = format!("{text}\r\n:1");
                assert_eq!(short_number(wire.as_bytes()), Some((text.parse().unwrap(), digits)));
                for place in 0..digits {
                    for strange in [b'0' - 1, b'9' + 1, 0, b' ', 0xB5, 0xFF] {
                        let mut wire = wire.clone().into_bytes();
                        wire[place] = strange;
                        assert_eq!(short_number(&wire), None, "{strange} at {place} of {text}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_common_leaf_is_one_that_cannot_be_wrong() {
        let tight = Limits { bulk_bytes: 3, line_bytes: 1, ..Limits::default() };
        let is_common = |wire: &str| common_leaf(wire.as_bytes(), &tight).is_some();
        for wire in [":123456789012345678\r\n:", "_\r\n", "$-1\r\n", "$3\r\nabc\r\n", "-E\r\n"] {
            assert!(is_common(wire), "{wire:?}");
        }
        for wire in ["", ":", ":\r\n", ":-1\r\n", ":1\r", ":1\n", ":1234567890123456789\r\n"] {
            assert!(!is_common(wire), "{wire:?}");
        }
        for wire in ["$-1", "$-2\r\n", "$3\r\nabc", "$3\r\nabc\r", "$3\r\nabcde", "$4\r\nabcd\r\n"]
        {
            assert!(!is_common(wire), "{wire:?}");
        }
        for wire in ["+OK\r\n", "-E", "-E\r", "-\n\r\n", "-ER\r\n"] {
            assert!(!is_common(wire), "{wire:?}");
        }
    }
}
