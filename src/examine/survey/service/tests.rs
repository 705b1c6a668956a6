use super::*;
use crate::examine::report::Severity;
use crate::policy::Word;

#[test]
fn sentinels_that_disagree_are_warned_of_and_the_newest_is_believed() {
    let master = |epoch, host: &str| {
        let master = Address::Tcp { host: host.to_owned(), port: 1 };
        Word { epoch, watched: master.clone(), master, is_down: false, is_new: false }
    };
    let agreement = |words: &[_]| agreement(&Evidence::of(words.to_vec()), 3);
    let severity = |words: &[_]| agreement(words).severity;
    assert_eq!(severity(&[]), Severity::Error);
    assert_eq!(severity(&[master(1, "a"), master(1, "a")]), Severity::Ok);
    let split = [master(1, "a"), master(2, "b"), master(1, "a")];
    assert_eq!(severity(&split), Severity::Warning);
    assert!(agreement(&split).reason.contains("1 of 3 Sentinels name b:1"));
}

/// The quorum may be below the majority, which a failover needs anyway.
#[test]
fn a_failover_takes_the_quorum_and_a_majority() {
    let is_stuck = |quorum, known, up| stuck("m", quorum, known, up).is_some();
    for (quorum, known, up) in [(2, 3, 3), (2, 3, 2), (1, 3, 2), (3, 5, 3), (5, 5, 5)] {
        assert!(!is_stuck(quorum, known, up), "{quorum} {known} {up}");
    }
    for (quorum, known, up) in [(4, 3, 3), (2, 3, 1), (1, 3, 1), (3, 5, 2), (5, 5, 4)] {
        assert!(is_stuck(quorum, known, up), "{quorum} {known} {up}");
    }
}

#[test]
fn sentinels_that_the_url_does_not_name_are_counted() {
    assert!(unnamed(3, 3).is_none() && unnamed(2, 3).is_none());
    assert!(unnamed(3, 1).unwrap().reason.contains("1 of 3 Sentinels"));
}
