use super::*;

/// The definition itself, by enumeration of what the open votes could still become.
fn plain_verdict(servers: usize, needed: usize, granted: usize, denied: usize) -> Verdict {
    let open = servers - granted - denied;
    let wins = (0..=open).filter(|more| granted + more >= needed).count();
    match wins {
        0 => Verdict::Lost,
        all if all == open + 1 => Verdict::Won,
        _ => Verdict::Pending,
    }
}

#[test]
fn the_verdict_falls_exactly_when_open_votes_cannot_change_it() {
    for servers in 1..=9 {
        for needed in servers / 2 + 1..=servers {
            let quorum = Quorum::new(servers, Some(needed)).unwrap();
            for granted in 0..=servers {
                for denied in 0..=servers - granted {
                    assert_eq!(
                        quorum.verdict(granted, denied),
                        plain_verdict(servers, needed, granted, denied),
                        "{needed} of {servers}, {granted} granted, {denied} denied"
                    );
                }
            }
        }
    }
}

#[test]
fn only_majorities_are_quorums() {
    assert!(Quorum::new(0, None).unwrap_err().starts_with("no server"));
    assert!(Quorum::new(64, None).is_ok());
    assert!(Quorum::new(65, None).unwrap_err().starts_with("65 servers"));
    for servers in 1..=9 {
        assert_eq!(Quorum::new(servers, None).unwrap().needed(), servers / 2 + 1);
        for needed in 0..=servers + 1 {
            let is_majority = 2 * needed > servers && needed <= servers;
            assert_eq!(Quorum::new(servers, Some(needed)).is_ok(), is_majority);
        }
    }
    let error = Quorum::new(4, Some(2)).unwrap_err();
    assert!(error.contains("at least 3"), "{error}");
}

/// 3 of 5 has k=0, 4 of 5 has k=2 and f=1.
#[test]
fn the_tolerance_is_what_the_overlap_of_quorums_allows() {
    let tolerance = |servers, needed| Quorum::new(servers, Some(needed)).unwrap().tolerance();
    assert_eq!(tolerance(5, 3), Tolerance { memory_losses: 0, outages: 2 });
    assert_eq!(tolerance(5, 4), Tolerance { memory_losses: 2, outages: 1 });
    assert_eq!(tolerance(4, 3), Tolerance { memory_losses: 1, outages: 1 });
    assert_eq!(tolerance(1, 1), Tolerance { memory_losses: 0, outages: 0 });
}

#[derive(Clone, Copy, PartialEq)]
enum Vote {
    Granted,
    Refused,
    Failed,
    Open,
}

const VOTES: [Vote; 4] = [Vote::Granted, Vote::Refused, Vote::Failed, Vote::Open];

/// All ways in which this number of servers can have voted.
fn all_votes(servers: usize) -> Vec<Vec<Vote>> {
    (0..servers).fold(vec![Vec::new()], |all, _| {
        let and_one = |votes: &Vec<Vote>| VOTES.map(|vote| [&votes[..], &[vote]].concat());
        all.iter().flat_map(and_one).collect()
    })
}

/// Whether the servers that voted so are enough for an acquire to be lost, had all others granted it.
fn is_enough(kind: Vote, votes: &[Vote], needed: usize) -> bool {
    votes.iter().filter(|vote| **vote != kind).count() < needed
}

fn plainly_leaves_open_why(votes: &[Vote], needed: usize) -> bool {
    let all_fail = |vote: &Vote| if *vote == Vote::Open { Vote::Failed } else { *vote };
    let failed: Vec<Vote> = votes.iter().map(all_fail).collect();
    let could_win = |vote: &&Vote| matches!(vote, Vote::Granted | Vote::Open);
    votes.iter().filter(could_win).count() < needed
        && !is_enough(Vote::Refused, votes, needed)
        && !is_enough(Vote::Failed, votes, needed)
        && is_enough(Vote::Failed, &failed, needed)
}

#[test]
fn what_an_acquire_was_lost_for_is_waited_for_exactly_where_that_is_open() {
    let servers_max = if cfg!(miri) { 3 } else { 6 };
    for servers in 1..=servers_max {
        for needed in servers / 2 + 1..=servers {
            let quorum = Quorum::new(servers, Some(needed)).unwrap();
            for votes in all_votes(servers) {
                let count = |kind| votes.iter().filter(|vote| **vote == kind).count();
                let [refused, failed, open] = [Vote::Refused, Vote::Failed, Vote::Open].map(count);
                assert_eq!(
                    quorum.leaves_open_why(refused, failed, open),
                    plainly_leaves_open_why(&votes, needed),
                    "{needed} of {servers}: {refused} refused, {failed} failed, {open} open"
                );
            }
        }
    }
}
