//! The scripts of shares themselves: what the head of each says.

use std::cell::RefCell;
use std::collections::BTreeMap;

use leasehold_resp::Frame;
use leasehold_testing::{Client, RedisServer, whole};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const SHARE: &str = include_str!("../../../scripts/share.lua");
const PROLONG: &str = include_str!("../../../scripts/prolong.lua");
const RELEASE: &str = include_str!("../../../scripts/release.lua");
const QUEUE: &str = include_str!("../../../scripts/queue.lua");
const STAMP: &str = "8123456789012345";
const KEYS: [&str; 4] = ["k", "{k}:fence", "{k}:queue", "{k}:shares"];

fn owner(number: usize) -> String {
    format!("{number:032x}~")
}

/// What a script says behind its stamp.
fn eval(client: &mut Client, script: &str, keys: &[&str], arguments: &[&str]) -> Vec<String> {
    let count = keys.len().to_string();
    let reply =
        client.call(&[&["EVAL", &whole(script), &count], keys, arguments, &[STAMP]].concat());
    let text = |item: &Frame| match item {
        Frame::Integer(number) => number.to_string(),
        other => String::from_utf8_lossy(other.as_bytes().expect("text")).into_owned(),
    };
    match reply {
        Frame::Bulk(stamp) if stamp == STAMP => vec![],
        Frame::Array(items) => items[1..].iter().map(text).collect(),
        Frame::Error(error) => vec![String::from_utf8_lossy(&error).into_owned()],
        other => panic!("{other:?}"),
    }
}

fn take(client: &mut Client, number: usize, ttl: &str, limit: &str, weight: &str) -> Vec<String> {
    eval(client, SHARE, &KEYS, &[&owner(number), "take", ttl, limit, weight])
}

fn prolong(client: &mut Client, number: usize, ttl: &str) -> bool {
    eval(client, PROLONG, &["k", "{k}:shares"], &[&owner(number), ttl]).is_empty()
}

fn wait(client: &mut Client, number: usize, how: &str, limit: &str) -> Vec<String> {
    let arguments = [&*owner(number), how, "60000", limit, "1", "channel", "30000"];
    eval(client, SHARE, &KEYS, &arguments)
}

fn free(client: &mut Client, number: usize, how: &str) -> bool {
    eval(client, SHARE, &KEYS, &[&owner(number), how]).is_empty()
}

fn convert(client: &mut Client, from: usize, to: usize, how: &str) -> Vec<String> {
    eval(client, SHARE, &KEYS, &[&owner(to), how, "60000", &owner(from)])
}

fn integer(client: &mut Client, command: &[&str]) -> i64 {
    let Frame::Integer(number) = client.call(command) else { panic!("{command:?}") };
    number
}

fn exists(client: &mut Client, key: &str) -> bool {
    integer(client, &["EXISTS", key]) == 1
}

fn pause(client: &mut Client, seconds: &str) {
    client.call(&["DEBUG", "SLEEP", seconds]);
}

/// redis-semaphore 5.8.0: a caller with a short TTL forgets a permit with a long one.
#[test]
fn a_permit_is_judged_by_its_own_ttl() {
    let server = RedisServer::start();
    let mut client = server.client();
    assert_eq!(take(&mut client, 1, "60000", "1", "1")[0], "granted");
    pause(&mut client, "0.02");
    let refused = take(&mut client, 2, "10", "1", "1");
    assert_eq!(
        (&refused[0][..], &refused[1][..34]),
        ("held", &*(owner(1)[..32].to_owned() + "*1"))
    );
    let left: i64 = refused[2].parse().unwrap();
    assert!((59_000..60_000).contains(&left), "when the next permit ends: {left}");
    assert!(prolong(&mut client, 1, "60000"));
}

/// distkit 0.7.1: a writer comes in while a reader's longer lease lasts.
#[test]
fn the_lock_lasts_as_long_as_the_longest_share() {
    let server = RedisServer::start();
    let mut client = server.client();
    take(&mut client, 1, "60000", "0", "1");
    take(&mut client, 2, "10", "0", "1");
    assert!(integer(&mut client, &["PTTL", "k"]) >= 59_000);
    pause(&mut client, "0.02");
    assert_eq!(client.call(&["SET", "k", "writer", "NX", "PX", "9"]), Frame::Null);
    assert!(free(&mut client, 2, ""), "it has ended, and nobody has had its place");
    assert!(!free(&mut client, 2, ""));
    assert!(free(&mut client, 1, ""));
    assert_eq!(integer(&mut client, &["EXISTS", "k", KEYS[2], KEYS[3]]), 0);
    take(&mut client, 1, "60000", "0", "1");
    take(&mut client, 2, "1000", "0", "1");
    assert!(free(&mut client, 1, ""));
    assert!(integer(&mut client, &["PTTL", "k"]) <= 1125, "and hardly longer");
    assert_eq!(
        client.text(&["GET", "k"]),
        owner(2)[..32].to_owned() + "*0~",
        "its end rests on the other"
    );
    assert!(free(&mut client, 2, ""));
    assert_eq!(integer(&mut client, &["EXISTS", "k", KEYS[3]]), 0);
}

/// Redisson #7098: a reader that lives renews the share of one that is gone.
#[test]
fn a_share_is_renewed_by_its_owner_alone_and_not_once_it_has_ended() {
    let server = RedisServer::start();
    let mut client = server.client();
    take(&mut client, 2, "60000", "0", "1");
    assert!(prolong(&mut client, 2, "90000"));
    take(&mut client, 1, "10", "0", "1");
    pause(&mut client, "0.02");
    assert!(!prolong(&mut client, 1, "90000"), "it does not come back");
    assert!(!prolong(&mut client, 3, "90000"), "nor is one made");
    let [now, later] = [0, 1].map(|_| integer(&mut client, &["ZCARD", KEYS[3]]));
    assert_eq!((now, later), (2, 2));
    take(&mut client, 4, "120000", "0", "1");
    assert_eq!(integer(&mut client, &["ZCARD", KEYS[3]]), 2, "what has ended is forgotten");
}

/// Redisson #4796: two readers that want to write wait for one another.
#[test]
fn only_the_sole_reader_becomes_a_writer_and_a_writer_a_reader_in_one_step() {
    let server = RedisServer::start();
    let mut client = server.client();
    let read = take(&mut client, 1, "60000", "0", "1");
    take(&mut client, 2, "60000", "0", "1");
    for reader in [1, 2] {
        let refused = convert(&mut client, reader, 3, "upgrade");
        assert_eq!((&refused[0][..], &refused[4][..]), ("held", "1"));
    }
    assert!(free(&mut client, 2, ""));
    let written = convert(&mut client, 1, 3, "upgrade");
    assert!(written[1] > read[1], "a token of its own");
    assert_eq!(client.text(&["GET", "k"]), owner(3));
    assert!(!prolong(&mut client, 1, "60000"));
    assert_eq!(convert(&mut client, 1, 4, "upgrade"), ["0"]);
    assert_eq!(take(&mut client, 5, "60000", "0", "1")[0], "held");
    let reads_on = convert(&mut client, 3, 6, "downgrade");
    assert!(reads_on[0] == "granted" && reads_on[1] > written[1]);
    assert_eq!(take(&mut client, 5, "60000", "0", "1"), reads_on, "that of the first to read");
    assert!(prolong(&mut client, 6, "60000") && prolong(&mut client, 5, "60000"));
}

#[test]
fn the_first_to_wait_is_first_and_a_limit_is_one() {
    let server = RedisServer::start();
    let (mut client, mut ear) = (server.client(), server.client());
    ear.call(&["SUBSCRIBE", "channel"]);
    assert_eq!(take(&mut client, 1, "60000", "2", "2")[0], "granted");
    assert_eq!(take(&mut client, 2, "60000", "3", "1"), ["limit", "2", "3"]);
    assert_eq!(take(&mut client, 2, "60000", "0", "1"), ["limit", "2", "0"]);
    assert_eq!(wait(&mut client, 3, "beat", "2"), ["0"], "it never entered");
    assert_eq!(wait(&mut client, 3, "enter", "2")[0], "held");
    assert_eq!(wait(&mut client, 4, "enter", "2")[4], "1");
    ear.call(&["UNSUBSCRIBE"]);
    assert!(free(&mut client, 1, ""), "and nobody hears it");
    assert_eq!(integer(&mut client, &["EXISTS", "k", KEYS[2], KEYS[3]]), 0);
    assert_eq!(wait(&mut client, 3, "beat", "2"), ["0"], "an owner is let in at most once");
    for key in KEYS {
        assert!(eval(&mut client, SHARE, &[key], &[&owner(1), "leave"]) == ["0"]);
    }
    client.call(&["RPUSH", "k", "no lock"]);
    assert!(!free(&mut client, 1, "") && !free(&mut client, 1, "single"));
    assert!(!prolong(&mut client, 1, "60000"));
}

/// Else the lock stays taken until the share would have ended, although nobody has one.
#[test]
fn a_share_is_given_back_although_the_queues_key_holds_no_queue() {
    let server = RedisServer::start();
    let mut client = server.client();
    for how in ["", "single", "leave"] {
        assert_eq!(take(&mut client, 1, "60000", "2", "1")[0], "granted");
        assert_eq!(wait(&mut client, 2, "enter", "1")[0], "limit");
        client.call(&["APPEND", "k", "\0"]);
        client.call(&["SET", KEYS[2], "no queue"]);
        assert!(free(&mut client, 1, how), "{how}");
        assert!(!exists(&mut client, "k") && !exists(&mut client, KEYS[3]), "{how}");
        client.call(&["DEL", KEYS[2]]);
    }
}

/// Such a release was refused, and so repeated for as long as the share that was not there might have lasted.
#[test]
fn a_share_that_is_not_there_is_released_although_the_server_refuses_writes() {
    let server = RedisServer::start();
    let mut client = server.client();
    for (weight, limit) in [("1", "0"), ("1", "2"), ("2", "4")] {
        client.call(&["FLUSHALL"]);
        assert_eq!(take(&mut client, 1, "60000", limit, weight)[0], "granted");
        client.call(&["REPLICAOF", "127.0.0.1", "1"]);
        for how in ["", "single", "leave"] {
            let mut say = |number| eval(&mut client, SHARE, &KEYS, &[&owner(number), how]);
            assert_eq!(say(2), ["0"], "{how}");
            assert!(say(1)[0].contains("READONLY"), "{how}");
        }
        client.call(&["REPLICAOF", "NO", "ONE"]);
        assert!(free(&mut client, 1, ""));
    }
}

/// Another library's value may be of any form.
#[test]
fn anothers_lock_is_not_taken_for_a_shared_one() {
    let server = RedisServer::start();
    let mut client = server.client();
    assert_eq!(take(&mut client, 1, "60000", "5", "1")[0], "granted");
    let forms = [("", 'g', "*5"), ("", '0', "*"), ("", '0', "*:"), ("ab*1", 'z', "*5")];
    for (start, fill, end) in forms {
        let foreign = format!("{start}{}{end}", fill.to_string().repeat(32 - start.len()));
        client.call(&["SET", "k", &foreign, "PX", "60000"]);
        assert_eq!(take(&mut client, 2, "60000", "5", "1")[0], "held", "{foreign}");
        assert!(!free(&mut client, 1, "") && !prolong(&mut client, 1, "90000"), "{foreign}");
        assert_eq!(client.text(&["GET", "k"]), foreign);
    }
}

/// What takes a share beside others, or gives one back, looks at the queue only where somebody waits.
#[test]
fn a_shared_lock_says_that_somebody_waits() {
    let server = RedisServer::start();
    let mut client = server.client();
    let is_marked = |client: &mut Client| client.text(&["GET", "k"]).ends_with('\0');
    assert_eq!(take(&mut client, 1, "60000", "2", "1")[0], "granted");
    client.call(&["CONFIG", "RESETSTAT"]);
    assert_eq!(take(&mut client, 2, "50000", "2", "1")[0], "granted");
    assert!(free(&mut client, 2, "single"));
    assert!(!client.text(&["INFO", "commandstats"]).contains("cmdstat_exists"));
    assert_eq!(take(&mut client, 3, "60000", "2", "1")[0], "granted");
    assert!(!is_marked(&mut client));
    assert_eq!(wait(&mut client, 4, "enter", "2")[0], "held");
    assert!(is_marked(&mut client));
    assert!(prolong(&mut client, 3, "90000") && is_marked(&mut client), "its end rests on another");
    assert!(free(&mut client, 3, "single"), "and nobody hears it");
    assert!(!exists(&mut client, KEYS[2]), "who waited is passed over");
    assert!(free(&mut client, 1, "single"));
    assert!(!exists(&mut client, "k") && !exists(&mut client, KEYS[3]));
    // A heavy share is given back whole.
    assert_eq!(take(&mut client, 5, "60000", "2", "2")[0], "granted");
    assert!(free(&mut client, 5, "") && !exists(&mut client, KEYS[3]));
}

#[test]
fn the_locks_own_release_tells_a_waiter_for_a_share_to_ask() {
    let server = RedisServer::start();
    let (mut client, mut ear) = (server.client(), server.client());
    client.call(&["SET", "k", &owner(9), "PX", "60000"]);
    ear.call(&["SUBSCRIBE", "channel"]);
    assert_eq!(wait(&mut client, 3, "enter", "0")[0], "held");
    assert_eq!(client.text(&["GET", "k"]), owner(9) + "\0");
    assert!(eval(&mut client, RELEASE, &KEYS[..3], &[&owner(9), ""]).is_empty());
    assert_eq!(integer(&mut client, &["EXISTS", "k"]), 0);
    let word = |text: String| Frame::Bulk(text.into());
    let told =
        vec![word("message".into()), word("channel".into()), word(format!("1 {}", owner(3)))];
    assert_eq!(ear.next_frame().unwrap(), Frame::Array(told.into()));
    assert_eq!(take(&mut client, 5, "60000", "0", "1")[0], "queued");
    assert_eq!(wait(&mut client, 3, "beat", "0")[0], "granted");
}

/// Dead waiters for shares ahead of one that lives: a release told the first without a look, and stopped there.
#[test]
fn dead_readers_keep_nobody_from_a_free_lock() {
    let server = RedisServer::start();
    let (mut client, mut ear) = (server.client(), server.client());
    ear.call(&["SUBSCRIBE", "channel"]);
    let again = |said: Vec<String>| said.first().is_some_and(|word| word.starts_with("AGAIN"));
    for dead in [1, 20, 700] {
        // The release of an owner, of a reader, and a fair try of another reader.
        for how in ["owner", "reader", "take"] {
            client.call(&["FLUSHALL"]);
            if how == "reader" {
                take(&mut client, 9, "60000", "0", "1");
            } else {
                client.call(&["SET", "k", &owner(9), "PX", "60000"]);
            }
            for number in 0..dead {
                let limit = if how == "reader" { "1" } else { "0" };
                let dead = owner(1000 + number);
                let entry = [&*dead, "enter", "60000", limit, "1", "nobody's", "30000"];
                if how == "reader" {
                    let (ticket, ends) = ((number + 1).to_string(), "9999999999999");
                    let entry = format!("{ends} 60000 nobody's {dead}");
                    let fields = ["first", "1", "last", &ticket, &ticket, &entry, &dead, &ticket];
                    client.call(&[&["HSET", KEYS[2]], &fields[..]].concat());
                } else {
                    eval(&mut client, SHARE, &KEYS, &entry);
                }
            }
            if how == "take" {
                client.call(&["DEL", "k"]);
                while again(take(&mut client, 3, "60000", "0", "1")) {}
                assert_eq!(client.text(&["GET", "k"]), owner(3)[..32].to_owned() + "*0~");
                continue;
            }
            let lives = [&*owner(3), "60000", "enter", "channel", "30000"];
            eval(&mut client, QUEUE, &KEYS[..3], &lives);
            if how == "reader" {
                client.call(&["APPEND", "k", "\0"]);
                while again(eval(&mut client, SHARE, &KEYS, &[&owner(9), "single"])) {}
            } else {
                while again(eval(&mut client, RELEASE, &KEYS[..3], &[&owner(9), ""])) {}
            }
            assert_eq!(client.text(&["GET", "k"]), owner(3), "{dead} dead, by {how}");
            assert!(!exists(&mut client, KEYS[2]));
            assert!(format!("{:?}", ear.next_frame().unwrap()).contains(&owner(3)));
        }
    }
}

/// A waiter whose words a full server refused had no place by the time at which there was room again.
#[test]
fn a_waiter_keeps_its_place_while_the_server_is_full() {
    let server = RedisServer::start();
    let mut client = server.client();
    for limit in ["0", ""] {
        client.call(&["FLUSHALL"]);
        client.call(&["SET", "k", &owner(9), "PX", "60000"]);
        let mut ask = |how| match limit {
            "" => {
                let writer = [&*owner(1), "60000", how, "channel", "30000"];
                eval(&mut client, QUEUE, &KEYS[..3], &writer)
            }
            reader => wait(&mut client, 1, how, reader),
        };
        assert_eq!(ask("enter")[0], "held");
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        let before = server.cli_text(&["HGET", KEYS[2], "1"]);
        server.cli(&["DEBUG", "SLEEP", "0.002"]);
        assert_eq!(ask("beat")[0], "held");
        assert!(server.cli_text(&["HGET", KEYS[2], "1"]) > before, "its time is later");
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        // One that stood before it has left.
        server.cli(&["HSET", KEYS[2], "first", "0"]);
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(ask("beat")[0], "held", "behind a gap");
        assert_eq!(server.cli_text(&["HGET", KEYS[2], "first"]), "1");
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    }
}

/// Lua reads `nan` as a number, which is neither small nor large.
#[test]
fn a_counter_that_is_no_number_is_said_to_be_none_and_nobody_waits_for_it() {
    let server = RedisServer::start();
    let mut client = server.client();
    take(&mut client, 1, "60000", "0", "1");
    for word in ["nan", "-nan", "inf", "x"] {
        client.call(&["SET", KEYS[1], word]);
        assert!(take(&mut client, 2, "60000", "0", "1")[0].starts_with("FENCE"), "{word}");
    }
    client.call(&["FLUSHALL"]);
    client.call(&["SET", "k", &owner(9), "PX", "60000"]);
    client.call(&["RPUSH", KEYS[1], "x"]);
    assert!(wait(&mut client, 1, "enter", "0")[0].contains("WRONGTYPE"));
    assert!(!exists(&mut client, KEYS[2]), "it has not entered");
}

#[derive(Clone, Debug)]
enum Step {
    Take { who: usize, ttl: &'static str, weight: u8 },
    Prolong { who: usize },
    Free { who: usize },
    Pause,
    Write,
}

fn step() -> impl Strategy<Value = Step> {
    let ttl = prop_oneof![Just("5"), Just("60000")];
    prop_oneof![
        4 => (0..6_usize, ttl, 1..4_u8).prop_map(|(who, ttl, weight)| Step::Take { who, ttl, weight }),
        2 => (0..6_usize).prop_map(|who| Step::Prolong { who }),
        2 => (0..6_usize).prop_map(|who| Step::Free { who }),
        1 => Just(Step::Pause),
        1 => Just(Step::Write),
    ]
}

/// Against what is known for sure: a long permit is held, and one whose time is over for sure is not.
#[test]
fn whatever_is_asked_permits_that_last_count_and_those_that_have_ended_do_not() {
    let server = RedisServer::start();
    let client = RefCell::new(server.client());
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    let steps = prop::collection::vec(step(), 1..60);
    let result = runner.run(&steps, |steps| {
        let client = &mut *client.borrow_mut();
        client.call(&["FLUSHALL"]);
        let mut attempts = 100;
        // By process: the owner, the weight, and whether it lasts.
        let mut held: BTreeMap<usize, (usize, u8, bool)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Take { who, .. } if held.contains_key(&who) => {}
                Step::Take { who, ttl, weight } => {
                    attempts += 1;
                    let sure: u8 = held.values().filter(|held| held.2).map(|held| held.1).sum();
                    let maybe: u8 = held.values().map(|held| held.1).sum();
                    let said = take(client, attempts, ttl, "4", &weight.to_string());
                    let is_granted = said[0] == "granted";
                    prop_assert!(is_granted || maybe + weight > 4, "{said:?} {held:?}");
                    prop_assert!(!is_granted || sure + weight <= 4, "{said:?} {held:?}");
                    if is_granted {
                        held.insert(who, (attempts, weight, ttl == "60000"));
                    }
                }
                Step::Prolong { who } => {
                    let Some(&(its, weight, lasts)) = held.get(&who) else { continue };
                    match prolong(client, its, "60000") {
                        true => held.insert(who, (its, weight, true)),
                        false => {
                            prop_assert!(!lasts);
                            held.remove(&who)
                        }
                    };
                }
                Step::Free { who } => {
                    let Some((its, _, lasts)) = held.remove(&who) else { continue };
                    prop_assert!(free(client, its, "") || !lasts);
                }
                Step::Pause => {
                    pause(client, "0.007");
                    held.retain(|_, held| held.2);
                }
                Step::Write => {
                    let is_taken = client.call(&["SET", "k", "x", "NX", "PX", "1"]) != Frame::Null;
                    prop_assert!(!is_taken || held.values().all(|held| !held.2));
                    if is_taken {
                        client.call(&["DEL", "k"]);
                        held.clear();
                    }
                }
            }
            prop_assert_ne!(integer(client, &["PTTL", KEYS[3]]), -1, "it ends by itself");
        }
        Ok(())
    });
    result.unwrap();
}
