//! States that exist only in the midst of a change.

use std::time::Duration;

use leasehold::{ErrorKind, Locker};
use leasehold_resp::Frame;
use tokio::runtime::Builder;

use super::{TTL, connect, spread, take};
use leasehold_testing::scripted::greeting;
use leasehold_testing::{
    Action, Cluster, RedisServer, STUCK, ScriptedServer, binary, eventually, ports, soon,
};

/// The lock is with a node that does not serve its slot yet, and that tells nobody of changes: it
/// has to be asked.
#[tokio::test]
async fn a_waiter_for_a_lock_whose_slot_is_moving_goes_on_asking() {
    let cluster = Cluster::start();
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let name = "{moving}:0";
    let (slot, from, to) = cluster.move_of(name);
    let guard = take(&one, name).await;
    let waiting = tokio::spawn(other.lock(name).into_future());
    // It is counted as a waiter, and the node that the slot moves from tells it.
    let is_counted = || cluster[from].cli_text(&["EXISTS", "{moving}:0:queue"]) == "1";
    eventually("it waits", is_counted).await;
    cluster.begin_migration(slot, from, to);
    cluster.migrate_keys(slot, from, to);
    let before = other.stats().contended;
    eventually("it goes on asking", || other.stats().contended > before + 20).await;
    guard.release().await.unwrap();
    soon("its turn", waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// One node has given a slot away to another, which has not heard of it yet: each redirects
/// callers to the other.
#[tokio::test]
async fn nodes_that_disagree_for_a_while_are_waited_for() {
    if binary::lacks(binary::is_redis(), "nodes that go on disagreeing about a slot") {
        return;
    }
    let cluster = Cluster::start();
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let name = "{moving}:0";
    let (slot, from, to) = cluster.move_of(name);
    let guard = take(&one, name).await;
    cluster.begin_migration(slot, from, to);
    cluster.migrate_keys(slot, from, to);
    let give = ["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", cluster.id(to)];
    assert_eq!(cluster[from].cli_text(&give), "OK");

    let error = other.try_lock(name).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let before = other.stats().attempts;
    let waiting = tokio::spawn(other.lock(name).into_future());
    eventually("it tries again", || other.stats().attempts > before + 1).await;
    drop(guard);
    cluster.end_migration(slot, from, to);
    soon("its turn", waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// What was owed to a master that froze, and whose place another took, is given back there. The
/// frozen one's connection does not end here, so that this is no help.
#[tokio::test]
async fn a_release_that_a_frozen_master_has_not_answered_is_carried_to_the_next() {
    let mut cluster = Cluster::start();
    let builder = Locker::builder().node(cluster.seed_url(3)).ttl(2 * TTL);
    let patient = builder.command_timeout(Duration::from_secs(15));
    let locker = soon("it connects", patient.connect()).await.unwrap();
    let [name, elsewhere] = [0, 1].map(|node| {
        let mut names = (0..).map(|number| format!("lock:{number}"));
        names.find(|name| cluster.master_of(cluster.slot(name)) == node).unwrap()
    });
    let guard = take(&locker, &name).await;
    let mut side = cluster[cluster.replica_of(0)].client();
    side.text(&["READONLY"]);
    eventually("the replica has it", || side.text(&["EXISTS", &name]) == "1").await;
    cluster.stop(0);
    drop(guard);
    cluster.wait_until_failed_over(cluster.slot(&name)).await;
    // Has the map asked for.
    let slot = cluster.slot(&elsewhere);
    cluster.begin_migration(slot, 1, 2);
    cluster.end_migration(slot, 1, 2);
    take(&locker, &elsewhere).await.release().await.unwrap();
    eventually("it is given back", || !cluster.holding(&name)).await;
}

/// A node of a Cluster of its own, which needs no others.
fn lone_node(arguments: &[&str]) -> RedisServer {
    let mut builder = RedisServer::builder().arg("--cluster-enabled").arg("yes");
    for argument in arguments {
        builder = builder.arg(argument);
    }
    builder.start()
}

fn as_cluster(node: &RedisServer, database: u32) -> String {
    node.url().replace("redis://", "redis-cluster://") + &format!("/{database}")
}

#[tokio::test]
async fn a_node_without_slots_is_said_to_have_none() {
    let node = lone_node(&[]);
    let error = soon("an error", Locker::connect(&as_cluster(&node, 0))).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("has no slots"),
        "{error}"
    );
    let locker = soon("it connects", Locker::connect(&node.url())).await.unwrap();
    let error = soon("an error", locker.try_lock("a").into_future()).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("no master"),
        "{error}"
    );
}

#[tokio::test]
async fn a_database_of_a_cluster_is_used_or_refused_by_name() {
    let has_databases = binary::has_at_least((u32::MAX, 0), (9, 0));
    let node = lone_node(if has_databases { &["--cluster-databases", "2"] } else { &[] });
    node.complete_slots(0..=16_383).await;
    let mut client = node.client();
    let refused = soon("an error", Locker::connect(&as_cluster(&node, 7))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misuse, "{refused}");
    assert!(refused.to_string().contains("the database in the URL"), "{refused}");
    if binary::lacks(has_databases, "databases of a Cluster") {
        return;
    }
    let locker = soon("it connects", Locker::connect(&as_cluster(&node, 1))).await.unwrap();
    let guard = take(&locker, "a").await;
    assert_eq!(client.text(&["EXISTS", "a"]), "0");
    client.text(&["SELECT", "1"]);
    assert_eq!(client.text(&["EXISTS", "a"]), "1");
    guard.release().await.unwrap();
    assert_eq!(client.text(&["EXISTS", "a"]), "0");
}

/// Waited for one after the other, each would cost all the time that connecting may take.
#[tokio::test]
async fn nodes_that_never_answer_keep_nobody_from_one_that_does() {
    let cluster = Cluster::start();
    let (_hung, first) = ports::listen_async();
    let (_too, second) = ports::listen_async();
    let url = format!("redis-cluster://{first},{second},{}", cluster[0].address());
    let connecting = Locker::builder().node(url).connect_timeout(STUCK).connect();
    let locker = soon("it connects", connecting).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
}

/// As a master that Redis 6.2 has demoted: it answers HELLO, and nothing from SCRIPT LOAD on. A caller that waits
/// for it until there is no time left to connect does not connect here at all.
#[tokio::test]
async fn a_node_that_holds_up_the_scripts_is_passed_by() {
    let mut is_held_up = false;
    let demoted = ScriptedServer::start(move |command| {
        is_held_up |= command.is(&["SCRIPT", "LOAD"]);
        if is_held_up { Action::Silence } else { greeting(command).unwrap_or_else(Action::ok) }
    });
    let cluster = Cluster::start();
    let url = format!("redis-cluster://{},{}", demoted.address(), cluster[0].address());
    let builder = Locker::builder().node(url).ttl(TTL).connect_timeout(Duration::from_secs(3600));
    let locker = soon("it connects", builder.connect()).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    assert!(demoted.commands().iter().any(|command| command.is(&["SCRIPT", "LOAD"])));
}

/// The seed is a replica, which is not fit for locks and serves no slot: there is no connection to it for leases.
#[tokio::test]
async fn where_all_masters_are_gone_the_seeds_are_asked() {
    let mut cluster = Cluster::start();
    let replicas = [0, 1, 2].map(|master| cluster.replica_of(master));
    // A node names a replica once that has heard of a write.
    for name in spread(&cluster) {
        cluster[cluster.master_of(cluster.slot(&name))].cli_text(&["SET", &name, "", "PX", "1"]);
    }
    let is_named = |range: &Frame| matches!(range, Frame::Array(range) if range.len() == 4);
    let are_named = || {
        let slots = cluster[replicas[0]].cli(&["CLUSTER", "SLOTS"]);
        matches!(slots, Frame::Array(ranges) if ranges.iter().all(is_named))
    };
    eventually("all replicas are named", are_named).await;
    let url = format!("redis-cluster://{}", cluster[replicas[0]].address());
    let builder = Locker::builder().node(url).ttl(TTL).refuse_evicting();
    let locker = soon("it connects", builder.connect()).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    (0..3).for_each(|master| cluster.kill(master));
    for replica in replicas {
        assert_eq!(cluster[replica].cli_text(&["CLUSTER", "FAILOVER", "TAKEOVER"]), "OK");
    }
    take(&locker, "a").await.release().await.unwrap();
    drop(locker);
    let is_left = |at: usize| !cluster[at].cli_text(&["CLIENT", "LIST"]).contains("name=leasehold");
    eventually("it leaves all of them", || replicas.into_iter().all(is_left)).await;
}

/// As after many migrations; each range with its master and two replicas.
#[tokio::test]
async fn a_map_with_a_range_for_each_slot_is_read() {
    let node = ScriptedServer::start(|command| {
        greeting(command).unwrap_or_else(|| {
            if !command.is(&["CLUSTER", "SLOTS"]) {
                return Action::granted(command);
            }
            let node =
                format!("*4\r\n$9\r\n127.0.0.1\r\n:{}\r\n$40\r\n{:040}\r\n*0\r\n", command.port, 1);
            let nodes = node.repeat(3);
            let range = |slot| format!("*5\r\n:{slot}\r\n:{slot}\r\n{nodes}");
            Action::raw(format!("*16384\r\n{}", (0..16_384).map(range).collect::<String>()))
        })
    });
    let url = node.url().replace("redis://", "redis-cluster://");
    let locker = soon("it connects", Locker::connect(&url)).await.unwrap();
    assert_eq!(locker.stats().servers.len(), 1);
    #[cfg(feature = "examine")]
    {
        let examined = Locker::builder().node(url).examine().await.unwrap();
        let serve =
            |finding: &leasehold::examine::Finding| finding.reason == "1 masters serve all slots";
        assert!(examined.findings.iter().any(serve), "{:?}", examined.findings);
    }
}

/// In a Cluster, nodes say it in other words than servers that stand alone.
#[tokio::test]
async fn nodes_that_take_no_more_clients_are_no_mistake_in_the_settings() {
    let cluster = Cluster::of_masters(3);
    let mut clients: Vec<_> = cluster.nodes().map(RedisServer::client).collect();
    for client in &mut clients {
        client.call(&["CONFIG", "SET", "maxclients", "1"]);
    }
    let url = cluster.url();
    let error = soon("it is told", Locker::connect(&url)).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for client in &mut clients {
        client.call(&["CONFIG", "SET", "maxclients", "100"]);
    }
    drop(soon("there is room", Locker::connect(&url)).await.unwrap());
}

#[test]
fn a_server_that_a_call_from_another_runtime_was_sent_to_is_connected_to_on_the_lockers_own() {
    let cluster = Cluster::start();
    let own = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let locker = own.block_on(connect(&cluster));
    // The first call is sent on to a server that the locker has not met.
    let master = cluster.master_of(cluster.slot("a"));
    own.block_on(cluster.promote_replica_of(master));
    // It has no I/O.
    let other = Builder::new_current_thread().enable_time().build().unwrap();
    let guard = other.block_on(take(&locker, "a"));
    drop(other);
    own.block_on(guard.release()).unwrap();
    drop(own.block_on(take(&locker, "a")));
}

/// Each kind of name is one that the nodes do not have: `?`, and none.
#[tokio::test]
async fn nodes_without_a_name_are_found_by_their_addresses() {
    if binary::lacks(binary::is_seven(), "a choice of what nodes are called by") {
        return;
    }
    let cluster = Cluster::start();
    for (kind, told) in [("hostname", "?"), ("unknown-endpoint", "")] {
        for node in cluster.nodes() {
            node.cli(&["CONFIG", "SET", "cluster-preferred-endpoint-type", kind]);
        }
        let Frame::Array(ranges) = cluster[0].cli(&["CLUSTER", "SLOTS"]) else { panic!() };
        let Frame::Array(range) = &ranges[0] else { panic!() };
        let Frame::Array(master) = &range[2] else { panic!() };
        let host = master[0].as_bytes().map(|host| String::from_utf8_lossy(host).into_owned());
        assert_eq!(host.unwrap_or_default(), told);
        let locker = connect(&cluster).await;
        for number in 0..12 {
            let name = format!("name{number}");
            take(&locker, &name).await.release().await.unwrap();
        }
    }
}
