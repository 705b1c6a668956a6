//! Servers of Redis 5 and 6: only RESP2, no client tracking, other error texts. They are real servers behind a proxy
//! that refuses newer commands; see `support/old.rs`.

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locker, Loss};
use leasehold_testing::old::{Age, OldServer};
use leasehold_testing::{RedisServer, eventually, rights, soon};

/// Renewed often.
const SHORT: Duration = Duration::from_millis(600);
/// So long that nothing ends because of it.
const LONG: Duration = Duration::from_secs(3600);
const PASSWORD: &str = "hunter2";
const AGES: [Age; 3] = [Age::Redis5, Age::Redis6, Age::NoProto];

struct Old {
    proxy: OldServer,
    server: RedisServer,
}

impl Old {
    fn start(age: Age) -> Self {
        let server = RedisServer::builder().arg("--requirepass").arg(PASSWORD).start();
        Self { proxy: OldServer::start(age, server.address()), server }
    }

    async fn connect(&self, userinfo: &str, ttl: Duration) -> Result<Locker, Error> {
        let builder = Locker::builder().node(self.proxy.url(userinfo)).ttl(ttl);
        soon("the end of the try to connect", builder.connect()).await
    }

    async fn locker(&self, ttl: Duration) -> Locker {
        self.connect(&format!(":{PASSWORD}@"), ttl).await.unwrap()
    }

    fn exists(&self, key: &str) -> bool {
        self.server.cli_text(&["EXISTS", key]) == "1"
    }
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("a lock", locker.lock(name).into_future()).await.unwrap()
}

fn refused<T>(outcome: Result<T, Error>) -> Error {
    outcome.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn locks_are_taken_kept_lost_and_given_back() {
    for age in AGES {
        let old = Old::start(age);
        let (one, other) = (old.locker(SHORT).await, old.locker(SHORT).await);
        let guard = one.lock("a").label("one").await.unwrap();
        let error = refused(other.try_lock("a").await);
        assert!(
            error.kind() == ErrorKind::Contended && error.to_string().contains("\"one\""),
            "{error}"
        );
        guard.extend().await.unwrap();
        eventually("renewals", || one.stats().renewed > 1).await;
        assert!(!guard.is_lost());
        let before = guard.fence();
        guard.release().await.unwrap();

        let guard = take(&other, "a").await;
        assert!(guard.fence() > before);
        old.server.cli(&["DEL", "a"]);
        assert_eq!(soon("its loss", guard.lost()).await, Loss::Gone, "{age:?}");

        let guard = one.try_lock("plain").unfenced().await.unwrap();
        assert_eq!(refused(other.try_lock("plain").unfenced().await).kind(), ErrorKind::Contended);
        assert!(!old.exists("{plain}:fence"));
        guard.release().await.unwrap();

        #[cfg(feature = "groups")]
        {
            let both = one.lock_all(["b", "c"]).await.unwrap();
            assert_eq!(refused(other.try_lock("c").await).kind(), ErrorKind::Contended);
            both.release().await.unwrap();
        }

        old.server.cli(&["SCRIPT", "FLUSH"]);
        drop(take(&other, "b").await);
        eventually("a dropped one is free", || !old.exists("b")).await;
        let _left = take(&one, "b").await;
        one.shutdown(leasehold_testing::STUCK).await;
        assert!(!old.exists("b"));
    }
}

#[tokio::test]
async fn waiters_are_served_with_client_tracking_and_without() {
    for age in AGES {
        let old = Old::start(age);
        let (holder, waiter) = (old.locker(LONG).await, old.locker(LONG).await);
        let guard = take(&holder, "a").await;
        let first = tokio::spawn(waiter.lock("a").into_future());
        let second = tokio::spawn(waiter.lock("a").into_future());
        eventually("they wait", || waiter.stats().waiting == 2).await;
        match age {
            Age::Redis5 | Age::NoProto => {
                eventually("it asks", || waiter.stats().contended > 3).await;
            }
            Age::Redis6 => {
                let tracked =
                    || !old.server.cli_text(&["INFO", "stats"]).contains("tracking_total_keys:0");
                eventually("it is to be told", tracked).await;
            }
        }
        guard.release().await.unwrap();
        for waiting in [first, second] {
            soon("its turn", waiting).await.unwrap().unwrap().release().await.unwrap();
        }
        let stats = waiter.stats();
        assert_eq!(stats.handed_over, 1);
        assert_eq!(stats.woken > 0, age == Age::Redis6, "{stats}");
    }
}

/// There is no queue, so order is not kept: a waiter asks now and then.
#[cfg(feature = "sharing")]
#[tokio::test]
async fn shares_are_waited_for_and_had_without_a_queue() {
    for age in AGES {
        let old = Old::start(age);
        let (one, other) = (old.locker(LONG).await, old.locker(LONG).await);
        let reader = one.read("a").await.unwrap();
        other.try_read("a").await.unwrap().release().await.unwrap();
        assert_eq!(refused(other.try_write("a").await).kind(), ErrorKind::Contended);
        let writer = tokio::spawn(other.write("a").into_future());
        eventually("it waits", || other.stats().contended > 1).await;
        reader.release().await.unwrap();
        let writer = soon("the writer has it", writer).await.unwrap().unwrap();
        let readers =
            [&one, &one, &other].map(|locker| tokio::spawn(locker.read("a").into_future()));
        eventually("they wait", || one.stats().contended > 1).await;
        let mut writer = writer;
        soon("it reads on", writer.downgrade()).await.unwrap();
        for reader in readers {
            soon("a reader is let in", reader).await.unwrap().unwrap().release().await.unwrap();
        }
        soon("it writes again", writer.upgrade()).await.unwrap();
        writer.release().await.unwrap();

        let permits = [&one, &other].map(|locker| locker.semaphore("b", 2));
        let held = [permits[0].acquire(1).await.unwrap(), permits[1].acquire(1).await.unwrap()];
        let error = refused(permits[0].try_acquire(1).await);
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        let heavy = tokio::spawn(permits[1].acquire(2).into_future());
        drop(held);
        soon("both permits", heavy).await.unwrap().unwrap().release().await.unwrap();
        eventually("nothing is left", || !old.exists("a") && !old.exists("b")).await;
    }
}

#[tokio::test]
async fn several_old_servers_are_a_quorum() {
    for age in AGES {
        let olds: Vec<Old> = (0..3).map(|_| Old::start(age)).collect();
        let urls = olds.iter().map(|old| old.proxy.url(&format!(":{PASSWORD}@")));
        let builder = Locker::builder().nodes(urls.collect::<Vec<_>>()).ttl(SHORT);
        let locker = builder.connect().await.unwrap();
        let guard = take(&locker, "a").await;
        let holding = || olds.iter().filter(|old| old.exists("a")).count();
        eventually("all have it", || holding() == 3).await;
        olds[1].server.cli(&["DEL", "a"]);
        eventually("all have it again", || holding() == 3).await;
        guard.release().await.unwrap();
        eventually("all are free", || holding() == 0).await;
    }
}

/// The bug of lettuce #2313: the fallback hid an authentication error.
#[tokio::test]
async fn a_wrong_password_is_an_error_of_its_own_and_shows_no_password() {
    for age in AGES {
        let old = Old::start(age);
        // Old servers repeat what they do not know; users they do not know at all.
        for userinfo in [":secret1@", "worker:secret1@", ""] {
            let error = refused(old.connect(userinfo, LONG).await);
            assert_eq!(error.kind(), ErrorKind::Auth, "{age:?} {userinfo}: {error}");
            assert!(!format!("{error} {error:?}").contains("secret1"), "{error}");
        }
    }
    let open = RedisServer::start();
    let proxy = OldServer::start(Age::Redis5, open.address());
    let error = refused(Locker::connect(&proxy.url(":secret1@")).await);
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
}

#[tokio::test]
async fn errors_in_scripts_are_understood_in_their_older_words() {
    for age in AGES {
        let old = Old::start(age);
        let locker = old.locker(LONG).await;
        old.server.cli(&["LPUSH", "list", "1"]);
        let error = refused(locker.try_lock("list").await);
        assert!(
            error.kind() == ErrorKind::Misuse && error.to_string().contains("another type"),
            "{error}"
        );
        #[cfg(feature = "groups")]
        {
            let both = locker.lock_all(["a", "b"]).await.unwrap();
            old.server.cli(&["DEL", "a"]);
            old.server.cli(&["LPUSH", "a", "1"]);
            assert_eq!(refused(both.release().await).kind(), ErrorKind::Lost);
            assert!(!old.exists("b"), "and keeps nothing else from being free");
        }
        old.server.cli(&["SET", "{c}:fence", "none"]);
        let error = refused(locker.try_lock("c").await).to_string();
        assert!(error.contains("fence counter"), "{error}");
    }
    let old = Old::start(Age::Redis6);
    let rules = rights::of("waiting");
    rights::grant(&old.server, &rules);
    let prefixed = Locker::builder().node(old.proxy.url("worker:pw@")).key_prefix(rights::PREFIX);
    let locker = prefixed.connect().await.unwrap();
    let guard = take(&locker, "a").await;
    for right in ["+get", "+pttl", "+evalsha"] {
        rights::grant(
            &old.server,
            &rules.iter().filter(|rule| *rule != right).cloned().collect::<Vec<_>>(),
        );
        let error = refused(locker.try_lock("a").await);
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
        assert!(error.to_string().contains(&format!("grant the user {right}")), "{error}");
    }
    drop(guard);
}

/// A proxy does not see what scripts call. Each of these commands, with this number of words and these
/// options, is as old as Redis 4; none of them but TIME gives one server another result than the
/// next, and before TIME a script asks that its effects be replicated.
#[test]
fn scripts_call_nothing_that_redis_5_does_not_know() {
    let known = [
        ("GET", 1, &[][..]),
        ("PTTL", 1, &[]),
        ("DEL", 1, &[]),
        ("PEXPIRE", 2, &[]),
        ("TIME", 0, &[]),
        ("INFO", 1, &["'server'"]),
        ("INFO", 1, &["'replication'"]),
        ("SET", 2, &[]),
        ("SET", 4, &["'PX'"]),
        ("SET", 5, &["'NX'", "'PX'"]),
        ("HGET", 2, &[]),
        ("HGET", 2, &["'first'"]),
        ("HGET", 2, &["'last'"]),
        ("HMGET", 2, &[]),
        ("HMGET", 3, &["'first'", "'last'"]),
        ("HMGET", 4, &["'first'", "'last'"]),
        ("HSET", 3, &[]),
        ("HSET", 3, &["'first'"]),
        ("HSET", 3, &["'last'"]),
        ("HSET", 5, &["'first'"]),
        ("HSET", 9, &["'first'", "'last'"]),
        ("HDEL", 2, &[]),
        ("HDEL", 2, &["''"]),
        ("HDEL", 3, &[]),
        ("HLEN", 1, &[]),
        ("HKEYS", 1, &[]),
        ("APPEND", 2, &["'\\0'"]),
        ("PUBSUB", 2, &["'NUMSUB'"]),
        ("PUBLISH", 2, &[]),
        ("PUBLISH", 2, &["'1 ' .. next.owner"]),
        ("HGET", 2, &["'#'"]),
        ("HSET", 5, &["'#'", "'p' .. ARGV[4]", "''"]),
        ("HSET", 5, &["'#'", "'p' .. ARGV[5]", "''"]),
        ("UNLINK", 1, &[]),
        ("EXISTS", 1, &[]),
        ("ZADD", 2, &[]),
        ("ZADD", 3, &[]),
        ("ZREM", 2, &[]),
        ("ZREM", 2, &["''"]),
        ("ZREM", 3, &[]),
        ("GETRANGE", 3, &[]),
        ("ZCARD", 1, &[]),
        ("ZSCORE", 2, &[]),
        ("ZCOUNT", 3, &["'+inf'"]),
        ("ZREVRANGE", 4, &["'WITHSCORES'"]),
        ("ZRANGEBYSCORE", 6, &["'-inf'", "'LIMIT'"]),
        ("ZRANGEBYSCORE", 7, &["'+inf'", "'WITHSCORES'", "'LIMIT'"]),
        // Where no script may call TIME. Redis 5 refuses it, and the script gives back what TIME was refused by.
        ("SET", 5, &["''", "'NX'", "'PXAT'"]),
    ];
    let all = ["/scripts", "/scripts/parts"];
    let scripts = all
        .map(|folder| std::fs::read_dir(env!("CARGO_MANIFEST_DIR").to_owned() + folder).unwrap());
    let (mut calls, mut unknown) = (0, Vec::new());
    for path in scripts.into_iter().flatten().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "lua") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with("--")) {
            assert!(line.matches("redis.").count() <= 1, "an error names its line only: {line}");
            assert!(!line.contains("redis.setresp") && !line.contains("redis.log"), "{line}");
            let Some((_, rest)) = line.split_once("call('") else { continue };
            assert!(!line.starts_with("return redis"), "a tail call has no line: {line}");
            let (name, arguments) = rest.split_once('\'').unwrap();
            let arguments = arguments_of(arguments);
            let is_number = |word: &str| word.trim_matches('\'').parse::<u64>().is_ok();
            let literal = |word: &&String| word.starts_with('\'') && !is_number(word);
            let is_known = |(known, count, options): &&(&str, usize, &[&str])| {
                let literals = arguments.iter().filter(literal);
                *known == name && arguments.len() == *count && literals.eq(options.iter())
            };
            if !known.iter().any(|it| is_known(&it)) {
                unknown.push(format!("{}: {line}", path.display()));
            }
            calls += 1;
        }
    }
    assert!(unknown.is_empty(), "not on the list:\n{}", unknown.join("\n"));
    assert!(calls > 15, "it looks elsewhere: {calls}");
}

/// What stands between a call's name and its closing bracket, one by one.
fn arguments_of(rest: &str) -> Vec<String> {
    let (mut depth, mut arguments, mut word) = (0, Vec::new(), String::new());
    for character in rest.trim_start_matches(", ").chars() {
        match character {
            ')' if depth == 0 => break,
            ',' if depth == 0 => arguments.push(std::mem::take(&mut word).trim().to_owned()),
            _ => {
                depth += match character {
                    '(' | '[' | '{' => 1,
                    ')' | ']' | '}' => -1,
                    _ => 0,
                };
                word.push(character);
            }
        }
    }
    if !word.is_empty() {
        arguments.push(word.trim().to_owned());
    }
    arguments
}

#[cfg(feature = "scriptless")]
#[tokio::test]
async fn a_server_that_does_not_compare_is_told_of_before_anything_is_taken() {
    use leasehold_testing::binary::{has_at_least, lacks};

    if lacks(!has_at_least((8, 4), (8, 1)), "a SET that does not compare") {
        return;
    }
    let server = RedisServer::start();
    let builder = Locker::builder().node(server.url()).ttl(LONG).scriptless();
    let locker = soon("connecting", builder.connect()).await.unwrap();
    for request in [locker.try_lock("a"), locker.lock("a")] {
        let error = soon("an answer", request.into_future()).await.map(|_| ()).unwrap_err();
        let text = error.to_string();
        assert!(
            error.kind() == ErrorKind::Misuse && text.contains("Redis 8.4 or Valkey 8.1"),
            "{text}"
        );
    }
    let plain = soon("an answer", locker.try_lock("a").unfenced().into_future()).await;
    assert_eq!(plain.map(|_| ()).unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(server.cli_text(&["EXISTS", "a", "{a}:fence"]), "0");
}
