use std::time::Duration;

use super::*;
use crate::error::value::{holder_of, parts_of};
use crate::error::{Configured, Shared};

fn fresh(fingerprint: Option<&str>, label: Option<&str>) -> Owner {
    Owner::fresh(Mark { fingerprint, label, ..Mark::default() })
}

#[test]
fn a_priority_stands_before_the_label_and_is_no_part_of_it() {
    let mark = Mark { priority: 7, label: Some("!9"), ..Mark::default() };
    for fingerprint in [None, Some("0a1b2c3d")] {
        for lock_delay in [None, Some(Duration::from_millis(5))] {
            let owner = Owner::fresh(Mark { fingerprint, lock_delay, ..mark });
            assert!(owner.value().ends_with(b"!7:!9"), "{owner:?}");
            let text = str::from_utf8(owner.value()).unwrap();
            let (_, read, _) = parts_of(text).unwrap();
            assert_eq!((read.priority, read.label, read.lock_delay), (7, Some("!9"), lock_delay));
            assert_eq!(holder_of(owner.value(), 1).label.as_deref(), Some("!9"));
        }
    }
    let id = "0123456789abcdef0123456789abcdef";
    for other in ["!", "!x", "!256:label", "!-1"] {
        let holder = holder_of(format!("{id}{other}").as_bytes(), 1);
        assert_eq!(holder.configuration, Configured::Unknown, "{other}");
    }
}

#[test]
fn a_lock_delay_stands_behind_the_id() {
    let lock_delay = Some(Duration::from_millis(1500));
    for (fingerprint, label) in [(None, None), (Some("0a1b2c3d"), Some("+7")), (None, Some(""))] {
        let owner = Owner::fresh(Mark { lock_delay, fingerprint, priority: 0, label });
        assert!(owner.value()[ID_LENGTH..].starts_with(b"~+1500"));
        let holder = holder_of(owner.value(), 1);
        let label = label.filter(|label| !label.is_empty());
        assert_eq!((holder.lock_delay, holder.label.as_deref()), (lock_delay, label));
        assert_eq!(holder.owner.as_bytes(), &owner.value()[..ID_LENGTH]);
    }
    let id = "0123456789abcdef0123456789abcdef";
    for other in ["+", "+x", "+-1", "+1x:label", "+99999999999999999999"] {
        let holder = holder_of(format!("{id}{other}").as_bytes(), 1);
        assert_eq!((holder.configuration, holder.lock_delay), (Configured::Unknown, None));
    }
}

#[test]
fn a_lock_that_is_shared_has_its_limit_behind_the_id() {
    let id = "0123456789abcdef0123456789abcdef";
    let seen = |rest: &str| holder_of(format!("{id}{rest}").as_bytes(), 1);
    let readers = seen("*0:catalog");
    assert_eq!(
        (readers.shared, readers.label.as_deref()),
        (Some(Shared::Readers), Some("catalog"))
    );
    assert_eq!((&*readers.owner, readers.configuration), (id, Configured::Single));
    assert_eq!(seen("*3:").shared, Some(Shared::Permits { limit: 3 }));
    for other in ["*", "*x:", "*-1:", "*99999999999999999999:", ":*3"] {
        assert_eq!(seen(other).shared, None, "{other}");
    }
}

#[test]
fn a_value_begins_with_the_id_and_ends_with_the_label() {
    let owner = fresh(None, Some("billing:1"));
    assert_eq!(&owner.value()[ID_LENGTH..], b"~:billing:1");
    let holder = holder_of(owner.value(), 1500);
    assert_eq!(holder.label.as_deref(), Some("billing:1"));
    assert_eq!(holder.owner.as_bytes(), &owner.value()[..ID_LENGTH]);
    assert_eq!(holder.remaining, Some(Duration::from_millis(1500)));
}

#[test]
fn values_of_earlier_versions_have_no_format_and_say_the_same() {
    let id = "0123456789abcdef0123456789abcdef";
    let seen = |rest: &str| holder_of(format!("{id}{rest}").as_bytes(), 1);
    for said in ["", ":", ":~label", "@0a1b2c3d", "+5@0a1b2c3d!7:label"] {
        let (earlier, today) = (seen(said), seen(&format!("~{said}")));
        assert_eq!((&*earlier.owner, &*today.owner), (id, id), "{said}");
        assert_eq!(earlier.label, today.label, "{said}");
        assert_eq!(earlier.lock_delay, today.lock_delay, "{said}");
        assert_eq!(earlier.configuration, today.configuration, "{said}");
    }
    let shared = seen("*3~@0a1b2c3d:label\0");
    assert_eq!(shared.shared, Some(Shared::Permits { limit: 3 }));
    assert_eq!(shared.label.as_deref(), Some("label"));
}

#[test]
fn a_fingerprint_stands_between_id_and_label() {
    for label in [None, Some("a@b:c")] {
        let owner = fresh(Some("0a1b2c3d"), label);
        let holder = holder_of(owner.value(), 1);
        assert_eq!(holder.owner.as_bytes(), &owner.value()[..ID_LENGTH]);
        assert_eq!(holder.label.as_deref(), label);
        assert_eq!(holder.configuration, Configured::Several("0a1b2c3d".into()));
    }
    let single = holder_of(fresh(None, Some("@0a1b2c3d")).value(), 1);
    assert_eq!(single.configuration, Configured::Single);
}

#[test]
fn owners_are_never_alike() {
    assert_ne!(fresh(None, None).value(), fresh(None, None).value());
    assert_eq!(&fresh(None, None).value()[ID_LENGTH..], b"~");
}

#[test]
fn another_librarys_value_is_the_owner_itself() {
    let holder = holder_of(b"redis-py-token-\xff", -1);
    assert_eq!(holder.owner, "redis-py-token-\u{fffd}");
    assert_eq!(holder.label, None);
    assert_eq!(holder.configuration, Configured::Unknown);
    assert_eq!(holder.remaining, None);
    // As long as ours, but no hexadecimal digits, and characters over several bytes.
    assert_eq!(holder_of("ä".repeat(20).as_bytes(), 1).label, None);
    assert_eq!(holder_of(&[b'g'; 40], 1).owner, "g".repeat(40));
}
