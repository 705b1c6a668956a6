use std::sync::Mutex;

use super::*;

const NAME: &[u8] = b"invoice:42";

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Notes the first kind of event once, the second twice and so on, so that each count shows its kind.
fn noted(meter: &Meter) {
    let mut times = 1..;
    let mut repeat = |note: &dyn Fn()| (0..times.next().unwrap()).for_each(|_: i32| note());
    repeat(&|| meter.count(Counter::Attempt));
    repeat(&|| meter.note_granted(NAME, ms(1)));
    repeat(&|| meter.count_and_tell(Counter::Contended, Event::Contended { name: NAME }));
    repeat(&|| {
        meter.count_and_tell(Counter::TimedOut, Event::TimedOut { name: NAME, waited: ms(2) });
    });
    repeat(&|| meter.count(Counter::Unknown));
    repeat(&|| meter.count_and_tell(Counter::Failed, Event::Failed { name: NAME }));
    repeat(&|| meter.note_released(NAME, ms(3)));
    repeat(&|| meter.note_renewed(NAME, ms(4)));
    repeat(&|| meter.count_and_tell(Counter::RenewalFailed, Event::RenewalFailed { name: NAME }));
    repeat(&|| meter.count(Counter::Repaired));
    repeat(&|| meter.count_and_tell(Counter::HandedOver, Event::HandedOver { name: NAME }));
    repeat(&|| meter.count(Counter::Woken));
    repeat(&|| meter.note_waiting(1));
    repeat(&|| meter.note_held(1));
    for reason in Loss::ALL {
        repeat(&|| meter.note_lost(NAME, reason));
    }
    repeat(&|| meter.count_and_tell(Counter::Ticketed, Event::Ticketed { name: NAME }));
    repeat(&|| meter.count_and_tell(Counter::Adopted, Event::Adopted { name: NAME }));
    repeat(&|| {
        meter.count_and_tell(
            Counter::Stolen,
            Event::Stolen { name: NAME, owner: "another", label: None },
        );
    });
}

#[test]
fn everything_that_is_noted_is_in_its_own_figure() {
    let meter = Meter::new(None);
    noted(&meter);
    let stats = meter.snapshot(Vec::new());
    let Stats { attempts, granted, contended, timed_out, unknown, failed, released, .. } = stats;
    assert_eq!(
        [attempts, granted, contended, timed_out, unknown, failed, released],
        [1, 2, 3, 4, 5, 6, 7]
    );
    let Stats { renewed, renewals_failed, repaired, handed_over, woken, waiting, held, .. } = stats;
    assert_eq!(
        [renewed, renewals_failed, repaired, handed_over, woken, waiting, held],
        [8, 9, 10, 11, 12, 13, 14]
    );
    assert_eq!(Loss::ALL.map(|reason| stats.losses(reason)), [15, 16, 17, 18, 19, 20]);
    assert_eq!([stats.ticketed, stats.adopted, stats.stolen], [21, 22, 23]);
    assert_eq!(stats.lost(), 105);
    let longest = [&stats.wait, &stats.hold, &stats.renewal_round_trip].map(Latencies::max);
    assert_eq!(longest, [Some(ms(1)), Some(ms(3)), Some(ms(4))]);
}

#[test]
fn what_comes_and_goes_is_counted_as_it_stands_and_never_below_none() {
    let meter = Meter::new(None);
    let standing = || {
        let Stats { held, waiting, .. } = meter.snapshot(Vec::new());
        (held, waiting)
    };
    meter.note_held(1);
    meter.note_held(1);
    meter.note_held(-1);
    meter.note_waiting(1);
    assert_eq!(standing(), (1, 1));
    meter.note_held(-1);
    meter.note_waiting(-1);
    assert_eq!(standing(), (0, 0));
    meter.note_held(-1);
    meter.note_waiting(-1);
    assert_eq!(standing(), (0, 0));
}

#[test]
fn an_observer_hears_each_event_as_it_is_noted() {
    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| {
        assert_eq!(event.name(), NAME);
        HEARD.lock().unwrap().push(format!("{event:?}"));
    };
    let meter = Meter::new(Some(Arc::new(observer)));
    noted(&meter);
    let heard = std::mem::take(&mut *HEARD.lock().unwrap());
    let times = |kind: &str| heard.iter().filter(|event| event.starts_with(kind)).count();
    let kinds = ["Granted", "Contended", "TimedOut", "Failed ", "Released", "Renewed"];
    assert_eq!(kinds.map(times), [2, 3, 4, 6, 7, 8]);
    assert_eq!(["RenewalFailed", "HandedOver", "Lost"].map(times), [9, 11, 105]);
    assert_eq!(["Ticketed", "Adopted", "Stolen"].map(times), [21, 22, 23]);
    let taken_over = 21 + 22 + 23;
    let all = 2 + 3 + 4 + 6 + 7 + 8 + 9 + 11 + 105 + taken_over;
    assert_eq!(heard.len(), all, "and nothing else");
    let at_its_end = |part: &str| heard.iter().filter(|event| event.contains(part)).count();
    assert_eq!(["waited: 1ms", "waited: 2ms", "held_for: 3ms"].map(at_its_end), [2, 4, 7]);
    assert_eq!(at_its_end("reason: NoQuorum"), 17);
}

#[test]
fn an_observer_that_panics_changes_no_figure_and_is_asked_again() {
    let observer = |_: &Event<'_>| std::panic::resume_unwind(Box::new("observer"));
    let meter = Meter::new(Some(Arc::new(observer)));
    meter.note_granted(NAME, ms(1));
    meter.note_granted(NAME, ms(1));
    assert_eq!(meter.snapshot(Vec::new()).granted, 2);
}

#[test]
fn the_text_is_a_few_lines_for_a_log() {
    let meter = Meter::new(None);
    meter.count(Counter::Attempt);
    meter.note_granted(NAME, ms(1));
    meter.note_held(1);
    let fresh = meter.snapshot(Vec::new()).to_string();
    assert_eq!(
        fresh.lines().next(),
        Some("leases: 1 held, 1 granted, 0 released (0 handed over), 0 lost")
    );
    meter.note_lost(NAME, Loss::Gone);
    meter.note_lost(NAME, Loss::Expired);
    meter.note_lost(NAME, Loss::Expired);
    let server = |server: &str, breaker, connected| ServerStats {
        #[cfg(feature = "grace")]
        grace: None,
        server: server.to_owned(),
        breaker,
        connected,
    };
    let servers = vec![
        server("10.0.0.1:6379", BreakerState::Closed, true),
        server("10.0.0.2:6379", BreakerState::HalfOpen, false),
    ];
    let expected = "\
leases: 1 held, 1 granted, 0 released (0 handed over), 3 lost (2: it expired; 1: its key was deleted, or taken by another client)
requests: 0 waiting, 1 attempts, 0 contended, 0 timed out, 0 unknown, 0 failed, 0 woken
renewals: 0, 0 failed, 0 repairs
wait: 1, mean 1 ms, median at most 1 ms, 99 % at most 1 ms, maximum 1 ms
hold: none
renewal round trip: none
server 10.0.0.1:6379: connected, breaker closed
server 10.0.0.2:6379: not connected, breaker half-open";
    assert_eq!(meter.snapshot(servers).to_string(), expected);
}
