use super::*;

const TTL: Duration = Duration::from_secs(10);
const BEGAN: u64 = 1_763_700_000_000_000;
const SECOND: u64 = 1_000_000;

fn at(secs: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_secs(secs))
}

fn met(clock: u64, longest_ttl: Duration) -> Reign {
    Reign::of(BEGAN, clock, longest_ttl, at(99), at(100))
}

#[test]
fn a_reign_grants_once_the_longest_ttl_has_passed_by_the_servers_clock() {
    let reign = met(BEGAN + 4 * SECOND, TTL);
    assert_eq!(reign.wait(at(100)), Duration::from_secs(6));
    assert_eq!(reign.reasserted_by(at(105)), Some(BEGAN + 10 * SECOND));
    assert_eq!((reign.wait(at(106)), reign.reasserted_by(at(106))), (Duration::ZERO, None));
    assert_eq!(met(BEGAN + 11 * SECOND, TTL).wait(at(100)), Duration::ZERO);
}

#[test]
fn a_grace_is_no_shorter_than_tokens_are_apart_and_no_longer_than_from_its_beginning() {
    let short = Duration::from_millis(10);
    assert_eq!(met(BEGAN, short).wait(at(100)), Duration::from_secs(3));
    assert_eq!(met(BEGAN - SECOND, TTL).wait(at(100)), TTL, "the clock was set back");
}

#[test]
fn what_was_learned_is_good_while_it_is_used_each_second() {
    let half = |halves: u32| at(99).after(Duration::from_millis(500) * halves);
    let mut reign = met(BEGAN, TTL);
    assert!(reign.is_sure(half(1)) && !reign.is_sure(half(2)), "it was asked at 99");
    let old = Reign::of(BEGAN, BEGAN + 11 * SECOND, TTL, at(99), at(99));
    assert!(!reign.grants(half(1)) && old.grants(half(1)) && !old.grants(half(2)));
    reign.is_used(half(1));
    assert!(reign.is_sure(half(2)) && !reign.is_sure(half(3)));
    reign.is_used(half(3));
    assert!(!reign.is_sure(half(3)), "no use brings it back");
}

#[test]
fn a_marker_says_since_when() {
    assert_eq!(began(b"1a 2b 1763700000000000"), Some(BEGAN));
    for none in [&b""[..], b"1a 2b", b"1a 2b c", b"1a 2b -1", b"1a 2b 3 4", b"\xff 2b 3"] {
        assert_eq!(began(none), None);
    }
}
