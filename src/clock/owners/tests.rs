use std::collections::HashSet;

use super::*;

fn at(micros: u64) -> Moment {
    Moment::from_nanos(micros * 1000)
}

#[test]
fn ids_of_one_moment_differ_and_are_of_one_draw() {
    let (mut owners, mut draws) = (Owners::NONE, 0);
    let mut next = || {
        owners.next(at(5), || {
            draws += 1;
            u128::MAX - 7
        })
    };
    let ids: HashSet<u128> = (0..1000).map(|_| next()).collect();
    assert_eq!((ids.len(), draws), (1000, 1));
}

#[test]
fn what_was_drawn_serves_for_a_millisecond_and_not_before_it_was_drawn() {
    let (mut owners, mut draws) = (Owners::NONE, 0);
    for (micros, expected) in
        [(9000, 1), (9001, 1), (10_000, 1), (10_001, 2), (11_001, 2), (8000, 3), (8001, 3)]
    {
        owners.next(at(micros), || {
            draws += 1;
            draws
        });
        assert_eq!(draws, expected, "at {micros} µs");
    }
}

/// The copies differ from the moment of the copy on.
#[test]
fn copies_give_different_ids_where_their_clocks_or_their_numbers_differ() {
    let mut original = Owners::NONE;
    original.next(at(1000), || 1 << 100);
    let mut copy = original;
    let draw = || unreachable!("it is fresh");
    let ids = (1..100).map(|micros| original.next(at(1000 + 2 * micros), draw));
    let ids: HashSet<u128> = ids.collect();
    assert!((1..100).all(|micros| !ids.contains(&copy.next(at(1001 + 2 * micros), draw))));
    let mut late = original;
    let drawn_again = late.next(at(9000), || 1 << 90);
    assert_ne!(drawn_again, original.next(at(9000), || 1 << 91));
}
