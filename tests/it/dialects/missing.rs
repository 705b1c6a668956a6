//! Servers that lack a command, and users without the right to one: each command, against each operation of the
//! library.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
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
const COMMANDS: [&str; 40] = [
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
    "HKEYS",
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
/// A verb, the commands without which a server does not do it, and how it is tried.
struct Verb {
    name: &'static str,
    needs: &'static [&'static str],
    tried: for<'a> fn(On<'a>) -> Pin<Box<dyn Future<Output = Tried> + 'a>>,
}

/// Two clients of one server.
#[derive(Clone, Copy)]
struct On<'a> {
    one: &'a Locker,
    other: &'a Locker,
    server: &'a RedisServer,
}

macro_rules! verbs {
    ($($name:literal $needs:expr, $on:pat => $tried:expr;)+) => {
        [$(Verb { name: $name, needs: &$needs, tried: |$on| Box::pin($tried) }),+]
    };
}

const VERBS: [Verb; 24] = verbs! {
    "lock" ["DEL", "GET", "SET"], on => locked(on.one);
    "extend" ["GET", "PEXPIRE", "SET"], on => extended(on.one);
    "wait" ["DEL", "GET", "HGET", "PTTL", "SET"], on => waited(on.one, on.other);
    "lost" ["GET", "SET"], on => lost(on.one, on.server);
    "replicated" ["GET", "PEXPIRE", "SET", "WAIT"], on => counted(on.one);
    "all" ["DEL", "GET", "HLEN", "SET"], on => locked_all(on.one);
    "any" ["DEL", "GET", "HLEN", "SET"], on => locked_any(on.one);
    "steal" ["DEL", "GET", "SET"], on => stolen(on.other);
    "ticket" ["DEL", "GET", "PTTL", "SET"], on => adopted(on.one, on.other);
    "read" ["DEL", "EXISTS", "GET", "HLEN", "PEXPIRE", "SET", "UNLINK", "ZADD", "ZREM"], on => shared(on.one);
    "write" ["DEL", "EXISTS", "GET", "HLEN", "PEXPIRE", "PTTL", "SET", "UNLINK", "ZADD", "ZREM"],
        on => written(on.one, on.other);
    "turn" ["DEL", "EXISTS", "GET", "HLEN", "PEXPIRE", "SET", "UNLINK", "ZADD", "ZCOUNT", "ZREM", "ZSCORE"],
        on => turned(on.one);
    "semaphore" ["DEL", "EXISTS", "GET", "HLEN", "PEXPIRE", "SET", "UNLINK", "ZADD", "ZREM"],
        on => permitted(on.one);
    "elect" ["DEL", "GET", "HLEN", "PTTL", "SET"], on => led(on.one, on.other);
    "nominate" ["HGET"], on => nominated(on.one);
    "limit" ["GET", "SET"], on => limited(on.one);
    "once" ["GET", "SET"], on => ran(on.one);
    "idempotent" ["GET", "SET"], on => answered(on.one);
    "latch" ["GET", "HGET", "HLEN", "HSET", "PEXPIRE", "SET", "UNLINK"], on => opened(on.one, on.other);
    "barrier" ["GET", "HGET", "HLEN", "HSET", "PEXPIRE", "SET", "UNLINK"], on => gathered(on.one);
    "inspect" ["GET"], on => inspected(on.one);
    "primitives" ["GETRANGE", "PTTL"], on => looked(on.one);
    "list" ["PTTL", "SCAN"], on => listed(on.one);
    "break" ["GET", "HLEN", "PTTL", "SET"], on => broken(on.one, on.other);
};

/// The verbs that need a command, in their order.
fn failing(command: &str) -> Vec<&'static str> {
    let needing = VERBS.iter().filter(|verb| verb.needs.contains(&command));
    needing.map(|verb| verb.name).collect()
}

/// Where a queue has come into being without these, it depends on the moment what a waiter hears: with such a server
/// nobody waits.
const OF_QUEUES: [&str; 8] =
    ["APPEND", "HDEL", "HGET", "HLEN", "HMGET", "HSET", "ZCOUNT", "ZSCORE"];
const WAITING: [&str; 3] = ["wait", "write", "elect"];

type Tried = Result<(), Error>;

async fn locked(one: &Locker) -> Tried {
    one.try_lock("a").await?.release().await
}

async fn extended(one: &Locker) -> Tried {
    one.try_lock("extend").await?.extend().await
}

async fn locked_all(one: &Locker) -> Tried {
    one.lock_all(["all-a", "all-b"]).await?.release().await
}

async fn locked_any(one: &Locker) -> Tried {
    one.lock_any(["any-a", "any-b"]).await?.release().await
}

async fn stolen(other: &Locker) -> Tried {
    other.lock("extend").steal().await?.release().await
}

async fn shared(one: &Locker) -> Tried {
    one.try_read("read").await?.release().await
}

async fn permitted(one: &Locker) -> Tried {
    one.semaphore("s", 2).acquire(2).await?.release().await
}

async fn nominated(one: &Locker) -> Tried {
    one.elect("leader").nominate("x").await.map(|_| ())
}

async fn inspected(one: &Locker) -> Tried {
    one.inspect("a").await.map(|_| ())
}

async fn looked(one: &Locker) -> Tried {
    one.inspect_primitives("limit").await.map(|_| ())
}

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
    let on = On { one: &one, other: &other, server };
    let mut failed = Vec::new();
    for Verb { name, tried, .. } in VERBS {
        if waits || !WAITING.contains(&name) {
            failed.extend(tried(on).await.err().map(|error| (name, error)));
        }
    }
    failed
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

/// Nobody waits for a renewal, or for the release of a dropped guard; and to release once more is of no use.
#[tokio::test]
async fn what_no_script_may_call_in_the_background_is_a_warning_and_no_shutdown_waits_for_it() {
    for (command, ttl) in [("DEL", LONG), ("PEXPIRE", Duration::from_millis(300))] {
        let server = RedisServer::builder().arg("--rename-command").arg(command).arg("").start();
        let locker = Locker::builder().node(server.url()).ttl(ttl).connect().await.unwrap();
        let guard = soon("a lock", locker.lock("a").into_future()).await.unwrap();
        let held = (command == "PEXPIRE").then_some(guard);
        // Which command that is, not each server says.
        let is_told = |text: &String| text.contains("ommand called from ");
        eventually("a warning", || locker.warnings().iter().any(is_told)).await;
        let ended = soon("the shutdown", locker.shutdown(LONG)).await;
        let is_left = ended.unreleased.iter().any(|left| is_told(&left.reason));
        assert_eq!(is_left, command == "DEL", "{ended}");
        drop(held);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_servers_that_lack_a_command_are_a_quorum() {
    for command in ["ECHO", "EVAL", "EVALSHA", "HELLO", "SCRIPT", "TIME"] {
        let lacking = RedisServer::builder().arg("--rename-command").arg(command).arg("");
        let fleet = Fleet::start_as(3, &lacking);
        let connect =
            || Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false).connect();
        let one = &soon("connecting", connect()).await.unwrap();
        let other = &soon("connecting", connect()).await.unwrap();
        for tried in [
            locked(one).await,
            waited(one, other).await,
            locked_all(one).await,
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
    node.complete_slots(0..=16_383).await;
    let url = node.url().replace("redis://", "redis-cluster://");
    let failed = soon("all verbs", failures(&node, &url, true)).await;
    assert!(failed.is_empty(), "{failed:?}");
}

/// By what scripts reach a server: their digest, behind a command that loads them, or the script itself. Where neither is
/// left nothing is done but what takes no script, and the error says what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_reach_a_server_by_whichever_of_three_commands_it_has() {
    let all_but: Vec<&str> =
        VERBS.iter().map(|verb| verb.name).filter(|it| *it != "list").collect();
    for (missing, fails) in [
        (&["SCRIPT"][..], false),
        (&["EVALSHA"], false),
        (&["EVAL"], false),
        (&["SCRIPT", "EVALSHA"], false),
        (&["SCRIPT", "EVALSHA", "TIME"], false),
        (&["SCRIPT", "EVAL"], true),
        (&["EVALSHA", "EVAL"], true),
        (&["SCRIPT", "EVALSHA", "EVAL"], true),
        // What stands for that clock is another script, of which nobody knows the digest.
        (&["EVAL", "TIME"], true),
    ] {
        let lacking = missing.iter().fold(RedisServer::builder(), |builder, word| {
            builder.arg("--rename-command").arg(word).arg("")
        });
        let server = lacking.start();
        let failed = soon("all verbs", failures(&server, &server.url(), true)).await;
        let verbs: Vec<&str> = failed.iter().map(|(verb, _)| *verb).collect();
        assert_eq!(verbs, if fails { &all_but[..] } else { &[] }, "{missing:?}: {failed:?}");
        for (verb, error) in failed {
            let is_told = error.to_string().contains("Builder::scriptless");
            assert!(error.kind() == ErrorKind::Misuse && is_told, "{missing:?}, {verb}: {error}");
        }
    }
}

/// A server may forget its scripts at any time, also one that has no `EVAL`.
#[tokio::test]
async fn a_server_without_eval_is_brought_what_it_has_forgotten() {
    let server = RedisServer::builder().arg("--rename-command").arg("EVAL").arg("").start();
    let one = Locker::builder().node(server.url()).ttl(LONG).connect();
    let one = &soon("connecting", one).await.unwrap();
    for _ in 0..2 {
        server.cli(&["SCRIPT", "FLUSH"]);
        let guard = soon("a lock", one.try_lock("a").into_future()).await.unwrap();
        server.cli(&["SCRIPT", "FLUSH"]);
        guard.extend().await.unwrap();
        server.cli(&["SCRIPT", "FLUSH"]);
        guard.release().await.unwrap();
        assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
        limited(one).await.unwrap();
    }
    let graced = Locker::builder().node(server.url()).ttl(Duration::from_millis(500));
    let graced = soon("connecting", graced.failover_grace(true).connect()).await.unwrap();
    let guard = soon("the end of the grace", graced.lock("b").into_future()).await.unwrap();
    guard.release().await.unwrap();
}
