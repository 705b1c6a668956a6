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
        let first = (0..5).max_by_key(|&server: &usize| rank(key.as_bytes(), &addresses[server]));
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
