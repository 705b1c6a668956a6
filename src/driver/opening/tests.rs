//! Names with several addresses, and servers that are slow, far or away.

use std::net::TcpListener;
use std::sync::Arc;

use tokio::io::AsyncReadExt;

use super::*;
use crate::driver::Shared;
use crate::driver::tests::{
    TIMES, connect, connect_with, endpoint, give_back, report, serving, take,
};
use crate::machine::{FENCED, LeaseId};
use crate::net::transport::names;
use crate::policy::End;
use crate::stats::Meter;
use crate::support::{Action, FaultProxy, RedisServer, ScriptedServer, eventually, ports, soon};
use crate::support::{Fault as Harm, scripted::greeting};

const AN_HOUR: Duration = Duration::from_secs(3600);

/// A driver with this time for a command, and to connect.
fn connect_within(url: &str, times: [Duration; 2]) -> Arc<Shared> {
    connect_with([endpoint(url)], None, Arc::new(Meter::new(None)), times)
}

/// A driver that has an hour to connect to this name.
fn connect_to(name: &str) -> Arc<Shared> {
    connect_within(&format!("redis://{name}:1"), [TIMES[0], AN_HOUR])
}

async fn took(shared: &Arc<Shared>, server: &RedisServer) -> LeaseId {
    let id = soon("a lock", take(shared, &FENCED)).await;
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "1", "another server has granted it");
    id
}

/// A lock is taken there, and given back.
async fn leads_to(name: &str, server: &RedisServer) {
    let shared = connect_to(name);
    let id = took(&shared, server).await;
    assert_eq!(give_back(&shared, id).await, End::Released);
}

/// Why there is no connection, as a request is told that does not wait.
async fn in_vain(shared: &Arc<Shared>) -> String {
    let is_in_vain = || shared.look(|machine| machine.fault(0).is_some());
    eventually("it is dialled in vain", is_in_vain).await;
    soon("an answer", report(shared, &FENCED)).await.to_string()
}

#[tokio::test]
async fn a_replica_at_the_first_address_of_a_name_is_passed_over() {
    let (replica, master) = (RedisServer::start(), RedisServer::start());
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    names::give("driver.replicated", vec![replica.address(), master.address()]);
    for _ in 0..10 {
        leads_to("driver.replicated", &master).await;
    }
    // The master is dialled first by now, and becomes a replica under a driver that is connected.
    let shared = connect_to("driver.replicated");
    serving(&shared, 1).await;
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    master.cli(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()]);
    let id = took(&shared, &replica).await;
    assert_eq!(give_back(&shared, id).await, End::Released);
}

#[tokio::test]
async fn a_name_that_leads_to_replicas_alone_is_told_so() {
    let replicas = [RedisServer::start(), RedisServer::start()];
    replicas.iter().for_each(|it| drop(it.cli(&["REPLICAOF", "127.0.0.1", "1"])));
    names::give("driver.no-master", replicas.iter().map(RedisServer::address).collect());
    let shared = connect([endpoint("redis://driver.no-master:1")], Some(Duration::ZERO));
    let why = in_vain(&shared).await;
    assert!(why.contains("replica"), "{why}");
}

/// The kernel of a process that is stopped still accepts connections for it.
#[tokio::test]
async fn a_frozen_server_at_the_first_address_of_a_name_is_passed_over_and_then_dialled_last() {
    let (frozen, server) = (RedisServer::start(), RedisServer::start());
    names::give("driver.frozen", vec![frozen.address(), server.address()]);
    leads_to("driver.frozen", &frozen).await;
    frozen.stop();
    leads_to("driver.frozen", &server).await;
    frozen.cont();
    for _ in 0..10 {
        leads_to("driver.frozen", &server).await;
    }
}

#[tokio::test]
async fn the_next_address_of_the_name_is_tried_where_one_holds_up_the_scripts() {
    let mut silent = None;
    let held_up = ScriptedServer::start(move |command| {
        if command.is(&["SCRIPT", "LOAD"]) {
            silent = Some(command.connection);
        }
        let is_silent = silent == Some(command.connection);
        if is_silent { Action::Silence } else { greeting(command).unwrap() }
    });
    let server = RedisServer::start();
    names::give("driver.held-up", vec![held_up.address(), server.address()]);
    leads_to("driver.held-up", &server).await;
    assert_eq!(held_up.accepted(), 1);

    names::give("driver.one", vec![held_up.address()]);
    let why = in_vain(&connect_to("driver.one")).await;
    assert!(why.contains("answered HELLO but not SCRIPT LOAD"), "{why}");
}

#[tokio::test]
async fn of_a_name_none_of_whose_addresses_serves_each_is_said() {
    let closed = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], ports::free())));
    names::give("driver.closed", closed.to_vec());
    let why = in_vain(&connect_to("driver.closed")).await;
    for address in closed {
        assert!(why.contains(&format!("{address}: Connection refused")), "{why}");
    }
}

/// It accepts connections, and says nothing.
#[tokio::test]
async fn a_dial_that_hangs_ends_where_the_link_leads_elsewhere_and_with_the_last_handle() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let shared = connect_within(&url, [AN_HOUR; 2]);
    let (first, _) = soon("a dial", silent.accept()).await.unwrap();
    shared.with(|machine, now| machine.moved(0, "elsewhere:1".to_owned(), now, now));
    ended(first).await;
    let (second, _) = soon("another dial", silent.accept()).await.unwrap();
    drop(shared);
    ended(second).await;
}

async fn ended(mut connection: tokio::net::TcpStream) {
    let mut said = Vec::new();
    soon("an end", connection.read_to_end(&mut said)).await.unwrap();
}

/// A fleet that comes back at once has each server take long for a handshake.
#[cfg(feature = "tls")]
#[tokio::test]
async fn a_connection_over_tls_that_takes_anothers_place_is_waited_for_longer_than_the_first() {
    use crate::support::{Authority, binary};

    if binary::lacks(binary::has_tls(), "TLS") {
        return;
    }
    let identity = Authority::new().issue(&["127.0.0.1"]);
    let server = RedisServer::builder().tls(&identity).start();
    let at_server = server.tls_url("127.0.0.1");
    let at_server = at_server.strip_prefix("rediss://").unwrap();
    let proxy = FaultProxy::start(at_server.parse().unwrap());
    let connect_timeout = Duration::from_millis(600);
    let url = format!("rediss://{}", proxy.address());
    let shared = connect_within(&url, [TIMES[0], connect_timeout]);
    serving(&shared, 1).await;
    let accepted = proxy.accepted();
    proxy.to_client().set(Harm::Delay(connect_timeout));
    proxy.cut();
    serving(&shared, 0).await;
    serving(&shared, 1).await;
    assert_eq!(proxy.accepted(), accepted + 1, "a handshake was thrown away");
    // One that connects for the first time says sooner that something is wrong.
    let shared = connect_within(&url, [TIMES[0], connect_timeout]);
    let why = in_vain(&shared).await;
    assert!(why.contains("TLS"), "{why}");
}

#[tokio::test]
async fn a_server_that_is_too_far_for_the_command_timeout_is_told_from_one_that_hangs() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    proxy.to_client().set(Harm::Delay(Duration::from_secs(1)));
    let times = [Duration::from_millis(200), TIMES[1]];
    let shared = connect_within(&proxy.url(), times);
    serving(&shared, 1).await;
    let far = report(&shared, &FENCED).await.to_string();
    assert!(far.contains("its greeting took") && far.contains("command_timeout"), "{far}");

    let shared = connect_within(&server.url(), times);
    serving(&shared, 1).await;
    server.stop();
    let report = report(&shared, &FENCED).await.to_string();
    assert!(report.contains("did not reply within") && !report.contains("greeting"), "{report}");
}

#[tokio::test]
async fn a_request_that_does_not_wait_is_told_at_once_why_the_server_was_dialled_in_vain() {
    let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
    let shared = connect_within(&format!("redis://{address}"), [AN_HOUR; 2]);
    in_vain(&shared).await;
    // From here on a dial takes an hour.
    let silent = TcpListener::bind(address).unwrap();
    tokio::task::spawn_blocking(move || silent.accept()).await.unwrap().unwrap();
    let why = in_vain(&shared).await;
    assert!(why.contains("Connection refused"), "{why}");
}
