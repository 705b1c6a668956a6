//! Percent-encoding, RFC 3986 section 2.1.

use super::{InvalidEndpoint, Part};

/// Decodes to bytes; the error names `part`.
pub(super) fn decode(text: &str, part: Part) -> Result<Vec<u8>, InvalidEndpoint> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let value = match byte {
            b'%' => {
                let digits = bytes.next().and_then(digit).zip(bytes.next().and_then(digit));
                let (high, low) = digits.ok_or(InvalidEndpoint::Escape(part))?;
                (high << 4) | low
            }
            plain => plain,
        };
        decoded.push(value);
    }
    Ok(decoded)
}

/// Decodes to text.
pub(super) fn decode_text(text: &str, part: Part) -> Result<String, InvalidEndpoint> {
    String::from_utf8(decode(text, part)?).map_err(|_| InvalidEndpoint::NotUtf8(part))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Encodes all but the unreserved characters of RFC 3986 section 2.3.
pub(super) fn encode(bytes: &[u8]) -> String {
    encode_except(bytes, b"")
}

/// As [`encode`], and leaves slashes as they are.
pub(super) fn encode_path(bytes: &[u8]) -> String {
    encode_except(bytes, b"/")
}

fn encode_except(bytes: &[u8], kept: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
