use super::*;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Of six servers; Miri would take an hour, and has those of three.
const SETS: u32 = if cfg!(miri) { 1 << 3 } else { 1 << 6 };

fn subsets(of: u32) -> impl Iterator<Item = u32> {
    (0..64).filter(move |subset| subset & !of == 0)
}

fn names(set: u32) -> Vec<&'static str> {
    (0..6).filter(|bit| set & (1 << bit) != 0).map(|bit| NAMES[bit]).collect()
}

/// By enumeration of all quorums of all pairs of sets of up to six servers.
#[test]
fn configurations_check_coexistence_exactly_if_all_their_quorums_meet() {
    let quorums = |set: u32, size: u32| -> Vec<u32> {
        subsets(set).filter(|subset| subset.count_ones() == size).collect()
    };
    for one in 1..SETS {
        for other in 1..SETS {
            let (q1, q2) = (one.count_ones() / 2 + 1, other.count_ones() / 2 + 1);
            let meet = quorums(one, q1)
                .iter()
                .all(|first| quorums(other, q2).iter().all(|second| first & second != 0));
            let verdict = check_coexistence(&names(one), q1 as usize, &names(other), q2 as usize);
            assert_eq!(verdict.is_ok(), meet, "{one:b} {other:b}");
        }
    }
}

#[test]
fn one_server_at_a_time_always_may() {
    for servers in 1..6 {
        let (now, next) = (&NAMES[..servers], &NAMES[..=servers]);
        let majority = |of: &[&str]| of.len() / 2 + 1;
        assert!(check_coexistence(now, majority(now), next, majority(next)).is_ok());
    }
}
