//! Checks and reads the text of single lines. Nothing here knows of buffers or of nesting.

/// The end of every line.
pub(crate) const CRLF: &[u8; 2] = b"\r\n";
/// The longest text of an integer or a length: `i64::MIN` has a sign and 19 digits.
pub(crate) const INTEGER_BYTES_MAX: usize = 20;

/// A length or a count. The decoder checks which of these a type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Of(usize),
    /// `-1`
    Null,
    /// `?`
    Streamed,
}

pub(crate) fn length(text: &[u8]) -> Option<Length> {
    match text {
        b"?" => Some(Length::Streamed),
        b"-1" => Some(Length::Null),
        // A size that this machine cannot address is over every limit.
        _ => magnitude(text).map(|n| Length::Of(usize::try_from(n).unwrap_or(usize::MAX))),
    }
}

pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => 0_i64.checked_sub_unsigned(magnitude(digits)?),
        digits => i64::try_from(magnitude(digits)?).ok(),
    }
}

fn magnitude(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

pub(crate) fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"t" => Some(true),
        b"f" => Some(false),
        _ => None,
    }
}

pub(crate) fn is_double(text: &[u8]) -> bool {
    matches!(text, b"inf" | b"-inf" | b"nan" | b"-nan") || is_decimal(text)
}

/// The number of a double.
pub(crate) fn double(text: &[u8]) -> Option<f64> {
    match text {
        // Redis before 7.2 prints the sign that the C library found in a NaN; it means nothing.
        b"nan" | b"-nan" => Some(f64::NAN),
        _ if is_double(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// `[+-]digits[.digits][eE[+-]digits]`: narrower than the standard library's.
fn is_decimal(text: &[u8]) -> bool {
    let Some(rest) = skip_digits(skip_sign(text)) else {
        return false;
    };
    let rest = match rest {
        [b'.', fraction @ ..] => match skip_digits(fraction) {
            Some(rest) => rest,
            None => return false,
        },
        _ => rest,
    };
    match rest {
        [] => true,
        [b'e' | b'E', exponent @ ..] => is_digits(skip_sign(exponent)),
        _ => false,
    }
}

/// An optional sign and digits: the specification allows both signs.
pub(crate) fn is_big_number(text: &[u8]) -> bool {
    is_digits(skip_sign(text))
}

fn is_digits(text: &[u8]) -> bool {
    skip_digits(text).is_some_and(<[u8]>::is_empty)
}

fn skip_sign(text: &[u8]) -> &[u8] {
    match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    }
}

/// The text after at least one digit.
fn skip_digits(text: &[u8]) -> Option<&[u8]> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| &text[count..])
}

/// Whether `text` fits in one line.
pub(crate) fn is_one_line(text: &[u8]) -> bool {
    memchr::memchr2(b'\r', b'\n', text).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_beyond_the_machine_is_over_every_limit() {
        assert_eq!(length(b"18446744073709551615"), Some(Length::Of(usize::MAX)));
        assert_eq!(length(b"18446744073709551616"), None);
    }

    #[test]
    fn integers_reach_their_ends() {
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer(b"9223372036854775808"), None);
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"-9223372036854775809"), None);
    }
}
