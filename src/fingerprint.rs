//! Which set of servers a lock is kept on, as a short text that every client can compute.
//!
//! Two clients exclude each other only if any quorum of one shares enough servers with any quorum
//! of the other. A client that was given other servers, or another quorum, by mistake would not
//! notice: so each holder's value says what it was given, and a client that is refused compares.

/// FNV-1a, 64 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>): stable over versions and
/// machines, which the standard library's hasher is not.
#[inline(never)]
fn fnv1a(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The fingerprint of a set of servers and a quorum; the order of the servers does not matter.
pub(crate) fn fingerprint(addresses: &[String], quorum: usize) -> Box<str> {
    let mut sorted: Vec<&[u8]> = Vec::new();
    // Servers are few: one put in at its place is far less code than a sort.
    for address in addresses.iter().map(String::as_bytes) {
        sorted.insert(sorted.partition_point(|other| *other <= address), address);
    }
    let quorum = quorum.to_string();
    sorted.push(quorum.as_bytes());
    let hash = fnv1a(&sorted);
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff)).into()
}

/// How high a server ranks for a key (rendezvous hashing): each is first for its share of keys.
///
/// The hash's high bits, which decide, depend too little on the last byte, and addresses often
/// differ in just that; so it goes through MurmurHash3's finalizer, which spreads every bit.
#[inline(never)]
pub(crate) fn rank(key: &[u8], address: &str) -> u64 {
    let mut hash = fnv1a(&[key, address.as_bytes()]);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests;
