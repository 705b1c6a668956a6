//! Commands in pieces, because their keys are at two servers.

use super::*;

const APART: &str = "TRYAGAIN Multiple keys request during rehashing of slot";

/// The first piece of a request was granted.
fn taken() -> (Bench, LeaseId) {
    let mut bench = routed();
    let id = acquire(&mut bench, b"a");
    the_one(&mut bench, 0);
    refuse(&mut bench, 0, APART);
    let (name, take) = the_one(&mut bench, 0);
    assert_eq!(name, "take");
    bench.reply(0, &stamp(&take));
    (bench, id)
}

#[test]
fn a_lock_whose_keys_are_at_two_servers_is_taken_minted_and_extended() {
    let (mut bench, id) = taken();
    let (name, mint) = the_one(&mut bench, 0);
    assert_eq!((name, granted(&mut bench, id)), ("mint", None));
    let minted = [stamp(&mint), bulk("granted"), Frame::Integer(TOKEN)];
    bench.reply(0, &Frame::Array(minted.into()));
    let (name, extend) = the_one(&mut bench, 0);
    assert_eq!((name, granted(&mut bench, id)), ("extend", None));
    bench.reply(0, &stamp(&extend));
    assert_eq!(
        (granted(&mut bench, id), i64::try_from(bench.machine.token(id))),
        (Some(true), Ok(TOKEN))
    );
}

#[test]
fn a_lock_that_was_taken_and_not_minted_is_given_back() {
    let (mut bench, id) = taken();
    the_one(&mut bench, 0);
    refuse(&mut bench, 0, "OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(granted(&mut bench, id), Some(false));
    bench.machine.forget(id, bench.now);
    assert_eq!(the_one(&mut bench, 0).0, "release");
}

/// The last piece of what nobody waits for any more is still under way while the whole is given back.
#[test]
fn a_lock_in_pieces_whose_caller_has_gone_is_given_back_until_it_is() {
    let (mut bench, id) = taken();
    assert_eq!(the_one(&mut bench, 0).0, "mint");
    bench.machine.forget(id, bench.now);
    assert_eq!(the_one(&mut bench, 0).0, "release");
    bench.reply(0, &error("ASK 97 1"));
    refuse(&mut bench, 0, APART);
    let (name, release) = the_one(&mut bench, 0);
    assert_eq!(name, "release");
    bench.reply(0, &stamp(&release));
    assert_eq!(bench.machine.len(), 0);
}

/// The first server sends a command on to the second one, whose answer is this.
fn sent_on(bench: &mut Bench, name: &str, answer: impl FnOnce(&mut Bench, &[Bytes])) {
    assert_eq!(the_one(bench, 0).0, name);
    refuse(bench, 0, "ASK 97 1");
    let called = called(bench, 1);
    assert!(matches!(&called[..], [("ASKING", _), (its, _)] if *its == name), "{called:?}");
    bench.reply(1, &Frame::Simple("OK".into()));
    answer(bench, &called[1].1);
}

fn comes_back(bench: &mut Bench) {
    bench.dial(0, Login::default());
    while !bench.machine.serves(0) {
        for command in bench.said(0) {
            bench.reply(0, &greeting(&command, ""));
        }
    }
}

/// Each piece begins at the server from which the slot moves, and that one has gone meanwhile.
#[test]
fn a_piece_of_a_release_waits_for_a_server_that_has_gone() {
    let mut bench = routed();
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    bench.machine.forget(id, bench.now);
    sent_on(&mut bench, "release", |bench, _| {
        bench.close(0);
        refuse(bench, 1, APART);
    });
    assert_eq!(bench.machine.len(), 1);
    comes_back(&mut bench);
    let (name, release) = the_one(&mut bench, 0);
    bench.reply(0, &stamp(&release));
    assert_eq!((name, bench.machine.len()), ("release", 0));
}

#[test]
fn a_lock_whose_first_piece_was_taken_is_given_back_at_a_server_that_had_gone() {
    let mut bench = routed();
    let id = acquire(&mut bench, b"a");
    sent_on(&mut bench, "acquire", |bench, _| refuse(bench, 1, APART));
    sent_on(&mut bench, "take", |bench, take| {
        bench.close(0);
        bench.reply(1, &stamp(take));
    });
    bench.machine.forget(id, bench.now);
    assert_eq!(bench.machine.len(), 1);
    comes_back(&mut bench);
    assert_eq!(the_one(&mut bench, 0).0, "release");
}
