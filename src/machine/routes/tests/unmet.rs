//! Questions that are sent on to a server that nobody has met yet.

use super::*;

/// Two locks, each asked for at a server of its own; the second one's sends the question on to `new`.
fn both_sent_on(bench: &mut Bench) -> (LeaseId, Vec<Bytes>) {
    lead(bench, halves);
    let id = both(bench);
    let (_, one) = the_one(bench, 0);
    the_one(bench, 1);
    refuse(bench, 1, "MOVED 98 new");
    assert_eq!((granted(bench, id), bench.machine.address(2)), (None, "new"));
    (id, one)
}

#[test]
fn one_of_two_locks_is_asked_for_at_a_server_that_nobody_knew_once_that_is_there() {
    for is_granted_before in [true, false] {
        let mut bench = routed();
        let (id, one) = both_sent_on(&mut bench);
        let asked_at = bench.now;
        if is_granted_before {
            bench.reply(0, &stamp(&one));
        }
        bench.dial(2, Login::default());
        let mut asked = Vec::new();
        bench.answer(2, |command| {
            let is_script = command[0] == "EVALSHA";
            asked.extend(is_script.then(|| text(&command[2..5])));
            vec![if is_script { stamp(command) } else { greeting(command, "") }]
        });
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert!(asked[0].starts_with("1 b "), "{asked:?}");
        assert!(called(&mut bench, 0).is_empty(), "what has an answer is not asked again");
        if !is_granted_before {
            assert_eq!(granted(&mut bench, id), None);
            bench.reply(0, &stamp(&one));
        }
        assert_eq!(granted(&mut bench, id), Some(true));
        let until = bench.machine.state(id).and_then(LeaseState::until).unwrap();
        assert_eq!(until, Term::new(Duration::from_secs(10), None).unwrap().deadline(asked_at));
    }
}

#[test]
fn one_of_two_locks_is_refused_where_the_server_that_nobody_knew_is_not_there() {
    for is_granted_before in [true, false] {
        let mut bench = routed();
        let (id, one) = both_sent_on(&mut bench);
        if is_granted_before {
            bench.reply(0, &stamp(&one));
        }
        bench.dial(2, Login::default());
        bench.close(2);
        assert_eq!(granted(&mut bench, id), Some(false));
        bench.machine.forget(id, bench.now);
        assert_eq!(the_one(&mut bench, 0).0, "release");
        assert!(called(&mut bench, 1).is_empty(), "nothing has run there");
    }
}

#[test]
fn one_of_two_locks_is_refused_where_the_server_that_nobody_knew_is_not_there_in_time() {
    let mut bench = routed();
    let (id, one) = both_sent_on(&mut bench);
    bench.reply(0, &stamp(&one));
    bench.pass(bench.machine.settings().timeout);
    assert_eq!(granted(&mut bench, id), Some(false));
}
