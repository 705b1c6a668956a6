//! Servers that lack a command, and users without the right to one: each command, against each verb of the library.

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::limits::Rate;
use leasehold::once::Slot;
use leasehold::{Error, ErrorKind, Locker, Loss};
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

/// So long that nothing ends because of it.
const LONG: Duration = Duration::from_secs(3600);
/// What waits for longer than this does not come to its end.
const WAITS: Duration = Duration::from_secs(10);

/// Every command that the library or its scripts call.
const COMMANDS: [&str; 39] = [
    "APPEND",
    "ASKING",
    "AUTH",
    "CLIENT",
    "DEL",
    "ECHO",
    "EVAL",
    "EVALSHA",
    "EXISTS",
    "GET",
    "GETRANGE",
    "HDEL",
    "HELLO",
    "HGET",
    "HLEN",
    "HMGET",
    "HSET",
    "INFO",
    "PEXPIRE",
    "PING",
    "PTTL",
    "PUBLISH",
    "PUBSUB",
    "ROLE",
    "SCAN",
    "SCRIPT",
    "SET",
    "SUBSCRIBE",
    "TIME",
    "TYPE",
    "UNLINK",
    "WAIT",
    "ZADD",
    "ZCARD",
    "ZCOUNT",
    "ZRANGEBYSCORE",
    "ZREM",
    "ZREVRANGE",
    "ZSCORE",
];
/// Each verb, and the commands without which a server does not do it.
const VERBS: [(&str, &[&str]); 24] = [
    ("lock", &["DEL", "GET", "SET"]),
    ("extend", &["GET", "PEXPIRE", "SET"]),
    ("wait", &["DEL", "GET", "HGET", "PTTL", "SET"]),
    ("lost", &["GET", "SET"]),
    ("replicated", &["GET", "PEXPIRE", "SET", "WAIT"]),
    ("all", &["DEL", "GET", "HLEN", "SET"]),
    ("any", &["DEL", "GET", "HLEN", "SET"]),
    ("steal", &["DEL", "EVAL", "GET", "SET"]),
    ("ticket", &["DEL", "EVAL", "GET", "PTTL", "SET"]),
    ("read", &["DEL", "EVAL", "EXISTS", "GET", "HLEN", "PEXPIRE", "SET", "UNLINK", "ZADD", "ZREM"]),
    (
        "write",
        &[
            "DEL", "EVAL", "EXISTS", "GET", "HLEN", "PEXPIRE", "PTTL", "SET", "UNLINK", "ZADD",
            "ZREM",
        ],
    ),
    (
        "turn",
        &[
            "DEL", "EVAL", "EXISTS", "GET", "HLEN", "PEXPIRE", "SET", "UNLINK", "ZADD", "ZCOUNT",
            "ZREM", "ZSCORE",
        ],
    ),
    (
        "semaphore",
        &["DEL", "EVAL", "EXISTS", "GET", "HLEN", "PEXPIRE", "SET", "UNLINK", "ZADD", "ZREM"],
    ),
    ("elect", &["DEL", "GET", "HLEN", "PTTL", "SET"]),
    ("nominate", &["EVAL", "HGET"]),
    ("limit", &["EVAL", "GET", "SET"]),
    ("once", &["EVAL", "GET", "SET"]),
    ("idempotent", &["EVAL", "GET", "SET"]),
    ("latch", &["EVAL", "GET", "HGET", "HLEN", "HSET", "PEXPIRE", "SET", "UNLINK"]),
    ("barrier", &["EVAL", "GET", "HGET", "HLEN", "HSET", "PEXPIRE", "SET", "UNLINK"]),
    ("inspect", &["EVAL", "GET"]),
    ("primitives", &["EVAL", "GETRANGE", "PTTL"]),
    ("list", &["PTTL", "SCAN"]),
    ("break", &["EVAL", "GET", "HLEN", "PTTL", "SET"]),
];

/// The verbs that need a command, in their order.
fn failing(command: &str) -> Vec<&'static str> {
    let needs = |(_, needed): &&(&str, &[&str])| needed.contains(&command);
    VERBS.iter().filter(needs).map(|(verb, _)| *verb).collect()
}

/// Where a queue has come into being without these, it depends on the moment what a waiter hears: with such a server
/// nobody waits.
const OF_QUEUES: [&str; 8] =
    ["APPEND", "HDEL", "HGET", "HLEN", "HMGET", "HSET", "ZCOUNT", "ZSCORE"];
const WAITING: [&str; 3] = ["wait", "write", "elect"];

type Tried = Result<(), Error>;

async fn waited(one: &Locker, other: &Locker) -> Tried {
    let before = other.stats().contended;
    let guard = one.try_lock("wait").await?;
    let waiting = tokio::spawn(other.lock("wait").wait_at_most(WAITS).into_future());
    eventually("it is refused", || other.stats().contended > before || waiting.is_finished()).await;
    guard.release().await?;
    soon("the lock", waiting).await.unwrap()?.release().await
}

async fn lost(one: &Locker, server: &RedisServer) -> Tried {
    let guard = one.try_lock("lost").await?;
    server.cli(&["EXPIRE", "lost", "0"]);
    assert!(matches!(soon("it is told", guard.lost()).await, Loss::Gone | Loss::NoQuorum));
    Ok(())
}

async fn written(one: &Locker, other: &Locker) -> Tried {
    let before = other.stats().contended;
    let reader = one.try_read("write").await?;
    let writer = tokio::spawn(other.write("write").wait_at_most(WAITS).into_future());
    eventually("it is refused", || other.stats().contended > before || writer.is_finished()).await;
    reader.release().await?;
    soon("the writer", writer).await.unwrap()?.release().await
}

async fn counted(one: &Locker) -> Tried {
    one.try_lock("replicated").await?.replicated(0, WAITS).await.map(|_| ())
}

async fn limited(one: &Locker) -> Tried {
    one.limit("limit", Rate::new(9, LONG)).take(1).await.map(|_| ())
}

async fn turned(one: &Locker) -> Tried {
    let mut reader = one.try_read("turn").await?;
    reader.upgrade().await?;
    reader.downgrade().await?;
    reader.release().await
}

async fn adopted(one: &Locker, other: &Locker) -> Tried {
    let ticket = one.try_lock("ticket").await?.into_ticket(LONG).await?;
    other.adopt(&ticket).await?.release().await
}

async fn led(one: &Locker, other: &Locker) -> Tried {
    let before = other.stats().contended;
    let leader = one.elect("leader").campaign("one").await?;
    let next =
        tokio::spawn(other.elect("leader").campaign("other").wait_at_most(WAITS).into_future());
    eventually("it is refused", || other.stats().contended > before || next.is_finished()).await;
    leader.release().await?;
    soon("the next", next).await.unwrap()?.release().await
}

async fn ran(one: &Locker) -> Tried {
    let job = one.once("once", Slot::every(LONG)).at_least_once(LONG);
    job.run(async |_| Ok::<_, ()>(())).await.map(|_| ())
}

async fn answered(one: &Locker) -> Tried {
    let request = one.idempotent("idempotent", "", LONG);
    request.run(async |_| Ok::<_, ()>("")).await.map(|_| ())
}

async fn opened(one: &Locker, other: &Locker) -> Tried {
    let (counting, waiting) = (one.latch("latch", 1), other.latch("latch", 1));
    let waiting = tokio::spawn(async move { waiting.wait(WAITS).await });
    counting.count_down("x").await?;
    assert!(soon("the opening", waiting).await.unwrap()?.is_open());
    Ok(())
}

async fn gathered(one: &Locker) -> Tried {
    let mut party = one.barrier("barrier", 1).party("x");
    assert!(party.arrive().await?.is_open());
    Ok(())
}

async fn listed(one: &Locker) -> Tried {
    let mut list = one.list("*");
    while list.next().await?.is_some() {}
    Ok(())
}

async fn broken(one: &Locker, other: &Locker) -> Tried {
    let _held = one.try_lock("broken").await?;
    let seen = other.inspect("broken").await?;
    other.break_lease(&seen).await.map(|_| ())
}

async fn release(guard: Result<leasehold::Guard, Error>) -> Tried {
    guard?.release().await
}

/// Each verb that fails on this server, and why.
async fn failures(server: &RedisServer, url: &str, waits: bool) -> Vec<(&'static str, Error)> {
    let connect = || {
        let builder = Locker::builder().node(url).ttl(LONG);
        async { soon("connecting", builder.connect()).await }
    };
    let (one, other) = match (connect().await, connect().await) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(error), _) | (_, Err(error)) => return vec![("connect", error)],
    };
    let (one, other) = (&one, &other);
    let tried: [(&str, Tried); 24] = [
        ("lock", release(one.try_lock("a").await).await),
        ("extend", async { one.try_lock("extend").await?.extend().await }.await),
        ("wait", if waits { waited(one, other).await } else { Ok(()) }),
        ("lost", lost(one, server).await),
        ("replicated", counted(one).await),
        ("all", release(one.lock_all(["all-a", "all-b"]).await).await),
        ("any", release(one.lock_any(["any-a", "any-b"]).await).await),
        ("steal", release(other.lock("extend").steal().await).await),
        ("ticket", adopted(one, other).await),
        ("read", release(one.try_read("read").await).await),
        ("write", if waits { written(one, other).await } else { Ok(()) }),
        ("turn", turned(one).await),
        ("semaphore", release(one.semaphore("s", 2).acquire(2).await).await),
        ("elect", if waits { led(one, other).await } else { Ok(()) }),
        ("nominate", one.elect("leader").nominate("x").await.map(|_| ())),
        ("limit", limited(one).await),
        ("once", ran(one).await),
        ("idempotent", answered(one).await),
        ("latch", opened(one, other).await),
        ("barrier", gathered(one).await),
        ("inspect", one.inspect("a").await.map(|_| ())),
        ("primitives", one.inspect_primitives("limit").await.map(|_| ())),
        ("list", listed(one).await),
        ("break", broken(one, other).await),
    ];
    tried.into_iter().filter_map(|(verb, tried)| Some((verb, tried.err()?))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_works_that_does_not_need_the_command_that_a_server_lacks() {
    for command in COMMANDS {
        let server = RedisServer::builder().arg("--rename-command").arg(command).arg("").start();
        let waits = !OF_QUEUES.contains(&command);
        let failed = soon(command, failures(&server, &server.url(), waits)).await;
        let verbs: Vec<&str> = failed.iter().map(|(verb, _)| *verb).collect();
        let is_tried = |verb: &&str| waits || !WAITING.contains(verb);
        let expected: Vec<&str> = failing(command).into_iter().filter(is_tried).collect();
        assert_eq!(verbs, expected, "{command}");
        for (verb, error) in failed {
            // Of what a script passes on, the server says no more.
            let text = error.to_string();
            let is_named = text.contains(command) || !text.contains("@user_script");
            assert!(is_named, "{command}, {verb}: {error}");
        }
    }
}

/// What a server would do for others it does not do for this user: what is missing is the right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_verb_that_a_user_may_not_do_names_the_right() {
    for command in COMMANDS {
        let (server, name) = (RedisServer::start(), command.to_lowercase());
        let user = ["ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", &format!("-{name}")];
        assert_eq!(server.cli_text(&user), "OK");
        let url = format!("redis://u:pw@{}", server.address());
        let failed = soon(command, failures(&server, &url, !OF_QUEUES.contains(&command))).await;
        let verbs: Vec<&str> = failed.iter().map(|(verb, _)| *verb).collect();
        let connects = verbs != ["connect"];
        let is_failed = |verb: &&str| verbs.contains(verb) || WAITING.contains(verb);
        assert!(!connects || failing(command).iter().all(is_failed), "{command}: {verbs:?}");
        for (verb, error) in failed {
            let text = error.to_string();
            let names = [format!("grant the user +{name}"), "what docs/acl.md lists".to_owned()];
            let is_named = names.iter().any(|right| text.contains(right));
            assert!(error.kind() == ErrorKind::Auth && is_named, "{command}, {verb}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_servers_that_lack_a_command_are_a_quorum() {
    for command in ["ECHO", "EVALSHA", "HELLO", "SCRIPT", "TIME"] {
        let lacking = RedisServer::builder().arg("--rename-command").arg(command).arg("");
        let fleet = Fleet::start_as(3, &lacking);
        let connect =
            || Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false).connect();
        let one = &soon("connecting", connect()).await.unwrap();
        let other = &soon("connecting", connect()).await.unwrap();
        for tried in [
            release(one.try_lock("a").await).await,
            waited(one, other).await,
            release(one.lock_all(["all-a", "all-b"]).await).await,
            adopted(one, other).await,
            written(one, other).await,
            limited(one).await,
            answered(one).await,
        ] {
            tried.unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }
}

/// As ElastiCache Serverless is: the key by which a script knows the clock is where the script's other keys are.
#[cfg(feature = "cluster")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_in_which_no_script_may_call_time_does_all() {
    let lacking = RedisServer::builder().arg("--rename-command").arg("TIME").arg("");
    let node = lacking.arg("--cluster-enabled").arg("yes").start();
    node.own_slots(0..=16_383);
    let is_up = || node.cli_text(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
    eventually("it serves all slots", is_up).await;
    let url = node.url().replace("redis://", "redis-cluster://");
    let failed = soon("all verbs", failures(&node, &url, true)).await;
    assert!(failed.is_empty(), "{failed:?}");
}

/// By what scripts reach a server: the digest of one that was loaded, or the script itself. Where neither is left nothing
/// is granted, and the error says what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_reach_a_server_by_whichever_of_three_commands_it_has() {
    for (missing, is_locked, is_all) in [
        (&["SCRIPT"][..], true, true),
        (&["EVALSHA"], true, true),
        (&["SCRIPT", "EVALSHA"], true, true),
        // A handshake loads what locks need, and nothing brings the rest.
        (&["EVAL"], true, false),
        (&["SCRIPT", "EVAL"], false, false),
        (&["EVALSHA", "EVAL"], false, false),
        (&["SCRIPT", "EVALSHA", "EVAL"], false, false),
    ] {
        let lacking = missing.iter().fold(RedisServer::builder(), |builder, word| {
            builder.arg("--rename-command").arg(word).arg("")
        });
        let server = lacking.start();
        let locker = Locker::builder().node(server.url()).ttl(LONG).connect();
        let locker = &soon("connecting", locker).await.unwrap();
        let tried = [
            (release(locker.try_lock("a").await).await, is_locked),
            (release(locker.lock_all(["b", "c"]).await).await, is_locked),
            (release(locker.try_read("d").await).await, is_all),
            (limited(locker).await, is_all),
        ];
        for (tried, works) in tried {
            assert_eq!(tried.is_ok(), works, "{missing:?}: {tried:?}");
            let Err(error) = tried else { continue };
            let is_told = error.to_string().contains("Builder::scriptless");
            assert!(error.kind() == ErrorKind::Misuse && is_told, "{missing:?}: {error}");
        }
    }
}
