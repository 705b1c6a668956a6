//! From a key to its slot in a Cluster.

/// Number of slots of a Cluster.
pub const SLOTS: usize = 16_384;

/// The slot of a key: the CRC16 (XMODEM) of its hash tag, or of all of it, modulo [`SLOTS`].
pub fn slot_of(key: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(hashed_part(key)) & 0x3FFF
}

/// The text between the first `{` and the next `}` if not empty, else the whole key.
fn hashed_part(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(length) => &rest[..length],
    }
}

#[cfg(test)]
mod tests;
