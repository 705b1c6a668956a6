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
mod tests {
    use super::*;

    fn of(addresses: &[&str], quorum: usize) -> Box<str> {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        fingerprint(&addresses, quorum)
    }

    /// The value of the empty string and of "a", as the algorithm's page lists them.
    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a(&[]), 0xcbf2_9ce4_8422_2325);
        let of_a = (0xcbf2_9ce4_8422_2325_u64 ^ 0x61).wrapping_mul(0x0100_0000_01b3);
        assert_eq!(of_a, 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(&[b"a"]), (of_a ^ 0xff).wrapping_mul(0x0100_0000_01b3));
    }

    #[test]
    fn each_server_ranks_first_for_its_share_of_keys() {
        let addresses: Vec<String> = (0..5).map(|port| format!("10.0.0.1:700{port}")).collect();
        let mut firsts = [0; 5];
        for key in 0..10_000 {
            let key = format!("invoice:{key}");
            let first =
                (0..5).max_by_key(|&server: &usize| rank(key.as_bytes(), &addresses[server]));
            firsts[first.unwrap()] += 1;
        }
        assert!(firsts.iter().all(|&share| (1_800..2_200).contains(&share)), "{firsts:?}");
    }

    #[test]
    fn it_knows_servers_and_quorum_but_not_their_order() {
        let one = of(&["a:1", "b:1", "c:1"], 2);
        assert_eq!(one.len(), crate::error::value::FINGERPRINT_LENGTH);
        assert_eq!(one, of(&["c:1", "a:1", "b:1"], 2));
        assert_ne!(one, of(&["a:1", "b:1", "c:1"], 3));
        assert_ne!(one, of(&["a:1", "b:1", "d:1"], 2));
        assert_ne!(of(&["a:1", "1b:1"], 2), of(&["a:11", "b:1"], 2));
    }
}
