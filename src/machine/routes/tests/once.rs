//! Questions that are sent elsewhere once, from a slot that moves to a server that has none yet.

use super::super::super::Event;
use super::*;

/// A second passes, in which the first server sends all extensions on to `new`, which takes them behind an `ASKING`; then the
/// map comes, which does not name that one. How many extensions it has taken.
fn a_second_passes(bench: &mut Bench) -> usize {
    let mut taken = 0;
    for _ in 0..100 {
        bench.pass(Duration::from_millis(10));
        if bench.machine.links.len() > 2 && bench.machine.links[2].state == State::Dialling {
            bench.dial(2, Login::default());
        }
        bench.answer(0, |command| match &command[0][..] {
            b"EVALSHA" | b"EVAL" => vec![error("ASK 97 new")],
            _ => vec![greeting(command, "")],
        });
        let mut is_asking = false;
        bench.answer(2, |command| match &command[0][..] {
            b"EVALSHA" | b"EVAL" if std::mem::take(&mut is_asking) => {
                taken += 1;
                vec![stamp(command)]
            }
            b"EVALSHA" | b"EVAL" => vec![error("MOVED 97 0")],
            _ => {
                is_asking = command[0] == "ASKING";
                vec![greeting(command, "")]
            }
        });
    }
    lead(bench, |_| Some(0));
    taken
}

#[test]
fn a_server_that_has_no_slot_yet_stays_connected_for_the_renewals_that_are_sent_there() {
    let mut bench = routed();
    let held = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    // The first one finds no connection there, and waits for it.
    bench.effects.clear();
    assert!((0..20).any(|_| a_second_passes(&mut bench) > 0));
    let has_failed = |effect: &Effect| matches!(effect, Effect::Tell(Event::RenewalFailed(..)));
    assert!(!bench.effects.iter().any(has_failed), "{:?}", bench.effects);
    bench.effects.clear();
    let taken: usize = (0..30).map(|_| a_second_passes(&mut bench)).sum();
    assert!(taken > 5, "{taken}");
    assert!(bench.machine.state(held).is_some_and(LeaseState::is_held));
    let is_harm = |effect: &Effect| {
        matches!(effect, Effect::Tell(Event::RenewalFailed(..)) | Effect::Demoted(_))
    };
    assert!(!bench.effects.iter().any(is_harm), "{:?}", bench.effects);
    assert!(bench.faults().is_empty());
    bench.machine.forget(held, bench.now);
    bench.answer(0, |command| vec![stamp(command)]);
    bench.pass(KEPT_FOR);
    lead(&mut bench, |_| Some(0));
    assert_eq!(bench.faults(), [&Fault::Closed], "it serves nothing");
}
