//! Sentinels watch a real master, replace it, and leave nothing behind.

use super::server::is_alive;
use leasehold_testing::sentinel::{Passwords, SERVICE};
use leasehold_testing::{Client, Sentinels};

#[tokio::test]
async fn sentinels_replace_a_dead_master_and_end_with_their_owner() {
    let mut service = Sentinels::start();
    let ports = service.sentinel_ports();
    let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    assert_eq!(service.url(), format!("redis-sentinel://{}/{SERVICE}", hosts.join(",")));
    let old = service.master_port();
    assert_eq!(old, service.servers()[0].port());
    assert_eq!(service.kill_master(), old);
    let new = service.wait_for_master_other_than(old).await;
    assert!(new != old && service.replication_shows(new, "role:master"));
    service.kill_sentinel(0);
    assert_eq!(service.master_port(), new);

    let pids = service.sentinel_pids();
    let directories: Vec<_> = service.servers().iter().map(|s| s.directory().to_owned()).collect();
    assert!(pids[1..].iter().all(|pid| is_alive(*pid)) && !is_alive(pids[0]));
    drop(service);
    assert!(!pids.into_iter().any(is_alive) && !directories.iter().any(|path| path.exists()));
}

#[tokio::test]
async fn sentinels_and_servers_have_passwords_of_their_own_and_a_failover_can_be_asked_for() {
    let (servers, sentinels) = (Some("secret1".to_owned()), Some("secret2".to_owned()));
    let service = Sentinels::start_with(Passwords { servers, sentinels });
    assert!(service.url().starts_with("redis-sentinel://:secret1@127.0.0.1:"));
    let address = ([127, 0, 0, 1], service.sentinel_ports()[0]).into();
    let mut stranger = Client::connect(address, None).expect("it is up");
    assert!(stranger.call(&["PING"]).error().is_some_and(|text| text.starts_with(b"NOAUTH")));

    let old = service.master_port();
    service.failover().await;
    let new = service.wait_for_master_other_than(old).await;
    service.wait_until_replication_shows(old, &format!("master_port:{new}")).await;
}
