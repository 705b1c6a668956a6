use super::super::mutants::{self, Mutant};
use super::world::{Case, Named, Old, search};
use super::*;

const OLD: char = 'o';
const NEW: char = 'n';

fn at(ms: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_millis(ms))
}

fn word(epoch: u64, master: char) -> Word<char> {
    Word { epoch, master, watched: master, is_down: false, is_new: false }
}

/// As the Sentinel that leads a failover answers until that is over.
fn leads(epoch: u64) -> Word<char> {
    Word { epoch, master: NEW, watched: OLD, is_down: true, is_new: false }
}

fn evidence(words: &[Word<char>], roles: &[(char, Role)]) -> Evidence<char> {
    Evidence { words: words.to_vec(), roles: roles.to_vec(), replicas: None }
}

/// Of three Sentinels, with the old master followed at epoch 1.
fn following() -> Mastership<char> {
    let mut mastership = Mastership::new(3);
    mastership.follow(&Successor { master: OLD, epoch: 1, has_rival: false });
    mastership
}

fn successor(has_rival: bool) -> Step<char> {
    Step::Follow(Successor { master: NEW, epoch: 2, has_rival })
}

const BOTH: [(char, Role); 2] = [(OLD, Role::Master), (NEW, Role::Master)];

#[test]
fn a_newer_master_beside_the_old_one_counts_once_the_word_is_confirmed() {
    let mut mastership = following();
    let alone = [leads(2), word(1, OLD)];
    let look = Step::Look(vec![OLD, NEW]);
    assert_eq!(mastership.next(&evidence(&alone, &[]), at(0)), look);
    assert_eq!(mastership.next(&evidence(&alone, &BOTH), at(0)), Step::AskAgain);
    let two = [leads(2), word(2, NEW)];
    assert_eq!(mastership.next(&evidence(&two, &BOTH), at(100)), successor(true));
    // Where only one answers, its word is all there is; so is one that lasts.
    assert_eq!(following().next(&evidence(&[leads(2)], &BOTH), at(0)), successor(true));
    assert_eq!(mastership.next(&evidence(&alone, &BOTH), at(499)), Step::AskAgain);
    assert_eq!(mastership.next(&evidence(&alone, &BOTH), at(500)), successor(true));
}

#[test]
fn a_server_that_is_no_master_any_more_gives_way_at_once() {
    for old in [Role::Replica, Role::Refused] {
        let roles = [(OLD, old), (NEW, Role::Master)];
        let words = [leads(2), word(1, OLD)];
        assert_eq!(following().next(&evidence(&words, &roles), at(0)), successor(false));
    }
}

/// A server may be silent for one client alone, or for a moment, also where Sentinels call it down:
/// others go on with it. So may one be that refuses connections, where no Sentinel does.
#[test]
fn a_server_that_does_not_answer_may_be_a_master_unless_it_has_ended() {
    for (old, is_down) in [(Role::Silent, false), (Role::Silent, true), (Role::Refused, false)] {
        let roles = [(OLD, old), (NEW, Role::Master)];
        let leads = Word { is_down, ..leads(2) };
        let mut mastership = following();
        let words = [leads.clone(), word(1, OLD)];
        assert_eq!(mastership.next(&evidence(&words, &roles), at(0)), Step::AskAgain);
        let words = [leads, word(2, NEW)];
        assert_eq!(mastership.next(&evidence(&words, &roles), at(1)), successor(true));
    }
    // It was called down while it was watched, and has not answered since.
    let refused = [(OLD, Role::Refused), (NEW, Role::Master)];
    let down = [Word { is_down: true, ..word(1, OLD) }];
    let after = [word(2, NEW)];
    let mut mastership = following();
    assert_eq!(mastership.next(&evidence(&down, &refused[..1]), at(0)), Step::AskForReplicas);
    assert_eq!(mastership.next(&evidence(&after, &refused), at(1)), successor(false));
    let mut mastership = following();
    mastership.next(&evidence(&down, &refused[..1]), at(0));
    mastership.next(&evidence(&down, &BOTH), at(1));
    assert_eq!(mastership.next(&evidence(&after, &refused), at(2)), successor(true));
}

#[test]
fn a_server_that_is_announced_too_early_is_waited_for() {
    for old in [Role::Master, Role::Silent, Role::Replica] {
        let roles = [(OLD, old), (NEW, Role::Replica)];
        let words = [word(2, NEW), word(2, NEW), word(2, NEW)];
        assert_eq!(following().next(&evidence(&words, &roles), at(0)), Step::AskAgain);
    }
}

/// Others reach it, and leave the old one.
#[test]
fn a_successor_that_does_not_answer_is_followed_once_the_sentinels_are_agreed() {
    for new in [Role::Silent, Role::Refused] {
        for old in [Role::Master, Role::Silent, Role::Replica] {
            let roles = [(OLD, old), (NEW, new)];
            let mut mastership = following();
            let alone = [leads(2), word(1, OLD)];
            for ms in [0, 9000] {
                assert_eq!(mastership.next(&evidence(&alone, &roles), at(ms)), Step::AskAgain);
            }
            let two = [leads(2), word(2, NEW), word(1, OLD)];
            assert_eq!(mastership.next(&evidence(&two, &roles), at(9000)), successor(true));
            let only = evidence(&[leads(2)], &roles);
            assert_eq!(following().next(&only, at(0)), successor(true));
        }
        let mut newcomer = Mastership::new(3);
        let roles = [(OLD, Role::Master), (NEW, new)];
        let two = [leads(2), word(2, NEW), word(1, OLD)];
        assert_eq!(newcomer.next(&evidence(&two, &roles), at(0)), successor(true));
        let alone = evidence(&[leads(2), word(1, OLD)], &roles);
        assert_eq!(newcomer.next(&alone, at(0)), Step::AskAgain);
        let old = Step::Follow(Successor { master: OLD, epoch: 1, has_rival: true });
        assert_eq!(newcomer.next(&alone, at(500)), old);
    }
}

/// The Sentinel that leads names the old master beside the new epoch, if it is asked which masters it
/// watches.
#[test]
fn nothing_goes_back_to_a_master_of_the_same_epoch_or_an_older_one() {
    let mut mastership = following();
    mastership.follow(&Successor { master: NEW, epoch: 2, has_rival: true });
    for epoch in [1, 2] {
        let words = [word(epoch, OLD), word(epoch, OLD), word(epoch, OLD)];
        assert_eq!(mastership.next(&evidence(&words, &BOTH), at(9000)), Step::Stay);
        let replica = [(OLD, Role::Master), (NEW, Role::Replica)];
        let back = |has_rival| Step::Follow(Successor { master: OLD, epoch, has_rival });
        assert_eq!(mastership.next(&evidence(&words[..1], &replica), at(9000)), back(false));
        // One Sentinel may just have missed the failover; more than half have not.
        let silent = [(OLD, Role::Master), (NEW, Role::Silent)];
        assert_eq!(mastership.next(&evidence(&words[..1], &silent), at(9000)), Step::AskAgain);
        assert_eq!(mastership.next(&evidence(&words, &silent), at(9000)), back(true));
    }
}

#[test]
fn the_only_replica_that_was_promoted_is_found_before_a_sentinel_names_it() {
    let down = [Word { is_down: true, ..word(1, OLD) }];
    let mut known = evidence(&down, &[]);
    let mut mastership = following();
    assert_eq!(mastership.next(&known, at(0)), Step::Look(vec![OLD]));
    known.roles.push((OLD, Role::Silent));
    assert_eq!(mastership.next(&known, at(0)), Step::Stay, "it may stand still");
    known.roles[0].1 = Role::Refused;
    assert_eq!(mastership.next(&known, at(0)), Step::AskForReplicas);
    // As two Sentinels name them.
    known.replicas = Some(vec!['a', NEW, 'a', NEW]);
    assert_eq!(mastership.next(&known, at(0)), Step::Look(vec!['a', NEW]));
    known.roles.extend([('a', Role::Replica), (NEW, Role::Replica)]);
    assert_eq!(mastership.next(&known, at(0)), Step::AskAgain);
    known.roles[2].1 = Role::Master;
    let found = Step::Follow(Successor { master: NEW, epoch: 1, has_rival: false });
    assert_eq!(mastership.next(&known, at(0)), found);
    assert_eq!(mastership.next(&known, at(1)), Step::AskAgain, "it was none at the last look");
    known.roles[2].1 = Role::Replica;
    mastership.next(&known, at(2));
    (known.roles[1].1, known.roles[2].1) = (Role::Master, Role::Master);
    assert_eq!(mastership.next(&known, at(3)), Step::AskAgain, "two say so");
    known.roles[1].1 = Role::Replica;
    known.roles[2].1 = Role::Refused;
    mastership.next(&known, at(4));
    known.roles[2].1 = Role::Master;
    assert_eq!(mastership.next(&known, at(5)), Step::AskAgain, "it has come back");
    known.roles[2].1 = Role::Replica;
    mastership.next(&known, at(6));
    known.roles[0].1 = Role::Master;
    assert_eq!(mastership.next(&known, at(7)), Step::Stay, "it is well");
    (known.roles[0].1, known.roles[2].1) = (Role::Refused, Role::Master);
    assert_eq!(mastership.next(&known, at(8)), Step::AskAgain, "that was long ago");
}

#[test]
fn a_newcomer_in_the_middle_of_a_failover_begins_with_the_new_master() {
    let mut new = Mastership::new(2);
    assert_eq!(new.next(&evidence(&[], &[]), at(0)), Step::AskAgain);
    let agreed = Step::Follow(Successor { master: OLD, epoch: 1, has_rival: false });
    assert_eq!(new.next(&evidence(&[word(1, OLD), word(1, OLD)], &[]), at(0)), agreed);
    let changed = [Word { is_new: true, ..word(2, NEW) }, word(2, NEW)];
    assert_eq!(new.next(&evidence(&changed, &[]), at(0)), successor(true), "a moment ago");
    let words = [leads(2)];
    assert_eq!(new.next(&evidence(&words, &[]), at(0)), Step::Look(vec![NEW, OLD]));
    assert_eq!(new.next(&evidence(&words, &BOTH), at(0)), successor(true));
    for (old, is_down) in [(Role::Silent, false), (Role::Silent, true), (Role::Refused, false)] {
        let words = [Word { is_down, ..leads(2) }];
        let roles = [(OLD, old), (NEW, Role::Master)];
        assert_eq!(new.next(&evidence(&words, &roles), at(0)), successor(true));
    }
    let refused = [(OLD, Role::Refused), (NEW, Role::Master)];
    assert_eq!(new.next(&evidence(&words, &refused), at(0)), successor(false));
    let early = [(OLD, Role::Master), (NEW, Role::Replica)];
    let words = [word(2, NEW), word(1, OLD)];
    assert_eq!(new.next(&evidence(&words, &early), at(0)), agreed);
}

const fn case(named: Named, old: Old) -> Case {
    Case {
        named,
        old,
        leader_may_end: false,
        seems: None,
        is_new_silent: false,
        is_newcomer: false,
        has_former: false,
    }
}

const CASES: [Case; 20] = [
    case(Named::Leader, Old::Lives),
    case(Named::Each, Old::Lives),
    Case { leader_may_end: true, ..case(Named::All, Old::Lives) },
    Case { leader_may_end: true, ..case(Named::All, Old::Killed) },
    case(Named::Each, Old::Killed),
    Case { leader_may_end: true, has_former: true, ..case(Named::All, Old::Killed) },
    case(Named::All, Old::Vanished),
    case(Named::Each, Old::Vanished),
    Case { seems: Some(Role::Silent), ..case(Named::Leader, Old::Lives) },
    Case { seems: Some(Role::Refused), ..case(Named::Leader, Old::Lives) },
    Case { leader_may_end: true, seems: Some(Role::Silent), ..case(Named::All, Old::Lives) },
    Case { seems: Some(Role::Silent), ..case(Named::Each, Old::IsCalledDown) },
    Case { leader_may_end: true, seems: Some(Role::Silent), ..case(Named::All, Old::IsCalledDown) },
    Case { is_new_silent: true, ..case(Named::Leader, Old::Lives) },
    Case { is_new_silent: true, ..case(Named::Each, Old::Lives) },
    Case { is_new_silent: true, seems: Some(Role::Silent), ..case(Named::All, Old::Lives) },
    Case { is_newcomer: true, ..case(Named::All, Old::Killed) },
    Case { is_newcomer: true, ..case(Named::Each, Old::Lives) },
    Case { is_newcomer: true, is_new_silent: true, ..case(Named::All, Old::Lives) },
    Case { is_newcomer: true, leader_may_end: true, ..case(Named::All, Old::Lives) },
];

#[test]
fn whatever_comes_when_no_two_servers_grant_and_service_goes_on() {
    let mut states = 0;
    for case in CASES {
        states += search(case).unwrap_or_else(|broken| panic!("{case:?}: {broken}"));
    }
    assert!(states > 1_000, "only {states} states were searched");
}

#[test]
fn each_known_bug_is_found() {
    for mutant in Mutant::OF_SENTINELS {
        mutants::set(Some(mutant));
        let is_found = CASES.into_iter().any(|case| search(case).is_err());
        mutants::set(None);
        assert!(is_found, "{mutant:?} was not noticed");
    }
}
