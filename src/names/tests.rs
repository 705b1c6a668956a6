use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Redis Cluster specification, "Hash tags": what of a key is hashed, spelled out again.
fn slot(key: &[u8]) -> u16 {
    let text: Vec<u8> = key.to_vec();
    let tag = text
        .iter()
        .position(|&b| b == b'{')
        .and_then(|open| {
            let close = text[open..].iter().position(|&b| b == b'}')? + open;
            (close > open + 1).then(|| text[open + 1..close].to_vec())
        })
        .unwrap_or(text);
    crc16::State::<crc16::XMODEM>::calculate(&tag) & 0x3FFF
}

fn keys(name: &str) -> (String, String) {
    let names = Names::new(b"", name.as_bytes()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(names.lock()), text(names.fence()))
}

#[test]
fn people_are_shown_the_beginning_of_a_name_made_safe() {
    let shown = |name: &str| Names::new(b"", name.as_bytes()).unwrap().to_string();
    assert_eq!(shown("a \x1b[2J\n"), r"a \u{1b}[2J\n");
    assert_eq!(shown(&"\u{e9}".repeat(SHOWN_MAX)), "\u{e9}".repeat(SHOWN_MAX));
    let long = shown(&"\u{e9}".repeat(SHOWN_MAX + 1));
    assert_eq!(long, format!("{}...", "\u{e9}".repeat(SHOWN_MAX)));
}

#[test]
fn the_lock_key_is_the_name_and_the_fence_key_shares_its_slot() {
    assert_eq!(keys("invoice:42"), ("invoice:42".into(), "{invoice:42}:fence".into()));
    assert_eq!(keys("{user:7}:cart"), ("{user:7}:cart".into(), "{user:7}:cart:fence".into()));
    assert_eq!(keys("a{b"), ("a{b".into(), "{a{b}:fence".into()));
}

#[test]
fn names_whose_fence_key_cannot_share_their_slot_are_refused() {
    for name in ["a}b", "{}a", "}{", "a{}b{c}", "}"] {
        assert_eq!(Names::new(b"", name.as_bytes()), Err(InvalidName::Braces), "{name}");
    }
    // Here the braces before the tag do no harm.
    assert_eq!(keys("}{a}").1, "}{a}:fence");
}

#[test]
fn a_name_that_is_another_locks_fence_key_is_refused() {
    let (_, fence) = keys("a");
    assert_eq!(Names::new(b"", fence.as_bytes()), Err(InvalidName::Reserved));
    assert_eq!(Names::new(b"{a}:", b"fence"), Err(InvalidName::Reserved));
    assert_eq!(Names::new(b"{a}:", b"queue"), Err(InvalidName::Reserved));
    assert_eq!(Names::new(b"{a}:", b"shares"), Err(InvalidName::Reserved));
    for suffix in OTHER_SUFFIXES {
        assert_eq!(Names::new(b"{a}", suffix), Err(InvalidName::Reserved));
        let listed = format!("\"{}\"", suffix.escape_ascii());
        assert!(InvalidName::Reserved.to_string().contains(&listed), "{listed}");
    }
}

#[test]
fn empty_and_endless_names_are_refused() {
    assert_eq!(Names::new(b"prefix", b""), Err(InvalidName::Empty));
    let long = vec![b'a'; NAME_BYTES_MAX];
    assert!(Names::new(b"", &long).is_ok());
    assert_eq!(Names::new(b"p", &long), Err(InvalidName::TooLong(NAME_BYTES_MAX + 1)));
}

#[test]
fn a_prefix_is_put_before_the_name_and_can_bring_the_hash_tag() {
    let names = Names::new(b"{jobs}:", b"nightly").unwrap();
    assert_eq!(names.lock(), b"{jobs}:nightly");
    assert_eq!(names.fence(), b"{jobs}:nightly:fence");
    assert_eq!(&*names.queue(), b"{jobs}:nightly:queue");
}

#[test]
fn a_hostile_name_cannot_write_to_a_terminal() {
    let names = Names::new(b"", b"a\x1b[2J\n").unwrap();
    assert_eq!(names.to_string(), "a\\u{1b}[2J\\n");
}

proptest! {
    #[test]
    fn keys_share_a_slot_and_are_no_other_locks_but_for_the_fence_key(
        one in "[a-c{}:]{1,8}", two in "[a-c{}:]{1,8}",
    ) {
        let make = |name: &str| Names::new(b"", name.as_bytes());
        if let Ok(names) = make(&one) {
            prop_assert_eq!(slot(names.lock()), slot(names.fence()));
            prop_assert_eq!(slot(names.lock()), slot(&names.queue()));
            let braced = Names::new(b"", format!("{{{one}}}").as_bytes());
            if let Ok(braced) = braced {
                prop_assert_ne!(&*names.queue(), &*braced.queue());
            }
            if let Ok(others) = make(&two) {
                prop_assert_eq!(names.lock() == others.lock(), one == two);
                prop_assert_ne!(names.lock(), others.fence());
                for suffix in [QUEUE_SUFFIX, SHARES_SUFFIX].into_iter().chain(OTHER_SUFFIXES) {
                    prop_assert_ne!(names.lock(), &*others.beside(suffix));
                    prop_assert_eq!(*names.beside(suffix) == *others.beside(suffix), one == two);
                }
            }
        }
    }
}

#[test]
fn the_lock_of_a_permit_is_known_by_its_key() {
    for (prefix, name) in
        [("", "a"), ("app:", "a"), ("", "{user:7}:cart"), ("{app}:", "a"), ("", "{job}")]
    {
        let names = Names::new(prefix.as_bytes(), name.as_bytes()).unwrap();
        let permit = names.permit(17);
        assert_eq!(Names::of_permit(prefix.as_bytes(), permit.lock()), Some(permit.clone()));
        assert!(permit.is_permit() && !names.is_permit());
        assert_eq!(Names::of_permit(b"another:", permit.lock()), None);
    }
    for key in ["a:0:permit", "{a}:permit", "{a}:x:permit", "{a}:00:permit", "{}:0:permit"] {
        assert_eq!(Names::of_permit(b"", key.as_bytes()), None, "{key}");
    }
    assert!(!Names::new(b"", b"a:0:permit").unwrap().is_permit());
}

/// Each master of a Cluster needs a marker in one of its slots.
#[test]
fn markers_of_a_prefix_without_a_hash_tag_are_in_many_slots() {
    for prefix in ["", "app:", "a}b", "{}a", "a}{b", "a{", "a{b:"] {
        let slots: BTreeSet<u16> =
            (0..100).map(|number| slot(&marker(prefix.as_bytes(), Some(number)))).collect();
        assert!(slots.len() > 90, "{prefix}: {slots:?}");
        let names = Names::new(prefix.as_bytes(), b"leasehold:0:reign");
        let lock = names.as_ref().map_or(&b""[..], Names::lock);
        assert_ne!(lock, &*marker(prefix.as_bytes(), Some(0)), "{prefix}: a lock has this key");
    }
    for prefix in ["{app}:", "a{b}c"] {
        for number in [None, Some(0), Some(7)] {
            let marker = marker(prefix.as_bytes(), number);
            assert_eq!(slot(&marker), slot(prefix.as_bytes()), "{prefix}");
        }
    }
}
