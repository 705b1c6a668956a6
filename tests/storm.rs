//! A server that all its clients come back to at once, over TLS: each handshake costs it more than a thousand commands. A
//! program of its own, so that nothing runs beside it. `LEASEHOLD_STORM` says how many there are: by default 1,000.

#![allow(clippy::disallowed_methods, reason = "times are told, and nothing depends on them")]
#![allow(clippy::print_stdout, reason = "what a crowd needed is told")]

use std::fmt::Debug;
use std::str::FromStr;
use std::time::{Duration, Instant};

use leasehold::{Locker, Tls};
use leasehold_testing::{Authority, RedisServer};
use tokio::task::JoinSet;

fn lockers() -> u32 {
    let told = std::env::var("LEASEHOLD_STORM");
    told.map_or(1_000, |told| told.parse().expect("LEASEHOLD_STORM is a number"))
}

/// Far below the server's own time for all of them: by default it is 2 s, for a crowd of some thousands.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// Handshakes are made at once in the beginning: a crowd that grows slowly.
const AT_ONCE: usize = 4;
/// When the test gives up, for each locker.
const STUCK_EACH: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Of a locker, at most, to be back: a handshake that is thrown away is made again.
const HANDSHAKES_PER_LOCKER: f64 = 1.2;

/// One descriptor for each connection, and some beside them; the server raises its own limit.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let wanted = 4 * u64::from(lockers());
    let wanted = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
}

fn figure<T: FromStr<Err: Debug>>(server: &RedisServer, section: &str, name: &str) -> T {
    let info = server.cli_text(&["INFO", section]);
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name}: {info}")).trim().parse().unwrap()
}

/// Seconds of CPU that the server has used since it started.
fn cpu(server: &RedisServer) -> f64 {
    let told = ["used_cpu_sys", "used_cpu_user"].map(|name| figure::<f64>(server, "cpu", name));
    told.iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_comes_back_over_tls_makes_few_handshakes_twice() {
    raise_limit();
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let count = lockers();
    let mut server = RedisServer::builder()
        .tls(&identity)
        .arg("--maxclients")
        .arg(format!("{}", 2 * count))
        .start();
    let (mut lockers, mut connecting) = (Vec::new(), JoinSet::new());
    for _ in 0..count {
        let tls = Tls::new().ca_pem(authority.pem());
        let builder = Locker::builder().node(server.tls_url("127.0.0.1")).tls(tls);
        connecting.spawn(builder.connect_timeout(CONNECT_TIMEOUT).connect());
        if connecting.len() >= AT_ONCE {
            lockers.push(connecting.join_next().await.unwrap().unwrap().unwrap());
        }
    }
    while let Some(connected) = connecting.join_next().await {
        lockers.push(connected.unwrap().unwrap());
    }
    server.restart();
    let began = Instant::now();
    let serves = |locker: &Locker| locker.stats().servers.iter().all(|server| server.connected);
    // What they say comes first: each question to the server is a handshake, too.
    let is_back = || {
        lockers.iter().all(serves)
            && figure::<u32>(&server, "clients", "connected_clients") >= count
    };
    while !is_back() {
        assert!(began.elapsed() < STUCK_EACH * count, "not all are served again");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let each = figure::<f64>(&server, "stats", "total_connections_received") / f64::from(count);
    // What it would need for as many handshakes as there are lockers.
    let own = cpu(&server) / each;
    println!(
        "{count} lockers: served after {:.1?}, {each:.2} handshakes each; server {own:.1} s",
        began.elapsed()
    );
    assert!(each <= HANDSHAKES_PER_LOCKER, "{each} handshakes for each");
}
