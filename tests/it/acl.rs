//! The rights of `docs/acl.md`: a user with exactly these can do everything; without one of them an error names it, and
//! no request waits for ever.

#[cfg(all(
    feature = "election",
    feature = "family",
    feature = "groups",
    feature = "sharing",
    feature = "takeover"
))]
mod beside;
#[cfg_attr(
    not(all(feature = "cluster", feature = "sentinel")),
    allow(dead_code, unused_imports, reason = "each way of moving uses parts of it")
)]
mod moving;

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locker, Loss};
use leasehold_testing::rights::{self, PREFIX};
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

/// Renewed often.
const SHORT: Duration = Duration::from_millis(600);
/// So long that nothing ends because of it.
const LONG: Duration = Duration::from_secs(3600);

async fn connect(url: &str, ttl: Duration) -> Result<Locker, Error> {
    soon("a locker", Locker::builder().node(url).key_prefix(PREFIX).ttl(ttl).connect()).await
}

async fn locker(server: &RedisServer, ttl: Duration) -> Locker {
    connect(&rights::url(server), ttl).await.unwrap()
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("a lock", locker.lock(name).into_future()).await.unwrap()
}

async fn until_renewed(locker: &Locker) {
    let before = locker.stats().renewed;
    eventually("a renewal", || locker.stats().renewed > before).await;
}

fn exists(server: &RedisServer, key: &str) -> bool {
    server.cli_text(&["EXISTS", key]) == "1"
}

fn server_with(rules: &[String]) -> RedisServer {
    let server = RedisServer::start();
    rights::grant(&server, rules);
    server
}

/// Everything but these.
fn without(mode: &str, right: &str) -> Vec<String> {
    rights::of(mode).into_iter().filter(|rule| rule != right).collect()
}

/// No error, and nothing that was hidden.
fn assert_content(locker: &Locker) {
    assert_eq!(locker.warnings(), [] as [String; 0]);
    assert_eq!(locker.stats().failed, 0, "{}", locker.stats());
}

#[tokio::test]
async fn unfenced_locks_need_the_rights_of_their_row() {
    let server = server_with(&rights::of("unfenced"));
    let (one, other) = (locker(&server, SHORT).await, locker(&server, SHORT).await);
    let guard = one.try_lock("a").unfenced().label("one").await.unwrap();
    let error = other.try_lock("a").unfenced().await.map(|_| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::Contended && error.to_string().contains("one"), "{error}");
    guard.extend().await.unwrap();
    until_renewed(&one).await;
    guard.release().await.unwrap();
    drop(other.try_lock("a").unfenced().await.unwrap());
    eventually("a dropped one is free", || !exists(&server, "app:a")).await;
    assert_eq!(one.warnings().len(), 1, "tracking is for waiting: {:?}", one.warnings());
    one.shutdown(leasehold_testing::STUCK).await;
}

#[tokio::test]
async fn fenced_locks_need_two_rights_more() {
    let server = server_with(&rights::of("fenced"));
    let (one, other) = (locker(&server, SHORT).await, locker(&server, SHORT).await);
    let guard = one.lock("a").label("one").await.unwrap();
    let error = other.try_lock("a").await.map(|_| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::Contended && error.to_string().contains("one"), "{error}");
    guard.extend().await.unwrap();
    until_renewed(&one).await;
    server.cli(&["DEL", "app:a"]);
    assert_eq!(soon("its loss", guard.lost()).await, Loss::Gone);
    drop(take(&one, "a").await);
    server.cli(&["SCRIPT", "FLUSH"]);
    take(&other, "b").await.release().await.unwrap();
    eventually("a dropped one is free", || !exists(&server, "app:a")).await;
}

#[cfg(feature = "sharing")]
#[tokio::test]
async fn shares_name_the_key_and_the_command_that_they_may_not_use() {
    for right in ["~{app:*}:shares", "+zadd"] {
        let mut rules = [rights::of("waiting"), rights::row("shares")].concat();
        rules.retain(|rule| rule != right);
        let server = server_with(&rules);
        let locker = locker(&server, LONG).await;
        assert_names(&told(locker.try_read("a").await), &right.replace('*', "a"));
    }
}

#[tokio::test]
async fn waiting_needs_the_rights_to_a_queue_and_to_be_told() {
    let server = server_with(&rights::of("waiting"));
    let (one, other) = (locker(&server, LONG).await, locker(&server, LONG).await);
    let guard = take(&one, "a").await;
    let woken = tokio::spawn(other.lock("a").into_future());
    let handed = tokio::spawn(other.lock("a").into_future());
    eventually("they wait", || other.stats().waiting == 2).await;
    let tracked = || !server.cli_text(&["INFO", "stats"]).contains("tracking_total_keys:0");
    eventually("one is to be told", tracked).await;
    guard.release().await.unwrap();
    let guard = soon("it is woken", woken).await.unwrap().unwrap();
    assert_eq!(other.stats().woken, 1);
    guard.release().await.unwrap();
    let guard = soon("it is handed the lock", handed).await.unwrap().unwrap();
    assert_eq!(other.stats().handed_over, 1);
    let unfenced = tokio::spawn(one.lock("a").unfenced().into_future());
    eventually("it waits", || one.stats().waiting == 1).await;
    drop(guard);
    soon("the one", unfenced).await.unwrap().unwrap().release().await.unwrap();

    let guard = one.lock("c").ttl(SHORT).await.unwrap();
    until_renewed(&one).await;
    until_renewed(&one).await;
    server.cli(&["DEL", "app:c"]);
    assert_eq!(soon("its loss", guard.lost()).await, Loss::Gone);
    assert_content(&one);
    assert_content(&other);
    one.shutdown(leasehold_testing::STUCK).await;
}

#[tokio::test]
async fn several_servers_need_three_sections_of_info() {
    const TTL: Duration = Duration::from_secs(2);
    let mut fleet = Fleet::start(3);
    fleet.iter().for_each(|server| rights::grant(server, &rights::of("several")));
    let urls = fleet.iter().map(rights::url).collect::<Vec<_>>();
    let builder = Locker::builder().nodes(urls).key_prefix(PREFIX).ttl(TTL);
    let locker = builder.refuse_evicting().connect().await.unwrap();
    let guard = take(&locker, "a").await;
    let all_have_it = async || {
        tokio::select! {
            () = eventually("all have it", || fleet.holding("app:a") == 3) => {}
            loss = guard.lost() => panic!("it is lost: {loss:?}"),
        }
    };
    all_have_it().await;
    fleet[1].cli(&["DEL", "app:a"]);
    all_have_it().await;
    let next = tokio::spawn(locker.lock("a").into_future());
    eventually("it waits", || locker.stats().waiting == 1).await;
    guard.release().await.unwrap();
    soon("the next", next).await.unwrap().unwrap().release().await.unwrap();
    assert_content(&locker);

    fleet[2].restart();
    rights::grant(&fleet[2], &rights::of("several"));
    eventually("it is connected", || locker.stats().servers[2].connected).await;
    take(&locker, "a").await.release().await.unwrap();
}

#[tokio::test]
async fn another_database_needs_one_right_more() {
    let server = server_with(&rights::of("database"));
    let url = format!("{}/2", rights::url(&server));
    let locker = connect(&url, LONG).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    assert_content(&locker);
}

#[test]
fn the_pages_lines_are_what_its_table_says() {
    let sorted = |mut rules: Vec<String>| {
        rules.sort();
        rules
    };
    let of_table = sorted(rights::of("waiting"));
    for page in ["docs/acl.md", "README.md"] {
        let path = format!("{}/{page}", env!("CARGO_MANIFEST_DIR"));
        let line = rights::line(&std::fs::read_to_string(path).unwrap());
        assert_eq!(sorted(line), of_table, "{page}");
    }
}

/// What is said where this right alone is missing, by the operations that need it.
async fn complaints(right: &str) -> Vec<String> {
    let server = server_with(&without("database", right));
    let (url, name) = (rights::url(&server), "a");
    let whole = LONG;
    match right {
        // Each script is sent at its first call then.
        "+script|load" => {
            let locker = connect(&url, whole).await.unwrap();
            take(&locker, name).await.release().await.unwrap();
            vec![warned(&locker).await]
        }
        "+select" => vec![told(connect(&format!("{url}/2"), whole).await)],
        _ if right.starts_with("+info|") => {
            let strict = Locker::builder().node(&url).refuse_evicting();
            let other = RedisServer::start();
            let several = Locker::builder().nodes([url.clone(), other.url()]);
            let mut all = vec![
                told(soon("its end", strict.connect()).await),
                told(soon("its end", several.quorum(2).connect()).await),
            ];
            if right == "+info|server" {
                all.push(warned(&connect(&url, whole).await.unwrap()).await);
            }
            all
        }
        "~app:*" | "+evalsha" => {
            let locker = connect(&url, whole).await.unwrap();
            vec![told(soon("its end", locker.lock(name).into_future()).await)]
        }
        "~{app:*}:fence" | "~{app:*}:queue" | "+time" | "+hlen" => {
            let locker = connect(&url, whole).await.unwrap();
            vec![told(soon("its end", locker.lock(name).into_future()).await)]
        }
        "+set" => {
            let locker = connect(&url, whole).await.unwrap();
            vec![
                told(soon("its end", locker.lock(name).into_future()).await),
                told(locker.try_lock(name).unfenced().await),
            ]
        }
        "+get" => {
            let locker = connect(&url, whole).await.unwrap();
            let unfenced = locker.try_lock(name).unfenced().await.unwrap();
            vec![
                told(soon("its end", locker.lock("b").into_future()).await),
                told(unfenced.extend().await),
                told(unfenced.release().await),
            ]
        }
        "+pttl" => {
            let locker = connect(&url, whole).await.unwrap();
            let _guard = take(&locker, name).await;
            let plain = locker.try_lock(name).unfenced().await.map(|_| ()).unwrap_err();
            // That it is held is known without it.
            assert_eq!(plain.kind(), ErrorKind::Contended, "{plain}");
            vec![
                warned(&locker).await,
                told(locker.try_lock(name).await),
                told(soon("its end", locker.lock(name).into_future()).await),
            ]
        }
        "+pexpire" => {
            let locker = connect(&url, SHORT).await.unwrap();
            let guard = take(&locker, name).await;
            assert_eq!(soon("its loss", guard.lost()).await, Loss::Expired);
            let mut said = vec![warned(&locker).await];
            let guard = locker.lock("c").ttl(LONG).await.unwrap();
            said.push(told(guard.extend().await));
            server.cli(&["SET", "app:b", "another"]);
            said.push(told(soon("its end", locker.lock("b").into_future()).await));
            said
        }
        "+del" => {
            let locker = connect(&url, whole).await.unwrap();
            let said = told(take(&locker, name).await.release().await);
            drop(take(&locker, "b").await);
            vec![said, warned(&locker).await]
        }
        "+eval" => {
            let locker = connect(&url, whole).await.unwrap();
            let guard = take(&locker, name).await;
            server.cli(&["SCRIPT", "FLUSH"]);
            drop(guard);
            let warned = warned(&locker).await;
            vec![warned, told(soon("its end", locker.lock("b").into_future()).await)]
        }
        "+echo" => vec![told(connect(&url, whole).await)],
        "+hget" => {
            // The first in a queue looks at no other.
            let (one, other) =
                (connect(&url, whole).await.unwrap(), connect(&url, whole).await.unwrap());
            server.cli(&["SET", "app:a", "another"]);
            let _first = tokio::spawn(one.lock(name).into_future());
            eventually("it is in the queue", || exists(&server, "{app:a}:queue")).await;
            vec![told(soon("its end", other.lock(name).into_future()).await)]
        }
        "+hmget" | "+hset" => {
            let locker = connect(&url, whole).await.unwrap();
            server.cli(&["SET", "app:a", "another"]);
            vec![told(soon("its end", locker.lock(name).into_future()).await)]
        }
        "+append" | "+hdel" | "+publish" | "+pubsub|numsub" => {
            let (one, other) =
                (connect(&url, whole).await.unwrap(), connect(&url, whole).await.unwrap());
            let guard = take(&one, name).await;
            let waiting = tokio::spawn(other.lock(name).into_future());
            if right == "+append" {
                return vec![told(soon("its end", waiting).await.unwrap())];
            }
            eventually("it is in the queue", || exists(&server, "{app:a}:queue")).await;
            if right == "+hdel" {
                // What is left of a queue after its last waiter is deleted with it.
                let third = connect(&url, whole).await.unwrap();
                let _behind = tokio::spawn(third.lock(name).into_future());
                let waiters = || server.cli_text(&["HLEN", "{app:a}:queue"]) == "6";
                eventually("both are in the queue", waiters).await;
                return vec![told(guard.release().await)];
            }
            guard.release().await.unwrap();
            // Client tracking tells it that the lock is free: nobody lacks anything but time.
            soon("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
            vec![]
        }
        "+client|tracking" | "+client|caching" | "+subscribe" | "&leasehold:*" => {
            let (one, other) =
                (connect(&url, whole).await.unwrap(), connect(&url, whole).await.unwrap());
            let guard = take(&one, name).await;
            let waiting = tokio::spawn(other.lock(name).into_future());
            eventually("it asks again", || other.stats().contended > 3).await;
            guard.release().await.unwrap();
            soon("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
            vec![warned(&other).await]
        }
        unknown => panic!("no test takes {unknown} away"),
    }
}

/// An error about a right, as text.
#[track_caller]
fn told<T>(outcome: Result<T, Error>) -> String {
    let error = outcome.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert!(!error.is_unknown(), "{error}");
    error.to_string()
}

async fn warned(locker: &Locker) -> String {
    eventually("a warning", || !locker.warnings().is_empty()).await;
    locker.warnings().join("; ")
}

#[tokio::test]
async fn each_right_that_is_missing_is_named_in_what_is_said() {
    for right in rights::of("database") {
        // Of keys, the very ones are named.
        let named = match right.strip_prefix('~') {
            Some(pattern) => format!("~{}", pattern.replace('*', "a")),
            None => right.clone(),
        };
        for said in complaints(&right).await {
            assert_names(&said, &named);
        }
    }
}

#[cfg(feature = "takeover")]
#[tokio::test]
async fn taking_a_lock_from_its_holder_names_the_right_that_is_missing() {
    let server = server_with(&without("fenced", "+time"));
    let (one, other) = (locker(&server, LONG).await, locker(&server, LONG).await);
    let guard = one.lock("a").unfenced().await.unwrap();
    assert_names(&told(other.lock("a").steal().await), "+time");
    rights::grant(&server, &rights::of("fenced"));
    let ticket = guard.into_ticket(LONG).await.unwrap();
    rights::grant(&server, &without("fenced", "+pttl"));
    assert_names(&told(other.adopt(&ticket).await), "+pttl");
    rights::grant(&server, &rights::of("fenced"));
    other.adopt(&ticket).await.unwrap().release().await.unwrap();
    assert_content(&one);
}

/// What is said tells what to grant.
#[track_caller]
fn assert_names(said: &str, right: &str) {
    let (_, granted) = said.split_once("; grant the user ").expect(said);
    assert!(granted.split([' ', ';']).any(|word| word == right), "{right}: {said}");
}

/// An error says nothing of a lease: the lease lasts to its end, and a client with the right gives it back.
#[tokio::test]
async fn a_right_that_is_taken_away_later_loses_no_lease_before_its_time() {
    let server = server_with(&rights::of("waiting"));
    let locker = locker(&server, LONG).await;
    let guard = take(&locker, "a").await;
    rights::grant(&server, &without("waiting", "+get"));
    told(guard.extend().await);
    assert!(!guard.is_lost());
    rights::grant(&server, &rights::of("waiting"));
    guard.extend().await.unwrap();
    guard.release().await.unwrap();

    let guard = locker.lock("a").ttl(SHORT).await.unwrap();
    rights::grant(&server, &without("waiting", "+get"));
    assert_eq!(soon("its loss", guard.lost()).await, Loss::Expired);
    assert!(warned(&locker).await.contains("+get"), "{:?}", locker.warnings());
}

#[tokio::test]
async fn a_waiter_is_told_of_a_right_that_was_taken_away_meanwhile() {
    let server = server_with(&rights::of("waiting"));
    let locker = locker(&server, LONG).await;
    for right in ["+evalsha", "+set", "~app:*"] {
        server.cli(&["SET", "app:a", "another"]);
        let waiting = tokio::spawn(locker.lock("a").into_future());
        let counted = || exists(&server, "{app:a}:queue");
        eventually("it waits", counted).await;
        rights::grant(&server, &without("waiting", right));
        server.cli(&["DEL", "app:a"]);
        let said = told(soon("its end", waiting).await.unwrap());
        assert!(said.contains("; grant the user "), "{right}: {said}");
        rights::grant(&server, &rights::of("waiting"));
        server.cli(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_server_that_lacks_a_right_is_no_more_than_a_missing_vote() {
    let fleet = Fleet::start(3);
    fleet.iter().for_each(|server| rights::grant(server, &rights::of("several")));
    let urls = fleet.iter().map(rights::url).collect::<Vec<_>>();
    let connect = || {
        let builder = Locker::builder().nodes(&urls).key_prefix(PREFIX).restart_quarantine(false);
        builder.connect()
    };
    let (locker, other) = (connect().await.unwrap(), connect().await.unwrap());
    // One of them has the queue.
    for server in fleet.iter() {
        rights::grant(server, &without("several", "+get"));
        let guard = take(&locker, "a").await;
        let before = other.stats().contended;
        let waiting = tokio::spawn(other.lock("a").into_future());
        eventually("it is refused", || other.stats().contended > before).await;
        guard.release().await.unwrap();
        soon("its turn", waiting).await.unwrap().unwrap().release().await.unwrap();
        rights::grant(server, &rights::of("several"));
    }
    rights::grant(&fleet[0], &without("several", "+get"));
    take(&locker, "a").await.release().await.unwrap();
    rights::grant(&fleet[2], &without("several", "+evalsha"));
    let said = told(soon("its end", locker.lock("a").into_future()).await);
    assert!(said.contains("user +get") && said.contains("user +evalsha"), "{said}");
}

#[cfg(feature = "inspect")]
#[tokio::test]
async fn looking_at_locks_needs_two_rights_more_and_none_to_write() {
    let (fenced, own) = (rights::of("fenced"), rights::row("looking"));
    let server = server_with(&fenced);
    let locker = locker(&server, LONG).await;
    let guard = take(&locker, "a").await;
    let seen = locker.inspect("a").await.unwrap();
    for right in &own {
        let rest = fenced.iter().chain(&own).filter(|rule| *rule != right);
        rights::grant(&server, &rest.cloned().collect::<Vec<_>>());
        let error = soon("its end", locker.list("*").next()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
        assert_names(&error.to_string(), right);
    }
    let writes = ["+set", "+del", "+pexpire", "+evalsha"];
    let reads = fenced.iter().chain(&own).filter(|rule| !writes.contains(&&***rule));
    rights::grant(&server, &reads.cloned().collect::<Vec<_>>());
    let mut list = locker.list("*");
    assert_eq!(soon("a lock", list.next()).await.unwrap().unwrap().name, b"a");
    assert!(soon("the end", list.next()).await.unwrap().is_none() && list.is_complete());
    let broken = locker.break_lease(&seen).await.unwrap();
    assert!(!broken.is_complete());
    assert_names(&broken.failures[0].reason, "+evalsha");
    rights::grant(&server, &fenced);
    assert!(locker.break_lease(&seen).await.unwrap().is_complete());
    assert!(!exists(&server, "app:a") && exists(&server, "{app:a}:fence"));
    drop(guard);
}
