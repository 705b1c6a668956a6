use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::names::Names;
use crate::support::RedisServer;

/// One key for each slot, in the order of slots, behind a head of `#` lines.
const VECTORS: &str = include_str!("../../../tests/vectors/slots.txt");

fn vectors() -> impl Iterator<Item = (u16, &'static str)> {
    (0..).zip(VECTORS.lines().filter(|line| !line.starts_with('#')))
}

/// CRC-16/XMODEM, from its definition: polynomial 0x1021, from zero, one bit at a time.
fn bitwise_crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// Random keys from one seed.
fn random_keys(count: usize, mut random_byte: impl FnMut(u32) -> u8) -> Vec<Vec<u8>> {
    let mut state = 0x5EED_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    let mut key = || {
        let length = next() % 24;
        (0..length).map(|_| random_byte(next())).collect()
    };
    (0..count).map(|_| key()).collect()
}

/// Every third byte is a brace.
fn brace_or(number: u32, other: impl FnOnce(u32) -> u8) -> u8 {
    match number % 6 {
        0 => b'{',
        1 => b'}',
        _ => other(number / 6),
    }
}

/// Redis Cluster specification, "Key distribution model".
#[test]
fn the_specifications_example_is_in_its_slot() {
    assert_eq!(bitwise_crc16(b"123456789"), 0x31C3);
    assert_eq!(slot_of(b"123456789"), 12_739);
    assert_eq!(slot_of(b""), 0);
}

#[test]
fn every_slot_is_that_of_a_table_free_crc() {
    let mut seen = HashSet::new();
    for number in 0..110_000_u32 {
        let key = number.to_string();
        let slot = slot_of(key.as_bytes());
        assert_eq!(slot, bitwise_crc16(key.as_bytes()) % 16_384, "{key}");
        seen.insert(slot);
    }
    assert_eq!(seen.len(), SLOTS, "the keys cover every slot");
}

#[test]
fn every_slot_is_the_servers() {
    assert_eq!(vectors().count(), SLOTS);
    for (slot, key) in vectors() {
        assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
    }
}

/// Redis Cluster specification, "Hash tags".
#[test]
fn a_hash_tag_is_all_that_counts() {
    let table = [
        ("{user1000}.following", "user1000"),
        ("foo{}{bar}", "foo{}{bar}"),
        ("foo{{bar}}zap", "{bar"),
        ("foo{bar}{zap}", "bar"),
        ("{a", "{a"),
        ("a}", "a}"),
        ("}{a}", "a"),
        ("{}", "{}"),
        ("{", "{"),
    ];
    for (key, hashed) in table {
        assert_eq!(slot_of(key.as_bytes()), bitwise_crc16(hashed.as_bytes()) % 16_384, "{key}");
    }
}

#[test]
fn any_bytes_have_the_slot_of_their_tag() {
    for key in random_keys(20_000, |number| brace_or(number, |rest| rest.to_le_bytes()[0])) {
        // Splits at the first opening brace, then at the next closing one, unlike the code.
        let tag = key.split(|&byte| byte == b'{').next().map_or(0, <[u8]>::len) + 1;
        let tag = key.get(tag..).and_then(|rest| {
            rest.contains(&b'}').then(|| rest.split(|&byte| byte == b'}').next().unwrap_or(rest))
        });
        let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(&key);
        assert_eq!(slot_of(&key), bitwise_crc16(hashed) % 16_384, "{}", key.escape_ascii());
    }
}

#[test]
fn a_real_server_agrees_on_the_vectors_and_on_hash_tags() {
    let server = RedisServer::builder().arg("--cluster-enabled").arg("yes").start();
    let mut client = server.client();
    let tagged = random_keys(2_000, |number| brace_or(number, |_| b'a'));
    let tagged = tagged.into_iter().map(|key| String::from_utf8(key).expect("it is ASCII"));
    let vectors = vectors().map(|(_, key)| key.to_owned());
    for key in vectors.chain(tagged) {
        let slot = client.text(&["CLUSTER", "KEYSLOT", &key]);
        assert_eq!(slot, slot_of(key.as_bytes()).to_string(), "{key}");
    }
}

proptest! {
    #[test]
    fn all_keys_of_a_lock_are_in_the_slot_of_its_hash_tag(
        name in prop::collection::vec(prop_oneof![Just(b'{'), Just(b'}'), any::<u8>()], 1..12),
    ) {
        if let Ok(names) = Names::new(b"", &name) {
            let slots = [names.lock(), names.fence(), &names.queue()].map(slot_of);
            prop_assert_eq!(slots, [slot_of(&name); 3]);
        }
    }
}
