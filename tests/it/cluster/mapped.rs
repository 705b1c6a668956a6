//! Nodes that announce addresses which cannot be reached from here.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use leasehold_testing::{FaultProxy, RedisServer};

use super::*;

/// Of a network that no machine has (RFC 5737).
const ANNOUNCED: &str = "192.0.2.1";

fn reached(port: u16) -> (String, u16) {
    ("127.0.0.1".to_owned(), port)
}

#[tokio::test]
async fn a_node_is_reached_where_the_caller_says_and_not_where_it_says() {
    let node = alone(Some(ANNOUNCED)).await;
    let url = node.url().replace("redis://", "redis-cluster://");
    let of = || Locker::builder().node(&url).connect_timeout(Duration::from_millis(500));
    let builder = of();
    let error = soon("an error", builder.connect()).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains(ANNOUNCED), "{error}");
    let mapped = || of().map_address(|host, port| (host == ANNOUNCED).then(|| reached(port)));
    let locker = soon("it connects", mapped().connect()).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    // It is dialled there again.
    node.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    take(&locker, "a").await.release().await.unwrap();
    #[cfg(feature = "examine")]
    {
        let examination = soon("an examination", mapped().examine()).await.unwrap();
        assert_eq!(examination.servers[0].server, node.address().to_string());
    }
}

/// A node that redirects names the others as they announce themselves, too.
#[tokio::test]
async fn redirects_lead_to_where_the_caller_says() {
    let cluster = Cluster::start();
    let proxies: Vec<(u16, FaultProxy)> =
        cluster.nodes().map(|node| (node.port(), FaultProxy::start(node.address()))).collect();
    let ports: Vec<(u16, u16)> = proxies.iter().map(|(port, it)| (*port, it.port())).collect();
    let builder = Locker::builder().node(cluster.seed_url(3)).ttl(TTL);
    let builder = builder.map_address(move |host, port| {
        let found = ports.iter().find(|(named, _)| *named == port);
        found.map(|(_, proxy)| (host.to_owned(), *proxy))
    });
    let locker = soon("it connects", builder.connect()).await.unwrap();
    for name in spread(&cluster) {
        take(&locker, &name).await.release().await.unwrap();
    }
    let (slot, from, to) = cluster.move_of("lock:moved");
    cluster.begin_migration(slot, from, to);
    cluster.end_migration(slot, from, to);
    take(&locker, "lock:moved").await.release().await.unwrap();
    assert!(proxies[..3].iter().all(|(_, proxy)| proxy.accepted() > 0));
    // Nobody is connected but through them.
    let open: u64 = proxies.iter().map(|(_, proxy)| proxy.open()).sum();
    let of_lockers = |node: &RedisServer| {
        node.cli_text(&["CLIENT", "LIST"])
            .lines()
            .filter(|it| it.contains("name=leasehold"))
            .count()
    };
    let connected = || cluster.nodes().map(of_lockers).sum::<usize>() as u64;
    assert!(open > 0 && connected() <= open, "{open}");
}

async fn alone(announced: Option<&str>) -> RedisServer {
    let mut builder = RedisServer::builder().arg("--cluster-enabled").arg("yes");
    if let Some(host) = announced {
        builder = builder.arg("--cluster-announce-ip").arg(host);
    }
    let node = builder.start();
    node.complete_slots(0..=16_383).await;
    node
}

/// It is called as the caller calls it, and not as it is reached.
#[tokio::test]
async fn a_node_that_does_not_know_its_host_is_reached_where_the_caller_says() {
    let node = alone(None).await;
    let url = format!("redis-cluster://{ANNOUNCED}:{}", node.port());
    let called: Arc<Mutex<Vec<String>>> = Arc::default();
    let mapped = || {
        let called = Arc::clone(&called);
        let map = move |host: &str, port| {
            called.lock().unwrap().push(host.to_owned());
            (host == ANNOUNCED).then(|| reached(port))
        };
        Locker::builder().node(&url).map_address(map)
    };
    let locker = soon("it connects", mapped().connect()).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    #[cfg(feature = "examine")]
    {
        let examination = soon("an examination", mapped().examine()).await.unwrap();
        assert_eq!(examination.servers[0].server, node.address().to_string());
    }
    assert!(called.lock().unwrap().iter().all(|host| host == ANNOUNCED), "{called:?}");
}

#[tokio::test]
async fn seeds_are_asked_where_the_caller_says_once_all_known_nodes_are_gone() {
    const SEED: &str = "192.0.2.2";
    const NEXT: &str = "192.0.2.3";
    let node = alone(Some(ANNOUNCED)).await;
    let is_gone = Arc::new(AtomicBool::new(false));
    let map = {
        let is_gone = Arc::clone(&is_gone);
        move |host: &str, port| {
            let port = if host == ANNOUNCED && is_gone.load(SeqCst) { 1 } else { port };
            host.starts_with("192.0.2.").then(|| reached(port))
        }
    };
    let url = format!("redis-cluster://{SEED}:{}", node.port());
    let locker = soon("it connects", Locker::builder().node(url).map_address(map).connect());
    let locker = locker.await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    node.cli(&["CONFIG", "SET", "cluster-announce-ip", NEXT]);
    // Valkey 8.0 goes on saying the old address until a slot has changed.
    node.cli(&["CLUSTER", "DELSLOTS", "0"]);
    node.complete_slots(0..=0).await;
    is_gone.store(true, SeqCst);
    node.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let waiting = locker.lock("a").wait_at_most(TTL);
    soon("it is granted", waiting.into_future()).await.unwrap().release().await.unwrap();
}
