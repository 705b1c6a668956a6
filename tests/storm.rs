//! A server that all its clients come back to at once, over TLS: each handshake costs it more than a thousand commands. A
//! program of its own, so that nothing runs beside it.

use std::time::Duration;

use leasehold::{Locker, Tls};
use leasehold_testing::{Authority, RedisServer, eventually};
use tokio::task::JoinSet;

const LOCKERS: u64 = 1_000;
/// Far below the server's own time for all of them: by default it is 2 s, for a crowd of some thousands.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// Handshakes are made at once in the beginning: a crowd that grows slowly.
const AT_ONCE: usize = 4;
/// Of a locker, at most, to be back: a handshake that is thrown away is made again.
const HANDSHAKES_PER_LOCKER: f64 = 1.2;

/// One descriptor for each connection, and some beside them; the server raises its own limit.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let wanted = maximum.map_or(4 * LOCKERS, |maximum| maximum.min(4 * LOCKERS));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
}

fn figure(server: &RedisServer, section: &str, name: &str) -> u64 {
    let info = server.cli_text(&["INFO", section]);
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name}: {info}")).trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_comes_back_over_tls_makes_few_handshakes_twice() {
    raise_limit();
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let mut server = RedisServer::builder().tls(&identity).start();
    let (mut lockers, mut connecting) = (Vec::new(), JoinSet::new());
    for _ in 0..LOCKERS {
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
    let is_back = || figure(&server, "clients", "connected_clients") >= LOCKERS;
    eventually("all are connected", is_back).await;
    let serves = |locker: &Locker| locker.stats().servers.iter().all(|server| server.connected);
    eventually("all are served", || lockers.iter().all(serves)).await;
    #[expect(clippy::cast_precision_loss, reason = "they are some thousands")]
    let each = figure(&server, "stats", "total_connections_received") as f64 / LOCKERS as f64;
    assert!(each <= HANDSHAKES_PER_LOCKER, "{each} handshakes for each");
}
