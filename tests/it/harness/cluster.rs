//! A real cluster forms, moves slots, fails over, and leaves nothing behind.

use super::server::is_alive;
use leasehold_testing::{Client, Cluster, RedisServer};

/// In slot 12,739.
const KEY: &str = "123456789";
const SLOT: u16 = 12_739;

fn error_of(cluster: &Cluster, node: usize, command: &[&str]) -> String {
    let reply = cluster[node].cli(command);
    String::from_utf8_lossy(reply.error().unwrap_or_else(|| panic!("{reply:?}"))).into_owned()
}

#[test]
fn a_cluster_starts_whole_and_ends_with_its_owner() {
    let cluster = Cluster::start();
    for (slot, master) in [(0, 0), (5460, 0), (5461, 1), (10_922, 1), (10_923, 2), (16_383, 2)] {
        assert_eq!(cluster.master_of(slot), master);
        assert_eq!(cluster.replica_of(master), master + 3);
    }
    assert_eq!(cluster[2].cli_text(&["SET", KEY, "value"]), "OK");
    let moved = format!("MOVED {SLOT} {}", cluster[2].address());
    for other in [0, 1, 3, 4, 5] {
        assert_eq!(error_of(&cluster, other, &["GET", KEY]), moved);
    }
    let first = format!("redis-cluster://{}", cluster[0].address());
    assert_eq!(cluster.seed_url(1), first);
    assert!(cluster.url().starts_with(&format!("{first},{},", cluster[1].address())));

    let left: Vec<_> = cluster.nodes().map(|n| (n.pid(), n.directory().to_owned())).collect();
    assert!(left.len() == 6 && left.iter().all(|(pid, path)| is_alive(*pid) && path.exists()));
    drop(cluster);
    assert!(left.iter().all(|(pid, path)| !is_alive(*pid) && !path.exists()));
}

#[tokio::test]
async fn slots_move_step_by_step_and_by_the_administrators_tool() {
    let mut cluster = Cluster::start();
    cluster[2].cli(&["SET", KEY, "value"]);
    cluster.begin_migration(SLOT, 2, 0);
    assert_eq!(cluster[2].cli_text(&["GET", KEY]), "value");
    assert_eq!(cluster.migrate_keys(SLOT, 2, 0), 1);
    let ask = format!("ASK {SLOT} {}", cluster[0].address());
    assert_eq!(error_of(&cluster, 2, &["GET", KEY]), ask);
    let mut client = cluster[0].client();
    client.text(&["ASKING"]);
    assert_eq!(client.text(&["GET", KEY]), "value");
    cluster.end_migration(SLOT, 2, 0);
    assert_eq!(cluster.master_of(SLOT), 0);
    assert_eq!(cluster[0].cli_text(&["GET", KEY]), "value");
    let moved = format!("MOVED {SLOT} {}", cluster[0].address());
    assert_eq!(error_of(&cluster, 2, &["GET", KEY]), moved);
    assert_eq!(cluster.wait_until_failed_over(SLOT).await, 0);

    let new = cluster.add_node().await;
    assert_eq!(new, 6);
    cluster.migrate_slots(1, new, 3).await;
    assert_eq!(cluster.wait_until_failed_over(5461).await, new);
    assert_eq!(cluster.wait_until_failed_over(5464).await, 1);

    let empty = cluster.add_node().await;
    cluster.forget(empty);
    assert!(!cluster[0].cli_text(&["CLUSTER", "NODES"]).contains(cluster.id(empty)));
}

#[tokio::test]
async fn a_replica_takes_over_from_a_dead_master_and_connections_can_be_cut() {
    let password = RedisServer::builder();
    let password = password.arg("--requirepass").arg("secret1").arg("--masterauth").arg("secret1");
    let mut cluster = Cluster::start_as(&password);
    let first = cluster[0].address();
    assert_eq!(cluster.seed_url(1), format!("redis-cluster://:secret1@{first}"));
    let mut client: Client = cluster[0].client();
    cluster.kill_all_connections();
    assert!(client.try_call(&["PING"]).is_err());

    let replica = cluster.replica_of(2);
    cluster.kill(2);
    assert_eq!(cluster.wait_until_failed_over(SLOT).await, replica);
    cluster.restart(2);
    leasehold_testing::eventually("it follows", || {
        cluster[2].cli_text(&["CLUSTER", "NODES"]).contains("myself,slave")
    })
    .await;
    assert_eq!(cluster.master_of(SLOT), replica);
}
