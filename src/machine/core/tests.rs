use leasehold_resp::Frame;

use super::super::tests::{Bench, acquire, bulk, greeting, request, stamp};
use super::*;
use crate::policy::Wait;

fn grant(bench: &mut Bench) {
    bench.answer(0, |command| vec![stamp(command)]);
}

fn told(bench: &mut Bench) -> Vec<Effect> {
    bench.pass(Duration::ZERO);
    bench.effects.append(bench.machine.take_effects());
    let effects = std::mem::take(&mut bench.effects);
    effects.into_iter().filter(|effect| matches!(effect, Effect::Tell(_))).collect()
}

#[test]
fn renewals_that_come_to_something_and_to_nothing_are_told_and_those_of_the_holder_are_not() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    grant(&mut bench);
    assert_eq!(bench.machine.take_counts(), Counts { attempts: 1, held: 1, ..Counts::default() });
    bench.machine.extend(id, bench.now);
    grant(&mut bench);
    assert!(told(&mut bench).is_empty());
    bench.pass(Duration::from_millis(3400));
    grant(&mut bench);
    let renewed = told(&mut bench);
    let [Effect::Tell(Event::Renews(begun)), Effect::Tell(Event::Renewed(done, ..))] = &renewed[..]
    else {
        panic!("{renewed:?}")
    };
    assert_eq!((*begun, *done), (id, id));
    bench.pass(Duration::from_millis(3400));
    bench.said(0);
    assert!(matches!(&told(&mut bench)[..], [Effect::Tell(Event::Renews(_))]));
    // The answer is late.
    bench.pass(Duration::from_millis(600));
    assert!(matches!(&told(&mut bench)[..], [Effect::Tell(Event::RenewalFailed(..)), ..]));
    bench.machine.release(id, bench.now);
    assert_eq!(bench.machine.take_counts(), Counts { held: -1, ..Counts::default() });
}

/// Such a renewal was told to have failed, while every server extended the lease.
#[test]
fn a_renewal_that_is_under_way_when_the_holder_asks_for_more_has_not_failed() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    grant(&mut bench);
    bench.pass(Duration::from_millis(3400));
    let renewal = bench.said(0);
    assert!(matches!(&told(&mut bench)[..], [Effect::Tell(Event::Renews(_))]));
    let round = bench.machine.extend(id, bench.now);
    for command in &renewal {
        let is_script = command[0] == "EVALSHA";
        bench.reply(0, &if is_script { stamp(command) } else { greeting(command, "") });
    }
    grant(&mut bench);
    assert!(matches!(&told(&mut bench)[..], [Effect::Tell(Event::Overtaken(_))]));
    let context = &std::task::Context::from_waker(std::task::Waker::noop());
    let is_extended = bench.machine.poll_extended(id, round, &mut None, context);
    assert_eq!(is_extended, std::task::Poll::Ready(true));
    // One that nobody overtakes is told as ever.
    bench.pass(Duration::from_millis(3400));
    bench.said(0);
    bench.pass(Duration::from_millis(600));
    let told = told(&mut bench);
    assert!(
        matches!(
            told[..],
            [Effect::Tell(Event::Renews(_)), Effect::Tell(Event::RenewalFailed(..)), ..]
        ),
        "{told:?}"
    );
}

#[test]
fn a_refused_request_is_contended_and_waits_until_it_is_forgotten() {
    let mut bench = Bench::connected(1);
    bench.is_told = true;
    let id = request(&mut bench, b"a", Wait::Forever);
    bench.answer(0, |command| {
        let holder = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
        match &command[0][..] {
            b"EVALSHA" => {
                vec![Frame::Array([stamp(command)].into_iter().chain(holder).collect())]
            }
            b"SUBSCRIBE" => Vec::new(),
            _ => vec![greeting(command, "")],
        }
    });
    assert!(matches!(&told(&mut bench)[..], [Effect::Tell(Event::Contended(_))]));
    let Counts { attempts, waiting, woken, .. } = bench.machine.take_counts();
    assert!(attempts >= 1 && (waiting, woken) == (1, 0));
    bench.machine.forget(id, bench.now);
    assert_eq!(bench.machine.take_counts(), Counts { waiting: -1, ..Counts::default() });
}

#[test]
fn an_attempt_whose_connection_ends_is_unknown_and_a_lease_that_ends_is_lost() {
    let mut bench = Bench::connected(1);
    let held = acquire(&mut bench, b"a");
    grant(&mut bench);
    acquire(&mut bench, b"b");
    bench.said(0);
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    let counts = Counts { attempts: 2, unknown: 1, held: 1, ..Counts::default() };
    assert_eq!(bench.machine.take_counts(), counts);
    told(&mut bench);
    bench.pass(Duration::from_secs(10));
    let told = told(&mut bench);
    let is_lost =
        |effect: &Effect| matches!(effect, Effect::Tell(Event::Lost(_, _, Loss::Expired)));
    assert!(told.last().is_some_and(is_lost), "{told:?}");
    assert!(!bench.machine.state(held).unwrap().is_held());
    assert_eq!(bench.machine.take_counts().held, -1);
}
