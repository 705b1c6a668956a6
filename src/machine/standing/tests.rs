use super::super::tests::{Bench, acquire, greeting, settings, stamp};
use super::super::{LeaseId, Login, Said};
use super::*;

fn answer(bench: &mut Bench, server: usize) {
    bench.answer(server, |command| {
        let is_script = command[0] == "EVALSHA";
        vec![if is_script { stamp(command) } else { greeting(command, "") }]
    });
}

/// Whether an attempt asks this server, which answers.
fn attempt(bench: &mut Bench, server: usize) -> (bool, LeaseId) {
    let id = acquire(bench, b"a");
    answer(bench, 0);
    let asked = bench.machine.has_output(server);
    answer(bench, server);
    (asked, id)
}

fn told(bench: &mut Bench) -> Vec<bool> {
    bench.effects.append(bench.machine.take_effects());
    let effects = std::mem::take(&mut bench.effects).into_iter();
    let told = effects.filter_map(|effect| match effect {
        Effect::Tell(Event::Breaker { server: 1, is_open }) => Some(is_open),
        _ => None,
    });
    told.collect()
}

/// Two of three servers serve, and one of these answers nothing for a timeout.
fn silent() -> Bench {
    let mut bench = Bench::new(3, settings(3));
    for server in [0, 1] {
        bench.dial(server, Login::default());
        answer(&mut bench, server);
    }
    for name in [b"x", b"y"] {
        acquire(&mut bench, name);
        answer(&mut bench, 0);
    }
    bench.pass(Duration::from_millis(500));
    assert_eq!(told(&mut bench), [true]);
    bench
}

#[test]
fn a_server_that_does_not_answer_is_left_out_until_it_has_answered_a_handshake() {
    let mut bench = silent();
    bench.said(1);
    let (is_asked, id) = attempt(&mut bench, 1);
    let report = bench.machine.report(id, bench.now).nth(1).unwrap();
    assert!(!is_asked && matches!(report.said, Said::LeftOut(_)));
    assert!(bench.machine.is_left_out_for(1, bench.now).is_some());
    bench.close(1);
    bench.dial(1, Login::default());
    assert!(told(&mut bench).is_empty());
    answer(&mut bench, 1);
    assert_eq!(told(&mut bench), [false]);
    assert!(attempt(&mut bench, 1).0);
}

#[test]
fn an_answer_that_comes_when_nobody_needs_it_any_more_is_one() {
    let mut bench = silent();
    answer(&mut bench, 1);
    assert_eq!(told(&mut bench), [false]);
    assert!(attempt(&mut bench, 1).0);
}
