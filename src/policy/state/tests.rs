use super::*;

/// By enumeration of what the servers that did not answer may hold.
fn plain_state(quorum: Quorum, most: usize, unanswered: usize) -> LockState {
    let can_be_held = (0..=unanswered).any(|more| most + more >= quorum.needed());
    let must_be_held = (0..=unanswered).all(|more| most + more >= quorum.needed());
    match (must_be_held, can_be_held) {
        (true, _) => LockState::Held,
        (false, true) => LockState::Unknown,
        (false, false) if most == 0 => LockState::Free,
        (false, false) => LockState::Partial,
    }
}

#[test]
fn nothing_is_said_that_a_silent_server_could_refute() {
    for servers in 1..8 {
        for needed in servers / 2 + 1..=servers {
            let quorum = Quorum::new(servers, Some(needed)).unwrap();
            for most in 0..=servers {
                for unanswered in 0..=servers - most {
                    assert_eq!(
                        LockState::of(quorum, most, unanswered),
                        plain_state(quorum, most, unanswered),
                        "{most} and {unanswered} of {servers}, quorum {needed}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_lease_lasts_as_long_as_its_quorum() {
    let left = |each: &[u64]| {
        let each: Vec<_> =
            each.iter().map(|&ms| (ms > 0).then(|| Duration::from_millis(ms))).collect();
        let quorum = Quorum::new(5, None).unwrap();
        time_left(quorum, &each).map(|left| left.as_millis())
    };
    assert_eq!(left(&[50, 10, 40, 20, 30]), Some(30));
    assert_eq!(left(&[50, 10, 40]), Some(10));
    assert_eq!(left(&[10, 50]), Some(50));
    // 0 stands for a key without an end here.
    assert_eq!(left(&[0, 0, 40]), Some(40));
    assert_eq!(left(&[0, 0, 0]), None);
}
