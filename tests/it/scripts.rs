//! The scripts themselves, on a real server: what the head of each says.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use leasehold_resp::Frame;
use leasehold_testing::{RedisServer, whole};

const ACQUIRE: &str = include_str!("../../scripts/acquire.lua");
const EXTEND: &str = include_str!("../../scripts/extend.lua");
const FREE: &str = include_str!("../../scripts/free.lua");
const RELEASE: &str = include_str!("../../scripts/release.lua");
const KEEP: &str = include_str!("../../scripts/keep.lua");
const HOLDER: &str = include_str!("../../scripts/holder.lua");
const INSPECT: &str = include_str!("../../scripts/inspect.lua");
const QUEUE: &str = include_str!("../../scripts/queue.lua");
const REPAIR: &str = include_str!("../../scripts/repair.lua");
const SEIZE: &str = include_str!("../../scripts/seize.lua");
const TAKE: &str = include_str!("../../scripts/take.lua");
const MINT: &str = include_str!("../../scripts/mint.lua");
const BEGIN: &str = include_str!("../../scripts/begin.lua");
const SETTLE: &str = include_str!("../../scripts/settle.lua");
const PROMISE: &str = include_str!("../../scripts/promise.lua");
const ACCEPT: &str = include_str!("../../scripts/accept.lua");

const KEYS: [&str; 3] = ["k", "{k}:fence", "{k}:queue"];

/// What every script is given, and gives back.
const STAMP: &str = "8123456789012345";

/// What a script says behind its stamp.
#[derive(Debug, PartialEq)]
enum Said {
    /// The stamp alone.
    Yes,
    Rest(Vec<Frame>),
    Error(String),
}

fn no() -> Said {
    Said::Rest(vec![Frame::Integer(0)])
}

fn granted(token: i64) -> Said {
    Said::Rest(vec![Frame::Bulk("granted".into()), Frame::Integer(token)])
}

fn eval(server: &RedisServer, script: &str, keys: &[&str], args: &[&str]) -> Said {
    let count = keys.len().to_string();
    let stamp = Frame::Bulk(STAMP.into());
    match server.cli(&[&["EVAL", &whole(script), &count], keys, args, &[STAMP]].concat()) {
        Frame::Array(items) => {
            assert_eq!(items[0], stamp);
            Said::Rest(items[1..].to_vec())
        }
        Frame::Error(text) => Said::Error(String::from_utf8_lossy(&text).into_owned()),
        reply => {
            assert_eq!(reply, stamp);
            Said::Yes
        }
    }
}

/// By a caller that neither waits nor minds waiters.
fn acquire(server: &RedisServer, owner: &str, token: &str, decides: &str) -> Said {
    eval(server, ACQUIRE, &KEYS, &[owner, "60000", token, decides, "take"])
}

/// By a caller that minds waiters.
fn ask(server: &RedisServer, owner: &str, taking: &str) -> Said {
    eval(server, ACQUIRE, &KEYS, &[owner, "60000", "7", "mint", taking])
}

fn release(server: &RedisServer, args: &[&str]) -> Said {
    eval(server, RELEASE, &KEYS, args)
}

/// By a waiter, new or not.
fn wait(server: &RedisServer, owner: &str, how: &str) -> Said {
    eval(server, QUEUE, &KEYS, &[owner, "60000", how, "channel", "30000"])
}

fn waiting(server: &RedisServer) -> i64 {
    let Frame::Integer(fields) = server.cli(&["HLEN", "{k}:queue"]) else { panic!() };
    (fields / 2 - 1).max(0)
}

fn take_over(server: &RedisServer, owner: &str, token: &str, from: &str) -> Said {
    eval(server, ACQUIRE, &KEYS, &[owner, "60000", token, "vote", "take", from])
}

fn get(server: &RedisServer, key: &str) -> String {
    server.cli_text(&["GET", key])
}

fn pttl(server: &RedisServer, key: &str) -> i64 {
    let Frame::Integer(pttl) = server.cli(&["PTTL", key]) else { panic!() };
    pttl
}

fn exists(server: &RedisServer, key: &str) -> bool {
    server.cli(&["EXISTS", key]) == Frame::Integer(1)
}

fn words(said: &Said) -> Vec<String> {
    let Said::Rest(items) = said else { panic!("{said:?}") };
    texts(items)
}

fn texts(items: &[Frame]) -> Vec<String> {
    let text = |item: &Frame| match item {
        Frame::Integer(number) => number.to_string(),
        other => String::from_utf8_lossy(other.as_bytes().unwrap()).into_owned(),
    };
    items.iter().map(text).collect()
}

#[test]
fn a_free_lock_is_granted_with_the_proposed_token() {
    let server = RedisServer::start();
    assert_eq!(acquire(&server, "me", "1763700000000000", "vote"), Said::Yes);
    assert_eq!(get(&server, "{k}:fence"), "1763700000000000", "no exponent");
    assert_eq!(get(&server, "k"), "me");
    assert!(!exists(&server, "{k}:queue"));
}

#[test]
fn a_held_lock_is_refused_with_its_holder_time_left_counter_and_waiters() {
    let server = RedisServer::start();
    acquire(&server, "other", "7", "vote");
    let refused = words(&acquire(&server, "me", "9", "vote"));
    assert_eq!(
        (&refused[0][..], &refused[1][..], &refused[3..]),
        ("held", "other", &["7".to_owned(), "0".to_owned()][..])
    );
    assert!(refused[2].parse::<i64>().unwrap() <= 60_000);
    assert_eq!(get(&server, "{k}:fence"), "7", "a refusal changes nothing");
    assert!(!exists(&server, "{k}:queue"), "who does not wait is not counted");
    let long = "x".repeat(1000);
    server.cli(&["SET", "k", &long]);
    let refused = words(&acquire(&server, "me", "9", "mint"));
    assert_eq!(refused[1], long[..320]);
    assert_eq!(refused[2], "-1", "it never ends");
}

/// Safety rule 8: only what is strictly above the counter is accepted.
#[test]
fn a_token_at_or_below_the_counter_is_stale_or_raised() {
    let server = RedisServer::start();
    server.cli(&["SET", "{k}:fence", "7"]);
    for proposal in ["6", "7"] {
        assert_eq!(words(&acquire(&server, "me", proposal, "vote")), ["stale", "7"]);
        assert!(!exists(&server, "k"));
    }
    assert_eq!(acquire(&server, "me", "8", "vote"), Said::Yes);
    assert_eq!(words(&acquire(&server, "me", "8", "vote")), ["stale", "8"], "even its own");
    assert_eq!(acquire(&server, "me", "8", "mint"), granted(9));
    assert_eq!(acquire(&server, "me", "1", "mint"), granted(10));
    assert_eq!(acquire(&server, "me", "11", "mint"), Said::Yes);
}

fn micros(server: &RedisServer) -> u64 {
    let Frame::Array(parts) = server.cli(&["TIME"]) else { panic!("TIME has two parts") };
    let [seconds, micros] = &texts(&parts)[..] else { panic!("TIME has two parts") };
    seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap()
}

/// The token of a grant that was not of the proposal.
fn chosen(said: &Said) -> u64 {
    let [word, token] = &words(said)[..] else { panic!("{said:?}") };
    assert_eq!(word, "granted");
    token.parse().unwrap()
}

/// Safety rule 16: a client whose clock says 2257 does not use up the tokens.
#[test]
fn a_proposal_far_ahead_is_cut_to_the_servers_clock_or_refused() {
    let server = RedisServer::start();
    let last = "9007199254740991";
    let before = micros(&server);
    let between = |token: u64| (before..=micros(&server)).contains(&token);
    let [word, clock] = &words(&acquire(&server, "me", last, "vote"))[..] else { panic!() };
    assert!(word == "ahead" && between(clock.parse().unwrap()), "{word} {clock}");
    assert!(!exists(&server, "k") && !exists(&server, "{k}:fence"), "a refusal changes nothing");
    let token = chosen(&acquire(&server, "me", last, "mint"));
    assert!(between(token), "{token}");
    assert_eq!(get(&server, "{k}:fence"), token.to_string());
    // A clock that is behind is no better where the counter is old.
    let server = RedisServer::start();
    let before = micros(&server);
    assert!(chosen(&acquire(&server, "me", "1763700000000000", "mint")) >= before);
}

/// A counter that was driven ahead once locks nobody out, neither here nor on other servers.
#[test]
fn a_counter_that_is_far_ahead_is_gone_on_from() {
    let server = RedisServer::start();
    let far = micros(&server) + 3_600_000_000;
    server.cli(&["SET", "{k}:fence", &far.to_string()]);
    let next = far + 1;
    for (proposal, more) in [("1763700000000000", 0), ("9007199254740991", 1)] {
        server.cli(&["DEL", "k"]);
        assert_eq!(chosen(&acquire(&server, "me", proposal, "mint")), next + more);
    }
    let server = RedisServer::start();
    let proposal = next.to_string();
    assert_eq!(words(&acquire(&server, "me", &proposal, "vote"))[0], "ahead");
    assert_eq!(acquire(&server, "me", &proposal, "outbid"), Said::Yes);
}

/// As from a client that was late: the answer to the second question tells for both.
#[test]
fn an_owner_that_asks_again_is_granted_again() {
    let server = RedisServer::start();
    assert_eq!(acquire(&server, "me", "7", "vote"), Said::Yes);
    server.cli(&["PEXPIRE", "k", "1000"]);
    let _heard = subscribe(&server);
    wait(&server, "waiter", "enter");
    assert_eq!(words(&ask(&server, "me", "look")), ["free"]);
    assert!(pttl(&server, "k") <= 1000, "who looks changes nothing");
    let turn = || eval(&server, ACQUIRE, &KEYS, &["me", "60000", "8", "vote", "turn"]);
    assert_eq!(turn(), Said::Yes, "its turn has come already");
    assert!(pttl(&server, "k") > 1000);
    // One that took the lock by a plain command has not minded the waiters.
    assert_eq!(words(&ask(&server, "me", "turn")), ["queued", "1"]);
    assert_eq!(waiting(&server), 1, "those who wait still do");
}

#[test]
fn a_counter_outlives_its_lock_by_a_week_and_is_a_number_below_2_to_the_53() {
    let server = RedisServer::start();
    let (last, week) = ("9007199254740991", 604_800_000);
    assert_eq!(acquire(&server, "me", "9007199254740990", "outbid"), Said::Yes);
    assert_eq!(get(&server, "{k}:fence"), "9007199254740990");
    assert!((week - 60_000..=week).contains(&pttl(&server, "{k}:fence")));
    release(&server, &["me", ""]);
    assert_eq!(get(&server, "{k}:fence"), "9007199254740990");
    for counter in [last, "9007199254740993", "1e300", "many", ""] {
        server.cli(&["SET", "{k}:fence", counter]);
        for decides in ["vote", "mint"] {
            let refused = acquire(&server, "me", "7", decides);
            let is_fence = matches!(&refused, Said::Error(text) if text.starts_with("FENCE "));
            assert!(is_fence, "{counter}: {refused:?}");
        }
        assert!(!exists(&server, "k"));
        assert_eq!(get(&server, "{k}:fence"), counter);
    }
}

/// What the scripts of one connection have run since the server's start.
fn calls(server: &RedisServer, command: &str) -> usize {
    let statistics = server.cli_text(&["INFO", "commandstats"]);
    let line =
        statistics.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Each vote of a Redlock is such a script: what it runs is most of what it costs the server.
#[test]
fn a_vote_for_a_free_lock_is_one_read_and_two_writes() {
    let server = RedisServer::start();
    let now = "1800000000000000";
    server.cli(&["SET", KEYS[1], now]);
    let vote = |owner, token| acquire(&server, owner, token, "vote");
    assert_eq!(vote("a", "1800000000500000"), Said::Yes);
    assert_eq!(["get", "set", "time"].map(|command| calls(&server, command)), [1, 3, 0]);
    // The lock is another's, the counter is not below, or far below: each has a refusal of its own.
    assert_eq!(words(&vote("b", "1800000000600000"))[0], "held");
    server.cli(&["DEL", KEYS[0]]);
    assert_eq!(words(&vote("b", "1800000000500000")), ["stale", "1800000000500000"]);
    assert_eq!(words(&vote("b", "9000000000000000"))[0], "ahead");
    assert_eq!((exists(&server, "k"), get(&server, KEYS[1])), (false, "1800000000500000".into()));
}

#[test]
fn only_the_first_question_enters_the_queue_and_each_has_a_place() {
    let server = RedisServer::start();
    let _heard = subscribe(&server);
    server.cli(&["SET", "k", "another", "PX", "90000"]);
    assert_eq!(wait(&server, "a", "beat"), no(), "it never entered");
    for (owner, how, place) in [("a", "enter", "0"), ("b", "enter", "1"), ("a", "beat", "0")] {
        let said = words(&wait(&server, owner, how));
        assert_eq!((&said[0][..], &said[1][..], &said[4][..]), ("held", "another", place));
    }
    assert_eq!(waiting(&server), 2);
    let kept = pttl(&server, "{k}:queue");
    assert!(kept > 1000 && kept <= 30_000, "as long as the last word: {kept}");
    assert_eq!(get(&server, "k"), "another", "another library's value is left as it is");
    server.cli(&["DEL", "k"]);
    assert_eq!(words(&wait(&server, "b", "beat")), ["queued", "1"], "the lock is for the first");
    let granted = words(&wait(&server, "a", "beat"));
    assert_eq!((&granted[0][..], &get(&server, "k")[..]), ("granted", "a\0"));
    assert_eq!(get(&server, "{k}:fence"), granted[1]);
    server.cli(&["PEXPIRE", "k", "1000"]);
    let again = words(&wait(&server, "a", "beat"));
    assert!(again[0] == granted[0] && again[1] > granted[1], "it is the owner's already");
    assert!(pttl(&server, "k") > 1000, "for a whole TTL from that question on");
    server.cli(&["DEL", "k"]);
    assert_eq!(wait(&server, "a", "beat"), no(), "an owner is granted a lock once");
    assert_eq!(words(&wait(&server, "b", "beat"))[0], "granted");
    assert_eq!((get(&server, "k"), exists(&server, "{k}:queue")), ("b".into(), false));
}

#[test]
fn an_entry_whose_waiter_was_silent_is_passed_over() {
    let server = RedisServer::start();
    server.cli(&["SET", "k", "another"]);
    let enter = |owner, life| {
        words(&eval(&server, QUEUE, &KEYS, &[owner, "60000", "enter", "channel", life]))
    };
    enter("silent", "1");
    enter("next", "60000");
    server.cli(&["DEBUG", "SLEEP", "0.005"]);
    assert_eq!(words(&wait(&server, "next", "beat"))[4], "0");
    assert_eq!(wait(&server, "silent", "beat"), no());
    server.cli(&["DEL", "k"]);
    assert_eq!(words(&wait(&server, "next", "beat"))[0], "granted");
}

/// A waiter's question that is asked again for as long as the script says so.
fn until_done(mut ask: impl FnMut() -> Said) -> Said {
    loop {
        match ask() {
            Said::Error(text) if text.starts_with("AGAIN ") => {}
            said => return said,
        }
    }
}

/// The lock of `holder`, and this number of waiters that have died, each with an entry that lasts; and behind
/// them one that lives.
fn dead_ahead(server: &RedisServer, holder: &str, dead: usize) {
    server.cli(&["FLUSHALL"]);
    server.cli(&["SET", "k", holder, "PX", "90000"]);
    // At a server, a process that has died is a channel that nobody hears.
    let entry = format!("{} 60000 nobody's ", micros(server) / 1000 + 30_000);
    let mut client = server.client();
    for ticket in 1..=dead {
        let (ticket, owner) = (ticket.to_string(), format!("dead-{ticket}"));
        let entry = format!("{entry}{owner}");
        client.call(&[
            "HSET", KEYS[2], "first", "1", "last", &ticket, &ticket, &entry, &owner, &ticket,
        ]);
    }
    wait(server, "alive", "enter");
}

/// Safety rule 19. Sixteen of them ended the search.
#[test]
fn a_free_lock_goes_to_the_first_that_can_hear_however_many_dead_stand_before_it() {
    let server = RedisServer::start();
    let _heard = subscribe(&server);
    let holder = format!("{:032x}~", 7);
    for dead in [1, 16, 17, 499, 500, 501, 3000] {
        dead_ahead(&server, &holder, dead);
        let mut asked = 0;
        let given = until_done(|| {
            asked += 1;
            assert!(get(&server, "k").starts_with(&holder), "nothing was given back yet");
            release(&server, &[&holder, ""])
        });
        assert_eq!((given, &get(&server, "k")[..]), (Said::Yes, "alive"), "{dead} dead");
        assert!(!exists(&server, KEYS[2]) && asked <= 1 + dead / 500, "{asked} for {dead} dead");

        dead_ahead(&server, &holder, dead);
        server.cli(&["DEL", "k"]);
        let granted = until_done(|| wait(&server, "alive", "beat"));
        assert_eq!(words(&granted)[0], "granted", "{dead} dead");

        dead_ahead(&server, &holder, dead);
        server.cli(&["DEL", "k"]);
        let queued = until_done(|| ask(&server, "fair", "turn"));
        assert_eq!(words(&queued), ["queued", "1"], "{dead} dead, one that lives");
        release(&server, &["alive", "leave"]);
        if get(&server, "k").is_empty() {
            assert_ne!(words_or_yes(&ask(&server, "fair", "turn")), "queued", "{dead} dead");
        }
    }
}

/// The first word, or that a script said yes.
fn words_or_yes(said: &Said) -> String {
    match said {
        Said::Yes => "yes".into(),
        said => words(said)[0].clone(),
    }
}

/// 300 waits that ran out were enough for a lock to lie free.
#[test]
fn gaps_keep_nobody_from_a_free_lock() {
    let lacking = RedisServer::builder().arg("--rename-command").arg("HKEYS").arg("");
    let (server, lacking) = (RedisServer::start(), lacking.start());
    let _heard = [&server, &lacking].map(subscribe);
    let holder = format!("{:032x}~", 7);
    let (few, many) = ([1, 129, 300, 800, 5000], [150_000, 4_000_000_000_u64]);
    let cases = few.into_iter().flat_map(|gaps| [(&lacking, gaps), (&server, gaps)]);
    for (server, gaps) in cases.chain(many.map(|gaps| (&server, gaps))) {
        server.cli(&["FLUSHALL"]);
        server.cli(&["SET", "k", &holder, "PX", "90000"]);
        wait(server, "one", "enter");
        // As if that many had entered behind the first, and left.
        let ticket = (gaps + 1).to_string();
        server.cli(&["HSET", KEYS[2], "last", &ticket]);
        wait(server, "two", "enter");
        release(server, &["one", "leave"]);
        assert_eq!(until_done(|| release(server, &[&holder, ""])), Said::Yes);
        assert_eq!(get(server, "k"), "two", "{gaps} gaps");
        assert!(!exists(server, KEYS[2]));
        // A queue of gaps alone, as the last to leave it leaves it.
        server.cli(&["HSET", KEYS[2], "first", "1", "last", &ticket]);
        server.cli(&["DEL", "k"]);
        assert_ne!(words_or_yes(&ask(server, "fair", "turn")), "queued", "{gaps} gaps");
        server.cli(&["DEL", "k"]);
        server.cli(&["HSET", KEYS[2], "first", "1", "last", &ticket]);
        assert_eq!(words(&wait(server, "new", "enter"))[0], "granted", "{gaps} gaps");
    }
}

/// Those of waits that ran out are none of them.
#[test]
fn a_priority_passes_128_waiters_and_places_without_one() {
    let server = RedisServer::start();
    server.cli(&["SET", "k", &format!("{:032x}~", 7), "PX", "90000"]);
    for number in 0..130 {
        wait(&server, &format!("{number:032x}~!1"), "enter");
    }
    server.cli(&["HSET", KEYS[2], "last", "1500"]);
    let before = |number: u64, priority: u8| {
        words(&wait(&server, &format!("{number:032x}~!{priority}"), "enter"))[4].clone()
    };
    assert_eq!(before(1000, 1), "1500", "it passes nobody");
    server.cli(&["HDEL", KEYS[2], "1501", &format!("{:032x}~!1", 1000)]);
    assert_eq!(before(1001, 2), "2");
    assert_eq!(waiting(&server), 131);
}

/// The server says so, and the queue is as it was.
#[test]
fn who_would_wait_where_the_counter_is_none_is_told_and_leaves_nothing() {
    let server = RedisServer::start();
    server.cli(&["SET", "k", "other", "PX", "90000"]);
    server.cli(&["RPUSH", "{k}:fence", "x"]);
    let said = wait(&server, "me", "enter");
    assert!(matches!(&said, Said::Error(text) if text.contains("WRONGTYPE")), "{said:?}");
    assert!(!exists(&server, KEYS[2]));
}

#[test]
fn a_full_server_has_work_that_is_under_way_extended_and_finished() {
    let server = RedisServer::start();
    let (one, agreed) = (["{k}:idempotent"], ["{a}:idempotent"]);
    let token = micros(&server).to_string();
    let begun = eval(&server, BEGIN, &one, &["owner", "1 f", "60000", "90000"]);
    assert_eq!(words(&begun)[0], "started");
    let promised = ["owner", "f", "60000", "90000", &token, "vote"];
    assert_eq!(words(&eval(&server, PROMISE, &agreed, &promised))[0], "promised");
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for (how, result) in [("extend", ""), ("finish", "result")] {
        let settled = ["owner", how, "60000", "90000", result];
        assert_eq!(eval(&server, SETTLE, &one, &settled), Said::Yes, "{how}");
        let accepted = ["owner", how, "60000", "90000", &token, "f", result];
        assert_eq!(eval(&server, ACCEPT, &agreed, &accepted), Said::Yes, "{how}");
    }
    for key in one.iter().chain(&agreed) {
        assert!(get(&server, key).ends_with("result"));
        assert!((80_000..=90_000).contains(&pttl(&server, key)));
    }
}

/// What anybody may have written there is passed over, or makes room for a queue.
#[test]
fn garbage_in_a_queue_keeps_nobody_from_a_free_lock() {
    let server = RedisServer::start();
    let _heard = subscribe(&server);
    let holder = format!("{:032x}~", 7);
    let far = "99999999999999999999 60000 nobody's x";
    let entries = ["", "x", "5 5 5", "9e99 60000 channel x", far, "1 60000 channel", "a b c d"];
    let entries = entries.map(|entry| vec!["first", "0", "0", entry]);
    let numbers =
        ["9007199254740992", "-9007199254740992", "1e308", "nan", "x", "", "1.5", "90000000"];
    let lasts = numbers.map(|number| vec!["last", number]);
    let firsts = numbers.map(|number| vec!["first", number]);
    for garbage in entries.iter().chain(&lasts).chain(&firsts) {
        let begin = || {
            server.cli(&["FLUSHALL"]);
            server.cli(&["SET", "k", &holder, "PX", "90000"]);
            wait(&server, "waiter", "enter");
            server.cli(&[&["HSET", KEYS[2]], &garbage[..]].concat());
        };
        // One that is taken out with the queue comes back as another.
        let comes = || match until_done(|| wait(&server, "waiter", "beat")) {
            said if said == no() => until_done(|| wait(&server, "again", "enter")),
            said => said,
        };
        begin();
        assert_eq!(until_done(|| release(&server, &[&holder, ""])), Said::Yes, "{garbage:?}");
        assert_eq!(words(&comes())[0], "granted", "{garbage:?}");
        begin();
        server.cli(&["DEL", "k"]);
        assert_eq!(words(&comes())[0], "granted", "{garbage:?}");
        begin();
        assert_eq!(words(&comes())[0], "held", "{garbage:?}");
        server.cli(&["DEL", "k"]);
        assert!(
            !matches!(until_done(|| ask(&server, "fair", "turn")), Said::Error(_)),
            "{garbage:?}"
        );
    }
    server.cli(&["FLUSHALL"]);
    for (how, expected) in [("turn", "granted"), ("enter", "held")] {
        server.cli(&["SET", KEYS[2], "no queue"]);
        let said = if how == "turn" { ask(&server, "a", how) } else { wait(&server, "b", how) };
        let said = words_or_yes(&said);
        assert!(said == expected || said == "yes", "{how}: {said}");
    }
    assert_eq!(waiting(&server), 1);
}

/// An entry lasts for 30 s at the most: what a clock that was set, or somebody else, wrote beyond that is cut.
#[test]
fn an_entry_that_lasts_for_too_long_is_cut() {
    let server = RedisServer::start();
    let _heard = subscribe(&server);
    server.cli(&["SET", "k", "another", "PX", "90000"]);
    let far = ["far", "60000", "enter", "channel", "900000000"];
    eval(&server, QUEUE, &KEYS, &far);
    wait(&server, "next", "enter");
    let entry = server.cli_text(&["HGET", KEYS[2], "1"]);
    let ends: u64 = entry.split(' ').next().unwrap().parse().unwrap();
    assert!(ends <= micros(&server) / 1000 + 30_000, "{entry}");
    assert!(entry.ends_with(" 60000 channel far"), "{entry}");
}

/// A waiter that was told may leave before it asks; so may the first of a lock that has expired.
#[test]
fn a_waiter_that_leaves_a_free_lock_has_it_handed_on() {
    let server = RedisServer::start();
    let _heard = subscribe(&server);
    server.cli(&["SET", "k", "another"]);
    wait(&server, "a", "enter");
    wait(&server, "b", "enter");
    server.cli(&["DEL", "k"]);
    assert_eq!(release(&server, &["a", "leave"]), no());
    assert_eq!(get(&server, "k"), "b");
}

/// A connection that hears what is published on the channel of all waiters here.
fn subscribe(server: &RedisServer) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(leasehold_testing::STUCK)).unwrap();
    stream.write_all(b"SUBSCRIBE channel\r\n").unwrap();
    let mut stream = BufReader::new(stream);
    (0..6).for_each(|_| drop(line(&mut stream)));
    stream
}

fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn a_release_hands_the_lock_to_the_first_in_the_queue_that_hears_it() {
    let server = RedisServer::start();
    let holder = format!("{:032x}~", 7);
    server.cli(&["SET", "k", &holder, "PX", "90000"]);
    let [a, b, c] = ["a", "b", "c"].map(|letter| letter.repeat(32) + "~");
    for owner in [&a, &b, &c] {
        wait(&server, owner, "enter");
    }
    assert_eq!(get(&server, "k"), format!("{holder}\0"), "its holder is told that somebody waits");
    release(&server, &[&b, "leave"]);
    assert_eq!((waiting(&server), &get(&server, "k")[..32]), (2, &holder[..32]));
    let mut heard = subscribe(&server);
    for (from, owner, mark) in [(&holder, &a, "\0"), (&a, &c, "")] {
        assert_eq!(release(&server, &[from, ""]), Said::Yes);
        assert_eq!(get(&server, "k"), format!("{owner}{mark}"));
        assert!((59_000..=60_000).contains(&pttl(&server, "k")));
        let said: Vec<String> = (0..7).map(|_| line(&mut heard)).collect();
        assert_eq!(said[6], format!("{} {owner}", get(&server, "{k}:fence")));
    }
    assert!(!exists(&server, "{k}:queue"));
    assert_eq!(release(&server, &[&c, ""]), Said::Yes);
    assert!(!exists(&server, "k"));
}

/// Such as after a hand-over that a missing right cut off.
#[test]
fn an_owner_that_still_stands_in_the_queue_gives_the_lock_to_the_next() {
    let server = RedisServer::start();
    let _heard = subscribe(&server);
    let [a, b, c] = ["a", "b", "c"].map(|letter| letter.repeat(32) + "~");
    server.cli(&["SET", "k", &a, "PX", "90000"]);
    wait(&server, &b, "enter");
    server.cli(&["SET", "k", &b, "PX", "90000"]);
    wait(&server, &c, "enter");
    assert_eq!(release(&server, &[&b, ""]), Said::Yes);
    assert_eq!((get(&server, "k"), waiting(&server)), (c, 0));
}

#[test]
fn a_lock_that_nobody_hears_of_is_free_and_a_key_alone_is_given_back_or_left() {
    let server = RedisServer::start();
    let holder = format!("{:032x}~", 7);
    server.cli(&["SET", "k", &holder]);
    wait(&server, "deaf", "enter");
    assert_eq!(release(&server, &[&holder, ""]), Said::Yes);
    assert!(!exists(&server, "k") && !exists(&server, "{k}:queue"));
    server.cli(&["SET", "k", &holder]);
    wait(&server, "a", "enter");
    let alone = |key: &str, args: &[&str]| eval(&server, RELEASE, &[key], args);
    assert_eq!(alone("{k}:queue", &["a", "leave"]), no());
    assert_eq!(waiting(&server), 0);
    assert_eq!(alone("{k}:fence", &[&holder, "leave"]), no());
    assert_eq!(alone("k", &[&holder, "leave"]), Said::Yes);
    assert!(!exists(&server, "k"));
}

#[test]
fn a_newcomer_does_not_take_a_free_lock_that_others_wait_for() {
    let server = RedisServer::start();
    assert_eq!(words(&ask(&server, "looker", "look")), ["free"]);
    assert!(!exists(&server, "k"));
    let _heard = subscribe(&server);
    acquire(&server, "other", "7", "mint");
    wait(&server, "waiter", "enter");
    release(&server, &["other", ""]);
    assert_eq!(words(&ask(&server, "me", "turn")), ["queued", "1"]);
    assert_eq!(words(&ask(&server, "me", "look")), ["free"]);
    assert_eq!(words(&wait(&server, "waiter", "beat"))[0], "granted");
    release(&server, &["waiter", ""]);
    let counter: i64 = get(&server, "{k}:fence").parse().unwrap();
    assert_eq!(ask(&server, "me", "turn"), granted(counter + 1));
}

#[test]
fn a_successor_takes_over_from_its_predecessor_and_from_nobody_else() {
    let server = RedisServer::start();
    acquire(&server, "a", "7", "vote");
    server.cli(&["PEXPIRE", "k", "1000"]);
    assert_eq!(words(&take_over(&server, "c", "9", "b"))[..2], ["held", "a"]);
    assert_eq!(words(&take_over(&server, "b", "7", "a")), ["stale", "7"]);
    assert_eq!((&get(&server, "k")[..], &get(&server, "{k}:fence")[..]), ("a", "7"));
    assert_eq!(take_over(&server, "b", "8", "a"), Said::Yes);
    assert_eq!((&get(&server, "k")[..], &get(&server, "{k}:fence")[..]), ("b", "8"));
    assert!(pttl(&server, "k") > 1000, "for a TTL of its own");
    assert_eq!(words(&take_over(&server, "c", "9", "a"))[..2], ["held", "b"]);
    let turn = || eval(&server, ACQUIRE, &KEYS, &["c", "60000", "9", "vote", "turn", "b"]);
    let _heard = subscribe(&server);
    wait(&server, "waiter", "enter");
    assert_eq!(words(&turn()), ["queued", "1"], "others wait for it");
    assert_eq!(get(&server, "k"), "b");
    server.cli(&["DEL", "{k}:queue"]);
    assert_eq!(turn(), Said::Yes);
    server.cli(&["DEL", "k"]);
    assert_eq!(take_over(&server, "d", "10", "b"), Said::Yes, "it was free");
}

#[test]
fn a_successor_within_a_process_has_tokens_set_aside() {
    let server = RedisServer::start();
    let counter = || get(&server, "{k}:fence");
    acquire(&server, "a", "7", "vote");
    let ask = |owner, token, judged, from| {
        eval(&server, ACQUIRE, &KEYS, &[owner, "60000", token, judged, "take", from])
    };
    assert_eq!(words(&ask("b", "7", "vote on", "a")), ["stale", "7"]);
    assert_eq!(ask("b", "8", "vote on", "a"), Said::Yes);
    assert_eq!(counter(), "23");
    assert_eq!(words(&ask("c", "23", "outbid on", "b")), ["stale", "23"]);
    assert_eq!(ask("c", "24", "outbid on", "b"), Said::Yes);
    assert_eq!(counter(), "39");
    server.cli(&["SET", "{k}:fence", "1763700000000000"]);
    assert_eq!(ask("d", "7", "mint on", "c"), granted(1_763_700_000_000_001));
    assert_eq!(counter(), "1763700000000016", "no exponent");
    let mint = eval(&server, MINT, &["{k}:fence"], &["7", "mint on"]);
    assert_eq!(mint, granted(1_763_700_000_000_017));
    assert_eq!(counter(), "1763700000000032");
}

#[test]
fn several_locks_are_taken_together_or_not_at_all() {
    let server = RedisServer::start();
    let keys = ["a", "{a}:fence", "{a}:queue", "b", "{b}:fence", "{b}:queue"];
    let all = |owner: &str, token: &str, decides: &str| {
        eval(&server, ACQUIRE, &keys, &[owner, "60000", token, decides, "take"])
    };
    server.cli(&["SET", "{a}:fence", "5"]);
    server.cli(&["SET", "{b}:fence", "9"]);
    assert_eq!(words(&all("me", "9", "vote")), ["stale", "9"], "the highest of all");
    server.cli(&["SET", "{a}:fence", "9"]);
    server.cli(&["SET", "{b}:fence", "5"]);
    assert_eq!(words(&all("me", "6", "vote")), ["stale", "9"], "also where it is not the last");
    server.cli(&["SET", "b", "other"]);
    assert_eq!(words(&all("me", "20", "vote"))[..2], ["held", "other"]);
    assert!(!exists(&server, "a"));
    server.cli(&["DEL", "b"]);
    assert_eq!(all("me", "3", "mint"), granted(10));
    for lock in ["a", "b"] {
        assert_eq!(get(&server, lock), "me");
        assert_eq!(get(&server, &format!("{{{lock}}}:fence")), "10");
    }
    let extend = |args: &[&str]| words(&eval(&server, EXTEND, &["a", "b"], args));
    assert_eq!(extend(&["me", "90000", "you", "90000"]), ["1", "0"]);
    assert!(pttl(&server, "a") > 60_000 && pttl(&server, "b") <= 60_000);
    server.cli(&["SET", "b", "other"]);
    assert_eq!(extend(&["me", "90000", "me", "90000"]), ["1", "0"]);
    assert_eq!(pttl(&server, "b"), -1, "another's is as it was");
    assert_eq!(eval(&server, RELEASE, &keys, &["me", ""]), no());
    assert!(!exists(&server, "a"), "what was its own is free all the same");
    assert_eq!(get(&server, "b"), "other");
    server.cli(&["SET", "a", "me"]);
    server.cli(&["SET", "b", "before"]);
    assert_eq!(eval(&server, RELEASE, &keys, &["me", "", "before"]), Said::Yes);
    assert!(!exists(&server, "a") && !exists(&server, "b"));
    assert_eq!(extend(&["me", "90000", "me", "90000"]), ["0", "0"]);
    assert!(!exists(&server, "a") && !exists(&server, "b"), "what is gone is not made anew");
}

#[test]
fn several_locks_are_left_to_a_waiter_for_one_and_taken_over_from_two() {
    let server = RedisServer::start();
    let keys = ["a", "{a}:fence", "{a}:queue", "b", "{b}:fence", "{b}:queue"];
    let all = |taking: &str, before: &[&str]| {
        let args = [&["me", "60000", "7", "mint", taking], before].concat();
        eval(&server, ACQUIRE, &keys, &args)
    };
    server.cli(&["SET", "b", "other", "PX", "60000"]);
    assert_eq!(words(&all("take", &[]))[..2], ["held", "other"]);
    assert!(!exists(&server, "a"));
    server.cli(&["DEL", "b"]);
    let _heard = subscribe(&server);
    let entry = format!("{} 60000 channel owner", micros(&server) / 1000 + 30_000);
    server.cli(&["HSET", "{b}:queue", "first", "1", "last", "1", "1", &entry, "owner", "1"]);
    assert_eq!(words(&all("turn", &[])), ["queued", "1"], "others wait for one of them");
    assert_eq!(words(&all("look", &[])), ["free"]);
    assert!(!exists(&server, "a") && !exists(&server, "b"));
    for (lock, holder) in [("a", "before"), ("b", "third\0")] {
        server.cli(&["SET", lock, holder]);
    }
    assert_eq!(words(&all("take", &["before"]))[..2], ["held", "third"]);
    assert_eq!(get(&server, "a"), "before");
    assert_eq!(all("take", &["before", "third"]), Said::Yes);
    assert_eq!((&get(&server, "a")[..], &get(&server, "b")[..]), ("me", "me\0"));
}

#[test]
fn extend_and_release_serve_the_owner_alone() {
    let server = RedisServer::start();
    let extend = |args: &[&str]| eval(&server, EXTEND, &["k"], args);
    let release = |args: &[&str]| release(&server, args);
    assert_eq!(extend(&["me", "60000"]), no());
    assert_eq!(release(&["me", ""]), no());
    server.cli(&["SET", "k", "me", "PX", "1000"]);
    assert_eq!(extend(&["you", "60000"]), no());
    assert_eq!(release(&["you", ""]), no());
    assert_eq!(release(&["you", "", "they"]), no());
    assert_eq!(extend(&["me", "60000"]), Said::Yes);
    assert!(pttl(&server, "k") > 1000);
    server.cli(&["PEXPIRE", "k", "3600000"]);
    assert_eq!(extend(&["me", "60000"]), Said::Yes);
    assert!(pttl(&server, "k") <= 60_000, "safety rule 16: no later than the lease may end");
    assert_eq!(release(&["me", ""]), Said::Yes);
    assert!(!exists(&server, "k"));
    server.cli(&["SET", "k", "before"]);
    assert_eq!(release(&["me", "", "before"]), Said::Yes, "what it took over from");
}

#[test]
fn free_releases_what_its_owners_have_and_nobody_waits_for() {
    let server = RedisServer::start();
    let free = |owners: &[&str]| eval(&server, FREE, &["a", "b", "c"], owners);
    assert_eq!(eval(&server, FREE, &[], &[]), Said::Yes);
    for (lock, holder) in [("a", "me"), ("b", "you\0"), ("c", "they")] {
        server.cli(&["SET", lock, holder, "PX", "60000"]);
    }
    assert_eq!(words(&free(&["me", "you", "others"])), ["1", "0", "0"]);
    assert!(!exists(&server, "a"));
    assert_eq!((&get(&server, "b")[..], &get(&server, "c")[..]), ("you\0", "they"));
    server.cli(&["DEL", "b"]);
    server.cli(&["RPUSH", "b", "no lock"]);
    assert_eq!(words(&free(&["me", "you", "they"])), ["0", "0", "1"], "one is no lock any more");
    assert!(exists(&server, "b") && !exists(&server, "c"));
    server.cli(&["DEL", "b"]);
    for (lock, holder) in [("a", "me"), ("b", "you"), ("c", "they")] {
        server.cli(&["SET", lock, holder]);
    }
    assert_eq!(free(&["me", "you", "they"]), Said::Yes);
    assert!(["a", "b", "c"].iter().all(|lock| !exists(&server, lock)));
    assert_eq!(words(&free(&["me", "you", "they"])), ["0", "0", "0"]);
}

#[test]
fn keep_has_a_lock_stay_taken_by_nobody_and_a_second_delivery_does_nothing() {
    let server = RedisServer::start();
    let keep = |args: &[&str]| eval(&server, KEEP, &["k"], args);
    assert_eq!(keep(&["me", "60000", "nobody"]), no());
    server.cli(&["SET", "k", "me", "PX", "1000"]);
    assert_eq!(keep(&["you", "60000", "nobody"]), no());
    assert_eq!(keep(&["you", "60000", "nobody", "they"]), no());
    assert_eq!(get(&server, "k"), "me");
    assert_eq!(keep(&["me", "60000", "nobody"]), Said::Yes);
    assert_eq!(get(&server, "k"), "nobody");
    assert!(pttl(&server, "k") > 1000, "longer than the lease's own end");
    assert_eq!(keep(&["me", "3600000", "nobody"]), no());
    assert!(pttl(&server, "k") <= 60_000);
    server.cli(&["SET", "k", "before", "PX", "3600000"]);
    assert_eq!(keep(&["me", "60000", "nobody", "before"]), Said::Yes, "what it took over from");
    assert!(pttl(&server, "k") <= 60_000, "sooner than the lease's own end");
}

fn seize(server: &RedisServer, owner: &str, token: &str, from: &str) -> Said {
    eval(server, SEIZE, &["k", "{k}:fence"], &[owner, "60000", token, "vote", from])
}

#[test]
fn seize_takes_a_lock_from_anybody_or_from_one_owner_once() {
    let server = RedisServer::start();
    let now = micros(&server);
    let token = |ahead: u64| (now + ahead).to_string();
    let told = |said: &Said| words(said)[0].clone();
    let id = |digit: &str| digit.repeat(32);
    assert_eq!(told(&seize(&server, "one", &token(1), "")), "granted", "it was free");
    assert_eq!(words(&seize(&server, "two", &token(2), &id("a")))[..2], ["held", "one"]);
    assert_eq!(get(&server, "k"), "one");
    server.cli(&["APPEND", "k", "\0"]);
    let ticket = format!("{}:label", id("a"));
    let seized = seize(&server, &ticket, &token(2), "");
    assert_eq!(words(&seized)[..3], ["seized", &token(2), "one"]);
    assert_eq!(told(&seize(&server, "two", &token(2), &id("a"))), "stale");
    assert_eq!(get(&server, "k"), format!("{ticket}\0"), "who waits does so for the new holder");
    let seized = seize(&server, "two", &token(3), &id("a"));
    assert_eq!(words(&seized)[..3], ["seized", &token(3), &ticket]);
    assert_eq!(get(&server, "k"), "two\0");
    assert!(pttl(&server, "k") > 59_000 && pttl(&server, "{k}:fence") > 604_000_000);
    assert_eq!(told(&seize(&server, "two", &token(4), &id("a"))), "granted", "asked once more");
    assert_eq!(told(&seize(&server, "three", &token(5), &id("a"))), "held", "adopted once");
    assert_eq!(told(&seize(&server, "three", &token(60_000_000), "")), "ahead");
    server.cli(&["DEL", "k"]);
    assert_eq!(seize(&server, "three", &token(5), &id("a")), no());
    assert_eq!(get(&server, "{k}:fence"), token(4));
}

#[test]
fn repair_brings_a_lease_back_where_no_other_has_the_lock() {
    let server = RedisServer::start();
    let repair = |token: &str| eval(&server, REPAIR, &["k", "{k}:fence"], &["me", "60000", token]);
    assert_eq!(repair("7"), Said::Yes);
    assert_eq!((&get(&server, "k")[..], &get(&server, "{k}:fence")[..]), ("me", "7"));
    assert_eq!(repair("7"), Said::Yes, "its own");
    server.cli(&["APPEND", "k", "\0"]);
    assert_eq!(repair("7"), Said::Yes, "its own, and somebody waits");
    assert_eq!(get(&server, "k"), "me\0");
    server.cli(&["SET", "k", "other"]);
    assert_eq!(repair("9"), no());
    assert_eq!(get(&server, "k"), "other");
    server.cli(&["DEL", "k"]);
    server.cli(&["SET", "{k}:fence", "8"]);
    assert_eq!(repair("7"), Said::Yes, "a later token was accepted of an owner that has nothing");
    assert_eq!((&get(&server, "k")[..], &get(&server, "{k}:fence")[..]), ("me", "8"));
    server.cli(&["DEL", "k"]);
    assert_eq!(repair("0"), Said::Yes, "a lease without a token");
    assert_eq!(get(&server, "{k}:fence"), "8");
    assert!((1..=60_000).contains(&pttl(&server, "k")));
    server.cli(&["SET", "{k}:fence", "no number"]);
    server.cli(&["DEL", "k"]);
    assert_eq!(repair("9"), no(), "no counter");
    server.cli(&["HSET", "k", "field", "value"]);
    server.cli(&["DEL", "{k}:fence"]);
    assert_eq!(repair("9"), no(), "no lock");
    server.cli(&["DEL", "k"]);
    assert_eq!(repair("0"), Said::Yes);
    assert!(!exists(&server, "{k}:fence"), "no counter where there is no token");
    assert_eq!(repair("8"), Said::Yes);
    assert_eq!(get(&server, "{k}:fence"), "8", "raised to the token");
    assert!(pttl(&server, "{k}:fence") > 0);
    server.cli(&["SET", "k", "other"]);
    assert_eq!(repair("0"), no());
    assert_eq!(get(&server, "k"), "other");
}

#[test]
fn several_locks_are_repaired_together_or_not_at_all() {
    let server = RedisServer::start();
    let repair = || {
        let keys = ["a", "{a}:fence", "b", "{b}:fence"];
        eval(&server, REPAIR, &keys, &["me", "60000", "7"])
    };
    server.cli(&["SET", "{a}:fence", "5"]);
    server.cli(&["SET", "b", "other"]);
    assert_eq!(repair(), no());
    assert!(!exists(&server, "a"));
    assert_eq!(get(&server, "{a}:fence"), "5");
    server.cli(&["DEL", "b"]);
    server.cli(&["SET", "{b}:fence", "8"]);
    assert_eq!(repair(), Said::Yes);
    assert_eq!((get(&server, "a"), get(&server, "b")), ("me".into(), "me".into()));
    assert_eq!((&get(&server, "{a}:fence")[..], &get(&server, "{b}:fence")[..]), ("7", "8"));
}

#[test]
fn holder_tells_and_changes_nothing() {
    let server = RedisServer::start();
    let holder = || eval(&server, HOLDER, &["k"], &[]);
    assert_eq!(holder(), Said::Rest(Vec::new()));
    server.cli(&["SET", "k", "me"]);
    assert_eq!(words(&holder()), ["me", "-1"]);
    assert_eq!(words(&holder()), ["me", "-1"]);
}

#[test]
fn inspect_tells_of_each_lock_and_changes_nothing() {
    let server = RedisServer::start();
    server.cli(&["SET", "k", "owner"]);
    server.cli(&["SET", "{k}:fence", "1763700000000000"]);
    server.cli(&["SET", "full", "text", "PX", "60000"]);
    server.cli(&["HSET", "full:queue", "first", "1", "last", "3"]);
    server.cli(&["HSET", "full:queue", "1", "x", "a", "1", "2", "x", "b", "2", "3", "x", "c", "3"]);
    server.cli(&["RPUSH", "list", "x"]);
    let of = |key: &'static str| [key, "full:fence", "full:queue"];
    let keys = [KEYS, of("full"), of("list"), of("nobody's")].concat();
    let before = server.cli_text(&["DEBUG", "DIGEST"]);
    let Said::Rest(shown) = eval(&server, INSPECT, &keys, &["3"]) else { panic!() };
    let words = |frame: &Frame| match frame {
        Frame::Array(items) => texts(items),
        other => panic!("{other:?}"),
    };
    assert_eq!(words(&shown[0]), ["own", "5", "-1", "1763700000000000", "0"]);
    let full = words(&shown[1]);
    assert_eq!(
        (&full[..2], &full[3..]),
        (&["tex", "4"].map(str::to_owned)[..], &["", "3"].map(str::to_owned)[..])
    );
    assert!((1..=60_000).contains(&full[2].parse::<i64>().unwrap()), "{full:?}");
    assert_eq!(words(&shown[2]), ["other"]);
    assert_eq!(shown[3], Frame::Array([].into()));
    assert_eq!(server.cli_text(&["DEBUG", "DIGEST"]), before);
}

#[test]
fn a_lock_alone_is_taken_looked_at_or_refused() {
    let server = RedisServer::start();
    let take = |args: &[&str]| eval(&server, TAKE, &["k"], args);
    assert_eq!(words(&take(&["me", "60000", "look"])), ["free"]);
    assert!(!exists(&server, "k"));
    assert_eq!(take(&["me", "60000", "take"]), Said::Yes);
    assert_eq!(take(&["me", "60000", "take"]), Said::Yes);
    for how in ["take", "look"] {
        let refused = words(&take(&["other", "60000", how]));
        assert_eq!((&refused[0][..], &refused[1][..], refused.len()), ("held", "me", 5));
    }
    assert_eq!(take(&["next", "90000", "take", "me"]), Said::Yes);
    assert_eq!(get(&server, "k"), "next");
    assert!(pttl(&server, "k") > 60_000);
}

#[test]
fn a_counter_alone_accepts_what_is_above_it() {
    let server = RedisServer::start();
    let mint = |token: &str, decides: &str| eval(&server, MINT, &["{k}:fence"], &[token, decides]);
    assert_eq!(mint("1763700000000000", "vote"), Said::Yes);
    assert_eq!(words(&mint("1763700000000000", "vote")), ["stale", "1763700000000000"]);
    assert_eq!(mint("7", "mint"), granted(1_763_700_000_000_001));
    assert_eq!(get(&server, "{k}:fence"), "1763700000000001", "no exponent");
    assert!(pttl(&server, "{k}:fence") > 6 * 24 * 3_600_000);
    let last = "9007199254740990";
    assert_eq!(words(&mint(last, "vote"))[0], "ahead");
    let before = micros(&server);
    let token = chosen(&mint(last, "mint"));
    assert!((before..=micros(&server)).contains(&token), "{token}");
    assert_eq!(mint(last, "outbid"), Said::Yes);
    for broken in ["9007199254740991", "x"] {
        server.cli(&["SET", "{k}:fence", broken]);
        let Said::Error(text) = mint("7", "mint") else { panic!("{broken}") };
        assert!(text.starts_with("FENCE"), "{text:?}");
    }
}
