//! On real servers.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::endpoint::{Credentials, Endpoint, Login as Source, Target};
use crate::error::{FailureKind, Report, ServerReport, Vote};
use crate::extra::QUEUE;
use crate::fingerprint::rank;
use crate::machine::{FENCED, Kind, LIMITS, LeaseId, Options, PLAIN, Refusal, Settings};
use crate::names::Names;
use crate::net::tls::Client;
use crate::policy::fitness::{OF_ONE, Rules};
use crate::policy::{Bounds, End, LeaseState, Quorum, Retry, Setback, Term, Wait};
use crate::stats::{BreakerState, Event};
use crate::support::certificates::Authority;
use crate::support::{RedisServer, eventually, soon};

pub(crate) fn start(servers: &[RedisServer]) -> Arc<Shared> {
    start_with(servers, Arc::new(Meter::new(None)))
}

/// The same, which counts there.
pub(crate) fn start_with(servers: &[RedisServer], meter: Arc<Meter>) -> Arc<Shared> {
    let endpoints = servers.iter().map(|server| endpoint(&server.url()));
    connect_with(endpoints, None, meter, TIMES)
}

pub(crate) fn endpoint(url: &str) -> Endpoint {
    match Target::parse(url).unwrap() {
        Target::Server(endpoint) => endpoint,
        _ => panic!("{url} is no single server"),
    }
}

#[cfg(feature = "tls")]
fn tls() -> Option<Client> {
    Some(crate::net::tls::Tls::new().danger_accept_any_certificate().client().unwrap())
}

#[cfg(not(feature = "tls"))]
fn tls() -> Option<Client> {
    None
}

pub(super) fn connect(
    endpoints: impl IntoIterator<Item = Endpoint>,
    restart_quarantine: Option<Duration>,
) -> Arc<Shared> {
    connect_with(endpoints, restart_quarantine, Arc::new(Meter::new(None)), TIMES)
}

/// How long a command may take, and a dial with its handshake.
pub(super) const TIMES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(5)];

pub(super) fn connect_with(
    endpoints: impl IntoIterator<Item = Endpoint>,
    restart_quarantine: Option<Duration>,
    meter: Arc<Meter>,
    times: [Duration; 2],
) -> Arc<Shared> {
    let (machine, servers) = parts(endpoints, restart_quarantine, times);
    let (shared, task) = new(machine, servers, meter);
    tokio::spawn(task);
    shared
}

pub(super) fn parts(
    endpoints: impl IntoIterator<Item = Endpoint>,
    restart_quarantine: Option<Duration>,
    [timeout, connect_timeout]: [Duration; 2],
) -> (Machine, Servers) {
    let endpoints: Box<[Endpoint]> = endpoints.into_iter().collect();
    let settings = Settings {
        quorum: Quorum::new(endpoints.len(), None).unwrap(),
        timeout,
        connect_timeout,
        rules: restart_quarantine.map(|longest| Rules {
            restart_quarantine: Some(longest),
            strict: false,
            in_cluster: false,
            by_sentinels: false,
        }),
        info_if_allowed: &OF_ONE,
        limits: LIMITS,
        nodes_of: None,
        flight_max: Duration::from_secs(60),
        scripts: crate::scripts::of_locks(&[]),
        scriptless: None,
        waits: &QUEUE,
        rank,
        random: clock::random_bits,
        owner_id: clock::owner_id,
        wall_micros: clock::wall_micros,
    };
    let addresses = endpoints.iter().map(|endpoint| endpoint.address.to_string());
    let machine = Machine::new(addresses, settings, clock::now());
    let (credentials_within, dead_after) = (Duration::from_secs(5), Duration::from_secs(4));
    let tls = tls();
    let servers = Servers {
        #[cfg(feature = "cluster")]
        nodes: None,
        endpoints,
        #[cfg(feature = "sentinel")]
        service: None,
        #[cfg(any(feature = "cluster", feature = "sentinel"))]
        mapped: crate::endpoint::Mapped::default(),
        connector: None,
        tls,
        fingerprint: None,
        connect_timeout,
        credentials_within,
        dead_after,
    };
    (machine, servers)
}

pub(super) async fn take(shared: &Arc<Shared>, kind: &'static Kind) -> LeaseId {
    ask(shared, kind, Wait::Forever).await.unwrap()
}

async fn ask(shared: &Arc<Shared>, kind: &'static Kind, wait: Wait) -> Result<LeaseId, Refusal> {
    let id = begin(shared, kind, wait);
    poll_fn(|context| shared.look(|machine| machine.poll_acquire(id, context))).await?;
    Ok(id)
}

fn begin(shared: &Arc<Shared>, kind: &'static Kind, wait: Wait) -> LeaseId {
    begin_as(shared, kind, wait, "a")
}

fn begin_for(shared: &Arc<Shared>, name: &str) -> LeaseId {
    begin_as(shared, &FENCED, Wait::Forever, name)
}

fn begin_as(shared: &Arc<Shared>, kind: &'static Kind, wait: Wait, name: &str) -> LeaseId {
    let options = Options {
        kind,
        names: Names::new(b"", name.as_bytes()).unwrap(),
        term: Term::DEFAULT,
        bounds: Bounds::default(),
        wait,
        retry: Retry::default(),
        is_renewed: true,
        is_fair: false,
        words: Box::default(),
        said: b":billing"[..].into(),
    };
    shared.with(|machine, now| machine.acquire(options, now))
}

fn setback(refusal: Refusal) -> (Setback, bool) {
    let Refusal::Setback { setback, is_over } = refusal else { panic!("{refusal:?}") };
    (setback, is_over)
}

/// What a request that does not wait is told of each server.
pub(super) async fn report(shared: &Arc<Shared>, kind: &'static Kind) -> Report {
    let id = begin(shared, kind, Wait::Never);
    let ended = poll_fn(|context| shared.look(|machine| machine.poll_acquire(id, context))).await;
    assert!(ended.is_err(), "{ended:?}");
    let report = shared.report(id);
    shared.with(|machine, now| machine.forget(id, now));
    report
}

/// Waits until this number of servers serves.
pub(super) async fn serving(shared: &Arc<Shared>, count: usize) {
    eventually("servers serve", || shared.look(|machine| machine.serving()) == count).await;
}

pub(super) async fn give_back(shared: &Arc<Shared>, id: LeaseId) -> End {
    shared.with(|machine, now| machine.release(id, now));
    let end = poll_fn(|context| shared.look(|machine| machine.poll_release(id, context))).await;
    shared.with(|machine, now| machine.forget(id, now));
    end
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_of_two_processes_take_one_lock_in_turn() {
    for count in [1, 3] {
        for kind in [&FENCED, &PLAIN] {
            let servers: Vec<_> = (0..count).map(|_| RedisServer::start()).collect();
            let processes = [start(&servers), start(&servers)];
            let (inside, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let tasks = (0..8).map(|number: usize| {
                let shared = processes[number % 2].clone();
                let (inside, done) = (inside.clone(), done.clone());
                tokio::spawn(async move {
                    for _ in 0..10 {
                        let id = take(&shared, kind).await;
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        let end = give_back(&shared, id).await;
                        assert!(matches!(end, End::Released | End::HandedOver), "{end:?}");
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            assert_eq!(done.load(Ordering::SeqCst), 80);
        }
    }
}

#[tokio::test]
async fn a_lock_is_held_while_connections_end_and_come_back() {
    let servers = [RedisServer::start()];
    let shared = start(&servers);
    let id = take(&shared, &FENCED).await;
    servers[0].cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let is_held = |shared: &Arc<Shared>| {
        shared.look(|machine| machine.state(id).is_some_and(LeaseState::is_held))
    };
    assert!(is_held(&shared));
    assert_eq!(give_back(&shared, id).await, End::Unconfirmed);
    // What could not be given back then is given back once the server is reached again.
    while shared.look(|machine| machine.len()) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let again = take(&shared, &FENCED).await;
    assert!(is_held(&shared) || shared.look(|machine| machine.state(again).is_some()));
    assert_eq!(give_back(&shared, again).await, End::Released);
}

/// Takes the lock at a server and gives it back.
async fn serve(endpoint: Endpoint) {
    let shared = connect([endpoint], None);
    let id = take(&shared, &FENCED).await;
    assert_eq!(give_back(&shared, id).await, End::Released);
}

#[tokio::test]
async fn servers_are_met_over_unix_sockets_and_tls_and_by_name_with_passwords_and_databases() {
    let authority = Authority::new();
    let server = RedisServer::builder()
        .unix_socket()
        .tls(&authority.issue(&["localhost"]))
        .arg("--requirepass")
        .arg("secret")
        .start();
    let password = |mut endpoint: Endpoint| {
        endpoint.login = Some(Source::Fixed(Credentials::password("secret")));
        endpoint
    };
    serve(password(endpoint(&server.unix_url()))).await;
    #[cfg(feature = "tls")]
    serve(password(endpoint(&server.tls_url("localhost")))).await;
    serve(Endpoint { database: 3, ..password(endpoint(&server.url())) }).await;
    let by_name = format!("redis://localhost:{}", server.port());
    serve(password(endpoint(&by_name))).await;

    let shared = connect([endpoint(&server.url().replace("secret", "guess"))], None);
    let is_refused = |shared: &Arc<Shared>| {
        shared.look(|machine| matches!(machine.fault(0), Some(Fault::Refused { .. })))
    };
    eventually("a refusal", || is_refused(&shared)).await;
    let refusal = ask(&shared, &FENCED, Wait::Forever).await.unwrap_err();
    assert_eq!(setback(refusal), (Setback::Hopeless, false));
}

#[tokio::test]
async fn scripts_that_are_flushed_are_sent_again() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let shared = start(&servers);
    serving(&shared, 3).await;
    for kind in [&FENCED, &PLAIN] {
        let flush = || servers.iter().for_each(|server| drop(server.cli(&["SCRIPT", "FLUSH"])));
        flush();
        let id = take(&shared, kind).await;
        flush();
        assert_eq!(give_back(&shared, id).await, End::Released);
    }
}

#[tokio::test]
async fn servers_that_have_just_started_refuse_and_a_waiting_request_waits_that_out() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let guard = Some(Duration::from_secs(5));
    let shared = connect(servers.iter().map(|server| endpoint(&server.url())), guard);
    serving(&shared, 3).await;
    let refusal = ask(&shared, &FENCED, Wait::Never).await.unwrap_err();
    assert!(matches!(setback(refusal), (Setback::Quarantined(_), false)), "{refusal:?}");
    let id = take(&shared, &FENCED).await;
    assert_eq!(give_back(&shared, id).await, End::Released);
}

#[tokio::test]
async fn a_master_that_is_demoted_is_left_and_asked_again_once_it_is_promoted() {
    let server = RedisServer::start();
    let shared = connect([endpoint(&server.url())], Some(Duration::ZERO));
    serving(&shared, 1).await;
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let refusal = ask(&shared, &FENCED, Wait::Never).await.unwrap_err();
    assert_eq!(setback(refusal), (Setback::Failing, false));
    let is_unfit = |shared: &Arc<Shared>| {
        shared.look(|machine| matches!(machine.fault(0), Some(Fault::Unfit(_))))
    };
    eventually("it is left", || is_unfit(&shared)).await;
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    let id = take(&shared, &FENCED).await;
    assert_eq!(give_back(&shared, id).await, End::Released);
}

#[tokio::test]
async fn a_request_that_came_to_nothing_is_told_what_each_server_said() {
    let mut servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let holder = start(&servers);
    serving(&holder, 3).await;
    take(&holder, &FENCED).await;
    servers[2].kill();
    let shared = start(&servers);
    serving(&shared, 2).await;
    let report = report(&shared, &FENCED).await;
    for (server, answer) in servers.iter().zip(report.servers()) {
        assert_eq!(answer.server, server.address().to_string());
    }
    // One refusal is enough, beside a server that is down.
    let is_held = |answer: &&ServerReport| matches!(answer.vote, Vote::Held(Some(_)));
    let held = report.servers().iter().find(is_held).unwrap_or_else(|| panic!("{report}"));
    let holder = report.holder().unwrap();
    assert_eq!(holder.label.as_deref(), Some("billing"));
    assert!(holder.remaining.is_some() && held.round_trip.is_some(), "{report}");
    let down = &report.servers()[2];
    assert!(down.to_string().contains("refused"), "{report}");
    assert!(report.has_failure(FailureKind::Unavailable) && down.round_trip.is_none());
}

#[tokio::test]
async fn a_request_that_waited_in_vain_is_told_who_holds_the_lock() {
    for count in [1, 3] {
        let servers: Vec<_> = (0..count).map(|_| RedisServer::start()).collect();
        let (holder, shared) = (start(&servers), start(&servers));
        take(&holder, &FENCED).await;
        let id = begin(&shared, &FENCED, Wait::AtMost(Duration::from_millis(500)));
        let ended = poll_fn(|context| shared.look(|machine| machine.poll_acquire(id, context)));
        let refusal = ended.await.unwrap_err();
        assert!(
            matches!(setback(refusal), (Setback::Held(_) | Setback::Watched(_), true)),
            "{refusal:?}"
        );
        let report = shared.report(id);
        let label = report.holder().and_then(|holder| holder.label.clone());
        assert_eq!(label.as_deref(), Some("billing"), "{report}");
    }
}

#[tokio::test]
async fn all_processes_wait_in_one_queue_in_whatever_order_they_are_given_the_servers() {
    for count in [1, 3] {
        let servers: Vec<_> = (0..count).map(|_| RedisServer::start()).collect();
        let holder = start(&servers);
        serving(&holder, count).await;
        let id = take(&holder, &FENCED).await;
        let waiters = [
            start(&servers),
            connect(servers.iter().rev().map(|server| endpoint(&server.url())), None),
        ];
        for shared in &waiters {
            serving(shared, count).await;
        }
        let waits = waiters.iter().map(|shared| {
            let shared = shared.clone();
            tokio::spawn(async move {
                let id = take(&shared, &FENCED).await;
                give_back(&shared, id).await
            })
        });
        let waits: Vec<_> = waits.collect();
        // The first ticket and the last, and of each owner its ticket and its entry.
        let has_both = |server: &RedisServer| server.cli_text(&["HLEN", "{a}:queue"]) == "6";
        eventually("a queue", || servers.iter().filter(|server| has_both(server)).count() == 1)
            .await;
        assert_eq!(give_back(&holder, id).await, End::Released);
        for ended in waits {
            assert_eq!(ended.await.unwrap(), End::Released);
        }
    }
}

/// The texts are those of `net/reason.rs`.
#[tokio::test]
async fn what_is_wrong_with_a_server_is_told_by_its_party_at_fault() {
    let server = RedisServer::builder().arg("--requirepass").arg("secret").start();
    let open = Endpoint { login: None, ..endpoint(&server.url()) };
    let shared = connect([open], None);
    let refused = report(&shared, &FENCED).await;
    assert!(refused.has_failure(FailureKind::Auth), "{refused}");
    assert!(refused.to_string().contains("the server refused HELLO: NOAUTH"), "{refused}");

    let young = RedisServer::start();
    let twice = [endpoint(&young.url()), endpoint(&young.url())];
    let shared = connect(twice, Some(Duration::from_secs(5)));
    serving(&shared, 1).await;
    let is_twice = |shared: &Arc<Shared>| {
        let fault = |link| shared.look(|machine| machine.fault(link).cloned());
        (0..2).any(|link| matches!(fault(link), Some(Fault::SameAs(_))))
    };
    eventually("it is found out", || is_twice(&shared)).await;
    let refused = report(&shared, &FENCED).await;
    assert!(refused.has_failure(FailureKind::Misuse), "{refused}");
    assert!(refused.has_failure(FailureKind::RestartQuarantine), "{refused}");
    assert!(refused.to_string().contains("the same server as"), "{refused}");

    let other = RedisServer::start();
    other.cli(&["SET", "a", "x"]);
    other.cli(&["SADD", "{a}:fence", "x"]);
    other.cli(&["DEL", "a"]);
    let shared = connect([endpoint(&other.url())], None);
    let refused = report(&shared, &FENCED).await;
    assert!(refused.has_failure(FailureKind::Misuse), "{refused}");
}

#[tokio::test]
async fn a_shutdown_waits_for_servers_that_come_back_and_says_what_is_left() {
    let server = RedisServer::start();
    let shared = start(std::slice::from_ref(&server));
    let id = take(&shared, &FENCED).await;
    let waiting = begin(&shared, &FENCED, Wait::Forever);
    server.stop();
    let report = shared.shut_down(Duration::from_millis(50)).await;
    let [left] = &report.unreleased[..] else { panic!("{report:?}") };
    assert!(left.name == "a" && !left.reason.is_empty(), "{report:?}");
    assert!(report.released.is_empty(), "{report:?}");
    let refused = poll_fn(|context| shared.look(|machine| machine.poll_acquire(waiting, context)));
    assert_eq!(refused.await, Err(Refusal::ShutDown));
    server.cont();
    let report = shared.shut_down(Duration::from_secs(3600)).await;
    assert!(report.released == ["a"] && report.unreleased.is_empty(), "{report:?}");
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
    assert_eq!(shared.look(|machine| machine.state(id)).and_then(LeaseState::loss), {
        Some(crate::policy::Loss::ShutDown)
    });
}

#[tokio::test]
async fn what_happens_is_counted_and_told_outside_of_the_mutex() {
    let server = RedisServer::start();
    let driver: Arc<std::sync::OnceLock<Arc<Shared>>> = Arc::default();
    let (seen, known) = (Arc::new(Mutex::new(Vec::new())), driver.clone());
    let told = seen.clone();
    let observer = move |event: &Event<'_>| {
        // A user's code may call the locker.
        let serving = known.get().map(|shared| shared.look(|machine| machine.serving()));
        assert!(serving.is_some() && event.name() == b"a");
        told.lock().unwrap().push(format!("{event:?}").split(' ').next().unwrap().to_owned());
    };
    let meter = Arc::new(Meter::new(Some(Arc::new(observer))));
    let shared = start_with(std::slice::from_ref(&server), meter.clone());
    assert!(driver.set(shared.clone()).is_ok());
    let id = take(&shared, &FENCED).await;
    shared.look(|machine| machine.is_announced(id));
    let waiting = begin(&shared, &FENCED, Wait::Forever);
    let has_seen = |what: &str| seen.lock().unwrap().iter().any(|it| it == what);
    eventually("it waits", || has_seen("Contended")).await;
    let stats = meter.snapshot(Vec::new());
    assert_eq!((stats.held, stats.waiting, stats.lost()), (1, 1, 0));
    server.cli(&["DEL", "a"]);
    shared.with(|machine, now| machine.extend(id, now));
    eventually("it is lost", || has_seen("Lost")).await;
    poll_fn(|context| shared.look(|machine| machine.poll_acquire(waiting, context))).await.unwrap();
    let stats = meter.snapshot(Vec::new());
    assert_eq!((stats.held, stats.waiting, stats.lost()), (1, 0, 1));
    assert!(stats.attempts >= 3 && stats.contended >= 1, "{stats}");
}

#[test]
fn a_driver_whose_runtime_has_ended_says_so_and_still_gives_back() {
    let server = RedisServer::start();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let first = runtime();
    let (shared, held, waiting) = first.block_on(async {
        let shared = start(std::slice::from_ref(&server));
        let held: Vec<_> =
            (0..20).map(|number| begin_for(&shared, &format!("n{number}"))).collect();
        for id in &held {
            poll_fn(|context| shared.look(|machine| machine.poll_acquire(*id, context)))
                .await
                .unwrap();
        }
        let waiting = begin_for(&shared, "n0");
        (shared, held, waiting)
    });
    drop(first);
    runtime().block_on(async {
        for id in [waiting, begin_for(&shared, "new")] {
            let refusal = shared.wait(|machine, context| machine.poll_acquire(id, context)).await;
            assert_eq!(refusal, Err(Refusal::Undriven));
            let report = shared.report(id);
            assert!(report.has_failure(FailureKind::Misuse), "{report}");
            assert!(report.to_string().contains("runtime"), "{report}");
            shared.with(|machine, now| machine.forget(id, now));
        }
        let round = shared.with(|machine, now| machine.extend(held[0], now));
        let extended = shared
            .wait(|machine, context| machine.poll_extended(held[0], round, &mut None, context));
        assert!(!extended.await);
        assert_eq!(give_back(&shared, held[0]).await, End::Unconfirmed);
        for id in &held[1..] {
            shared.with(|machine, now| machine.forget(*id, now));
        }
        let names: Vec<_> = (0..20).map(|number| format!("n{number}")).collect();
        let command: Vec<_> =
            ["EXISTS"].into_iter().chain(names.iter().map(|it| &it[..])).collect();
        eventually("all are free", || server.cli_text(&command) == "0").await;
    });
}

#[test]
fn a_limit_is_a_limit_where_nobody_drives_the_runtime_of_the_driver() {
    let server = RedisServer::start();
    let undriven = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (shared, held) = undriven.block_on(async {
        let shared = start(std::slice::from_ref(&server));
        let held = take(&shared, &FENCED).await;
        (shared, held)
    });
    let driven = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    driven.block_on(async {
        for wait in [Wait::Never, Wait::AtMost(Duration::from_secs(1))] {
            let id = begin(&shared, &PLAIN, wait);
            let refused = shared.wait(|machine, context| machine.poll_acquire(id, context));
            assert!(soon("its limit", refused).await.is_err());
            let report = shared.report(id);
            assert!(report.has_failure(FailureKind::Unknown), "{report}");
            shared.with(|machine, now| machine.forget(id, now));
        }
        let round = shared.with(|machine, now| machine.extend(held, now));
        let extended =
            shared.wait(|machine, context| machine.poll_extended(held, round, &mut None, context));
        assert!(!soon("an answer", extended).await);
        shared.with(|machine, now| machine.release(held, now));
        let end = shared.wait(|machine, context| machine.poll_release(held, context));
        assert_eq!(soon("an end", end).await, End::Unconfirmed);
    });
    undriven.block_on(eventually("it is given back", || server.cli_text(&["EXISTS", "a"]) == "0"));
}

#[tokio::test]
async fn a_server_that_is_away_is_left_out_and_shows_in_the_stats() {
    let mut servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let shared = start(&servers);
    serving(&shared, 3).await;
    servers[1].kill();
    while shared.stats_of_servers()[1].breaker == BreakerState::Closed {
        let id = take(&shared, &FENCED).await;
        give_back(&shared, id).await;
    }
    let stats = shared.stats_of_servers();
    assert!(!stats[1].connected && stats[0].connected);
    assert_eq!(stats[0].breaker, BreakerState::Closed);
    assert_eq!(stats[1].server, servers[1].address().to_string());
}
