//! Locks on a master under real Sentinels, while a replica is promoted.

#![allow(clippy::disallowed_methods, reason = "what real servers do takes real time")]
#![allow(clippy::print_stdout, reason = "a long run says what it saw")]

mod history;
mod open;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Builder, ErrorKind, Guard, Locker};
use leasehold_resp::Frame;
use leasehold_testing::scripted::{Command, greeting};
use leasehold_testing::sentinel::{Passwords, SERVICE};
use leasehold_testing::{
    Action, Fault, FaultProxy, RedisServer, ScriptedServer, Sentinels, eventually, soon,
};
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(1);

fn locker(sentinels: &Sentinels) -> Builder {
    Locker::builder().node(sentinels.url()).ttl(TTL)
}

async fn follows(locker: &Locker, master: u16) {
    let address = format!("127.0.0.1:{master}");
    eventually("it is followed", || locker.stats().servers[0].server == address).await;
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("it is granted", locker.lock(name).into_future()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_go_on_with_the_server_that_was_promoted() {
    let mut sentinels = Sentinels::start();
    let locker = soon("it connects", locker(&sentinels).connect()).await.unwrap();
    let first = sentinels.master_port();
    let held = take(&locker, "held").await;
    let token = held.fence();
    let mut passed = take(&locker, "passed").await;
    for _ in 0..2 {
        let next = tokio::spawn(locker.lock("passed").into_future());
        eventually("it waits", || locker.stats().waiting == 1).await;
        passed.release().await.unwrap();
        passed = soon("it is handed over", next).await.unwrap().unwrap();
    }
    eventually("the replicas have it", || {
        sentinels.server(first).cli_text(&["WAIT", "2", "100"]) == "2"
    })
    .await;

    // Nothing is lost in a failover that is asked for: the lease goes on.
    sentinels.failover().await;
    let second = sentinels.wait_for_master_other_than(first).await;
    // Until the Sentinels have told it, the server that was the master takes writes that are lost.
    follows(&locker, second).await;
    held.extend().await.unwrap();
    assert_eq!(sentinels.server(second).cli_text(&["EXISTS", "held"]), "1");
    // What was given back lately is given back once more: not a lease that was passed on.
    passed.extend().await.unwrap();
    passed.release().await.unwrap();
    held.release().await.unwrap();
    assert_eq!(sentinels.server(second).cli_text(&["EXISTS", "held"]), "0");
    assert!(take(&locker, "held").await.fence() > token);

    // One that is killed is followed too.
    let dropped = take(&locker, "dropped").await;
    eventually("the replicas are linked again", || {
        sentinels.server(second).cli_text(&["WAIT", "2", "100"]) == "2"
    })
    .await;
    sentinels.kill_master();
    drop(dropped);
    let third = sentinels.wait_for_master_other_than(second).await;
    let guard = take(&locker, "new").await;
    assert_eq!(sentinels.server(third).cli_text(&["EXISTS", "new"]), "1");
    guard.release().await.unwrap();
    eventually("what was owed to the one that is gone is paid", || {
        sentinels.server(third).cli_text(&["EXISTS", "dropped"]) == "0"
    })
    .await;
}

/// Tasks that take locks all the while, and say how often they were granted one.
struct Load {
    granted: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Load {
    fn start(locker: &Locker) -> Self {
        let granted = Arc::<AtomicU64>::default();
        let mut tasks = JoinSet::new();
        for task in 0..8 {
            let (locker, granted) = (locker.clone(), Arc::clone(&granted));
            tasks.spawn(async move {
                loop {
                    let request = locker.lock(format!("load:{}", task % 4)).ttl(SHORT);
                    let Ok(guard) = request.wait_at_most(SHORT).await else { continue };
                    granted.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let _ = guard.release().await;
                }
            });
        }
        Self { granted, _tasks: tasks }
    }

    async fn goes_on(&self) {
        let before = self.granted.load(Ordering::Relaxed);
        eventually("locks are granted", || self.granted.load(Ordering::Relaxed) > before + 50)
            .await;
    }
}

/// Servers and Sentinels have passwords of their own; a Sentinel is away, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_a_failover_costs_no_more_than_itself() {
    let passwords =
        Passwords { servers: Some("forservers".into()), sentinels: Some("forthem".into()) };
    let mut sentinels = Sentinels::start_with(passwords);
    let wrong = locker(&sentinels).sentinel_credentials(None, "forservers");
    for builder in [locker(&sentinels), wrong] {
        let error = soon("it is refused", builder.connect()).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
        let text = error.to_string();
        assert!(text.contains("sentinel_credentials") && !text.contains("forservers"), "{error}");
    }
    let builder = locker(&sentinels).sentinel_credentials(None, "forthem");
    let locker = soon("it connects", builder.connect()).await.unwrap();
    let load = Load::start(&locker);
    load.goes_on().await;
    sentinels.kill_sentinel(0);
    let first = sentinels.kill_master();
    let second = sentinels.wait_for_master_other_than(first).await;
    follows(&locker, second).await;
    load.goes_on().await;
    // The one that was killed comes back as a replica, unless a slow master loses its role to it. The master alone
    // is followed.
    sentinels.restart(first);
    let master = sentinels.wait_until_all_follow_one().await;
    load.goes_on().await;
    follows(&locker, master).await;
}

#[tokio::test]
async fn a_service_that_no_sentinel_knows_and_sentinels_that_are_none_are_named() {
    let sentinels = Sentinels::start();
    let unknown = sentinels.url().replace(&format!("/{SERVICE}"), "/another");
    let connecting = Locker::builder().node(unknown).connect();
    let error = soon("it is refused", connecting).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    assert!(error.to_string().contains("No such master"), "{error}");

    let server = sentinels.server(sentinels.master_port()).address();
    let url = format!("redis-sentinel://{server}/{SERVICE}");
    let connecting = Locker::builder().node(url).connect();
    let error = soon("it is refused", connecting).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    assert!(error.to_string().contains("SENTINEL MASTER"), "{error}");

    let nobody = "redis-sentinel://127.0.0.1:1,127.0.0.1:2/main";
    let connecting = Locker::builder().node(nobody).connect();
    let error = soon("it ends", connecting).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(["127.0.0.1:1", "127.0.0.1:2"].iter().all(|it| error.to_string().contains(it)));
}

/// One that was cut off still names the master of before; so does one that announces a promotion
/// too early name a server that is none yet.
#[tokio::test]
async fn the_newest_word_counts_and_only_a_master_is_believed() {
    let sentinels = Sentinels::start();
    let master = sentinels.master_port();
    let mut ports = sentinels.servers().iter().map(leasehold_testing::RedisServer::port);
    let replica = ports.find(|port| *port != master).unwrap();
    let stale = sentinel_that_names(replica, 0);
    let early = sentinel_that_names(replica, 1_000_000);
    let real = sentinels.sentinel_ports();
    let url = |ports: &[u16]| {
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis-sentinel://{}/{SERVICE}", hosts.join(","))
    };
    let builder = Locker::builder().node(url(&[stale.port(), real[0], real[1]])).ttl(TTL);
    let locker = soon("it connects", builder.connect()).await.unwrap();
    follows(&locker, master).await;
    take(&locker, "a").await.release().await.unwrap();

    let builder = Locker::builder().node(url(&[early.port()])).ttl(TTL);
    let error = soon("it is refused", builder.connect()).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let said = error.to_string();
    assert!(said.contains("though Sentinels name it") && !said.contains("give"), "{said}");
}

/// The others are enough for now.
#[tokio::test]
async fn a_sentinel_that_refuses_the_login_is_warned_of() {
    let server = RedisServer::start();
    let good = [(); 2].map(|()| sentinel_that_names(server.port(), 1));
    let bad = ScriptedServer::start(|_| Action::error("NOAUTH Authentication required."));
    let [one, other] = good.each_ref().map(ScriptedServer::address);
    let url = format!("redis-sentinel://{one},{other},{}/{SERVICE}", bad.address());
    let locker = soon("it connects", Locker::connect(&url)).await.unwrap();
    let said = format!("{}: NOAUTH", bad.address());
    eventually("it is warned of", || locker.warnings().iter().any(|it| it.starts_with(&said)))
        .await;
    take(&locker, "a").await.release().await.unwrap();
}

/// Each time that one is connected to, all others are asked, too.
#[tokio::test]
async fn a_sentinel_that_ends_what_it_accepts_is_left_alone_more_and_more() {
    let server = RedisServer::start();
    let good = sentinel_that_names(server.port(), 1);
    let bad = ScriptedServer::start(|command| match command.name().as_str() {
        "SUBSCRIBE" => Action::Close,
        _ => greeting(command).unwrap(),
    });
    let url = format!("redis-sentinel://{},{}/{SERVICE}", good.address(), bad.address());
    let locker = soon("it connects", Locker::connect(&url)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // From the eighth on there is half a second or more between two.
    assert!(bad.accepted() < 20, "{} connections", bad.accepted());
    take(&locker, "a").await.release().await.unwrap();
}

/// It tells of one thing after the other, and does not answer.
#[tokio::test]
async fn a_sentinel_that_talks_and_does_not_answer_keeps_nobody() {
    let sentinel = ScriptedServer::start(|command| match command.name().as_str() {
        "SENTINEL" | "SUBSCRIBE" => Action::Silence,
        _ => greeting(command).unwrap(),
    });
    let url = format!("redis-sentinel://{}/{SERVICE}", sentinel.address());
    let builder = Locker::builder().node(url).command_timeout(Duration::from_millis(200));
    let talking = async {
        loop {
            for connection in 0..sentinel.accepted() {
                sentinel.try_send(connection, b">3\r\n+message\r\n+x\r\n+y\r\n");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let connected = tokio::select! {
        connected = soon("it ends", builder.connect()) => connected,
        () = talking => unreachable!("it has no end"),
    };
    assert_eq!(connected.map(|_| ()).unwrap_err().kind(), ErrorKind::Unavailable);
}

/// Each try would be a whole handshake with a server that may be loading its data.
#[tokio::test]
async fn a_successor_that_is_not_ready_is_met_ever_more_rarely() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let (sentinel, named) = sentinel_that_changes(old.port());
    let url = format!("redis-sentinel://{}/{SERVICE}", sentinel.address());
    let locker = soon("it connects", Locker::builder().node(url).ttl(TTL).connect()).await.unwrap();
    // It says that it is a master, and nothing else of itself.
    let rights = ["-info", "+info|replication", "+info|commandstats"];
    new.cli(&[&["ACL", "SETUSER", "default"], &rights[..]].concat());
    *named.lock().unwrap() = (new.port(), 2);
    let is_question = |command: &Command| command.is(&["SENTINEL", "MASTER"]);
    let asked = || sentinel.commands().iter().filter(|command| is_question(command)).count();
    let before = asked();
    eventually("the Sentinel is asked", || asked() >= before + 30).await;
    let stats = new.cli_text(&["INFO", "commandstats"]);
    let met = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hello:calls="));
    let met = met.and_then(|met| met.split(',').next()).unwrap().parse::<u32>().unwrap();
    assert!(met < 20, "{met} times");
    new.cli(&["ACL", "SETUSER", "default", "+info"]);
    follows(&locker, new.port()).await;
}

/// The master hangs while it is dialled: its successor is dialled at once, and what comes of the dial is nothing.
#[tokio::test]
async fn a_master_that_hangs_keeps_nobody_from_its_successor() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let (sentinel, named) = sentinel_that_changes(old.port());
    let url = format!("redis-sentinel://{}/{SERVICE}", sentinel.address());
    let builder = Locker::builder().node(url).ttl(TTL).connect_timeout(Duration::from_secs(600));
    let locker = soon("it connects", builder.connect()).await.unwrap();
    let held = take(&locker, "held").await;
    old.stop();
    assert!(soon("it ends", held.release()).await.is_err());
    eventually("it is left", || !locker.stats().servers[0].connected).await;
    *named.lock().unwrap() = (new.port(), 2);
    take(&locker, "a").await.release().await.unwrap();
    old.cont();
    // Behind all that it was asked meanwhile.
    assert_eq!(old.cli_text(&["PING"]), "PONG");
    let guard = take(&locker, "b").await;
    assert_eq!(new.cli_text(&["EXISTS", "b"]), "1");
    guard.release().await.unwrap();
}

/// Three round trips take longer than a server may be silent that hangs.
#[tokio::test]
async fn a_successor_that_is_far_away_is_followed() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let proxy = FaultProxy::start(new.address());
    proxy.set_both(Fault::Delay(Duration::from_millis(100)));
    let (sentinel, named) = sentinel_that_changes(old.port());
    let url = format!("redis-sentinel://{}/{SERVICE}", sentinel.address());
    let locker = soon("it connects", Locker::builder().node(url).ttl(TTL).connect()).await.unwrap();
    let port = proxy.url().rsplit(':').next().unwrap().parse().unwrap();
    *named.lock().unwrap() = (port, 2);
    follows(&locker, port).await;
}

/// The Sentinel never names it: the master refuses connections, and its replica is promoted while it is looked at.
#[tokio::test]
async fn the_successor_of_a_master_that_has_ended_is_found_before_a_sentinel_names_it() {
    let (mut old, new) = (RedisServer::start(), RedisServer::start());
    let (port, replica) = (old.port(), new.port());
    assert_eq!(new.cli_text(&["REPLICAOF", "127.0.0.1", &port.to_string()]), "OK");
    let is_down = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_down);
    let sentinel = ScriptedServer::start(move |command| {
        if command.is(&["SENTINEL", "REPLICAS"]) {
            Action::Reply(Frame::Array([fields(replica, 1, "slave")].into()))
        } else if command.is(&["SENTINEL", "MASTER"]) && told.load(Ordering::Relaxed) {
            Action::Reply(fields(port, 1, "master,s_down"))
        } else {
            as_a_sentinel(command, (port, 1))
        }
    });
    let url = format!("redis-sentinel://{}/{SERVICE}", sentinel.address());
    let locker = soon("it connects", Locker::builder().node(url).ttl(TTL).connect()).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    old.kill();
    is_down.store(true, Ordering::Relaxed);
    let asked = || sentinel.commands().len();
    let before = asked();
    eventually("the Sentinel is asked", || asked() >= before + 30).await;
    assert_eq!(new.cli_text(&["REPLICAOF", "NO", "ONE"]), "OK");
    follows(&locker, replica).await;
    take(&locker, "a").await.release().await.unwrap();
}

/// Others reach it, and are granted locks there.
#[tokio::test]
async fn a_successor_that_does_not_answer_is_followed_and_the_old_master_is_left() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let (sentinel, named) = sentinel_that_changes(old.port());
    let url = format!("redis-sentinel://{}/{SERVICE}", sentinel.address());
    let locker = soon("it connects", Locker::builder().node(url).ttl(TTL).connect()).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    new.stop();
    *named.lock().unwrap() = (new.port(), 2);
    follows(&locker, new.port()).await;
    let error = soon("it is refused", locker.try_lock("a").into_future()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(old.cli_text(&["EXISTS", "a"]), "0");
    new.cont();
    let guard = take(&locker, "a").await;
    assert_eq!(new.cli_text(&["EXISTS", "a"]), "1");
    guard.release().await.unwrap();
}

/// It takes longer than the Sentinel, which tells of nothing, is left alone.
#[cfg(feature = "credentials")]
#[tokio::test]
async fn a_login_at_a_sentinel_is_renewed_by_a_provider_that_takes_its_time() {
    let server = RedisServer::start();
    let port = server.port();
    let sentinel = ScriptedServer::start(move |command| match command.name().as_str() {
        "HELLO" => Action::error("ERR unknown command 'HELLO'"),
        "AUTH" => Action::ok(),
        _ => as_a_sentinel(command, (port, 1)),
    });
    let asked = Arc::<AtomicU64>::default();
    let provide = move |_| {
        let is_first = asked.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            let takes = Duration::from_millis(if is_first { 0 } else { 2500 });
            tokio::time::sleep(takes).await;
            let credentials = leasehold::Credentials::new("app", "secret");
            Ok::<_, &str>(credentials.valid_for(Duration::from_millis(500)))
        }
    };
    let url = format!("redis-sentinel://{}/{SERVICE}", sentinel.address());
    let builder = Locker::builder().node(url).connect_timeout(Duration::from_secs(20));
    let builder = builder.sentinel_credentials_from(provide);
    let _locker = soon("it connects", builder.connect()).await.unwrap();
    eventually("it logs in again", || sentinel.accepted() >= 3).await;
}

#[tokio::test]
async fn where_the_runtime_has_ended_the_master_is_named_and_no_sentinel() {
    let server = RedisServer::start();
    let sentinel = sentinel_that_names(server.port(), 1);
    let url = format!("redis-sentinel://{}/{SERVICE}", sentinel.address());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let connecting = runtime.spawn(async move { Locker::connect(&url).await });
    let locker = soon("it connects", connecting).await.unwrap().unwrap();
    tokio::task::spawn_blocking(move || drop(runtime)).await.unwrap();
    let refused = soon("an error", locker.lock("a").into_future()).await;
    let error = refused.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(&format!("{}: the tokio runtime", server.address())), "{error}");
}

/// It hangs, and its answer and a dial may take long.
#[tokio::test]
async fn a_sentinel_is_left_with_the_last_handle() {
    let (server, hangs) = (RedisServer::start(), Arc::new(AtomicBool::new(false)));
    let (port, told) = (server.port(), Arc::clone(&hangs));
    let sentinel = ScriptedServer::start(move |command| match told.load(Ordering::SeqCst) {
        true => Action::Silence,
        false => as_a_sentinel(command, (port, 1)),
    });
    let proxy = FaultProxy::start(sentinel.address());
    let url = format!("redis-sentinel://{}/{SERVICE}", proxy.address());
    let an_hour = Duration::from_secs(3600);
    let builder = Locker::builder().node(url).command_timeout(an_hour).connect_timeout(an_hour);
    let locker = soon("it connects", builder.connect()).await.unwrap();
    hangs.store(true, Ordering::SeqCst);
    let is_question = |command: &Command| command.is(&["SENTINEL", "MASTER"]);
    let asked = || sentinel.commands().iter().filter(|command| is_question(command)).count();
    let before = asked();
    eventually("it is asked in vain", || asked() > before).await;
    drop(locker);
    eventually("it is hung up on", || proxy.open() == 0).await;
}

fn sentinel_that_names(port: u16, epoch: u32) -> ScriptedServer {
    sentinel_of(move || (port, epoch))
}

/// It names this port first, and then what it is told.
fn sentinel_that_changes(port: u16) -> (ScriptedServer, Arc<Mutex<(u16, u32)>>) {
    let named = Arc::new(Mutex::new((port, 1)));
    let told = Arc::clone(&named);
    (sentinel_of(move || *told.lock().unwrap()), named)
}

/// It names the master with the port and the epoch that it is told.
fn sentinel_of(named: impl Fn() -> (u16, u32) + Send + 'static) -> ScriptedServer {
    ScriptedServer::start(move |command| as_a_sentinel(command, named()))
}

fn as_a_sentinel(command: &Command, (port, epoch): (u16, u32)) -> Action {
    match command.name().as_str() {
        "SENTINEL" if command.is(&["SENTINEL", "MASTER", SERVICE]) => {
            Action::Reply(fields(port, epoch, "master"))
        }
        "SENTINEL" => Action::Reply(texts(["127.0.0.1".to_owned(), port.to_string()])),
        "SUBSCRIBE" => Action::Silence,
        _ => greeting(command).unwrap(),
    }
}

fn fields(port: u16, epoch: u32, flags: &str) -> Frame {
    let fields = [("ip", "127.0.0.1".to_owned()), ("port", port.to_string())];
    let fields = fields.into_iter().chain([("config-epoch", epoch.to_string())]);
    let fields = fields.chain([("flags", flags.to_owned())]);
    texts(fields.flat_map(|(name, value)| [name.to_owned(), value]))
}

fn texts(texts: impl IntoIterator<Item = String>) -> Frame {
    Frame::Array(texts.into_iter().map(|text| Frame::Bulk(text.into())).collect())
}

/// As of containers, whose ports others reach as other ports.
#[tokio::test]
async fn a_master_and_its_successor_are_reached_where_the_caller_says() {
    let service = Sentinels::start();
    let proxies: Vec<(u16, FaultProxy)> = service
        .servers()
        .iter()
        .map(|server| (server.port(), FaultProxy::start(server.address())))
        .collect();
    let ports: Vec<(u16, u16)> = proxies.iter().map(|(port, it)| (*port, it.port())).collect();
    let builder = Locker::builder().node(service.url()).map_address(move |host, port| {
        let found = ports.iter().find(|(named, _)| *named == port);
        found.map(|(_, proxy)| (host.to_owned(), *proxy))
    });
    let locker = soon("it connects", builder.connect()).await.unwrap();
    let accepted = |port: u16| {
        let (_, proxy) = proxies.iter().find(|(of, _)| *of == port).unwrap();
        proxy.accepted()
    };
    let first = service.master_port();
    soon("a lock", locker.lock("a").into_future()).await.unwrap().release().await.unwrap();
    assert!(accepted(first) > 0);
    service.failover().await;
    let second = service.wait_for_master_other_than(first).await;
    // The old master may grant for as long as the Sentinels have not told it.
    eventually("the successor is reached", || accepted(second) > 0).await;
    let lock = async {
        while let Err(error) = locker.lock("b").await.map(drop) {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    };
    soon("a lock of the successor", lock).await;
}
