//! The rights for servers that move, or have replicas.

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::Locker;
use leasehold_resp::Frame;

use super::{LONG, assert_content, assert_names, take, told, warned};
use leasehold_testing::rights::{self, PREFIX};
use leasehold_testing::{Cluster, RedisServer, Sentinels, binary, eventually, soon};

const WITHIN: Duration = Duration::from_millis(1500);

/// What `mode` needs beside `base`, without one of it.
fn without(base: &str, mode: &str, right: &str) -> Vec<String> {
    let own = rights::row(mode).into_iter().filter(|rule| rule != right);
    rights::of(base).into_iter().chain(own).collect()
}

fn with(base: &str, mode: &str) -> Vec<String> {
    without(base, mode, "")
}

fn as_worker(url: &str) -> String {
    url.replace("://", "://worker:pw@")
}

fn grant_all(cluster: &Cluster, rules: &[String]) {
    cluster.nodes().for_each(|node| rights::grant(node, rules));
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_cluster_needs_two_rights_more() {
    let cluster = Cluster::start();
    let all = with("waiting", "cluster");
    grant_all(&cluster, &all);
    let connect = || {
        let builder = Locker::builder().node(as_worker(&cluster.seed_url(3)));
        soon("a locker", builder.key_prefix(PREFIX).ttl(LONG).connect())
    };
    let (one, other) = (connect().await.unwrap(), connect().await.unwrap());
    #[cfg(feature = "groups")]
    one.lock_all(["a", "b", "c", "d"]).await.unwrap().release().await.unwrap();
    let guard = take(&one, "a").await;
    let waiting = tokio::spawn(other.lock("a").into_future());
    eventually("it waits", || other.stats().waiting == 1).await;
    guard.release().await.unwrap();
    let guard = soon("its turn", waiting).await.unwrap().unwrap();
    let (slot, from, to) = cluster.move_of("app:a");
    cluster.begin_migration(slot, from, to);
    cluster.migrate_keys(slot, from, to);
    guard.extend().await.unwrap();
    assert_content(&one);
    assert_content(&other);
    #[cfg(feature = "inspect")]
    {
        let looking = [&all[..], &rights::row("looking")].concat();
        grant_all(&cluster, &looking);
        let mut list = one.list("*");
        while soon("a lock", list.next()).await.unwrap().is_some() {}
        // Before Redis 7 a server names the whole command.
        let names_all = binary::has_at_least((7, 0), (7, 2));
        let right = if names_all { "+cluster|nodes" } else { "+cluster" };
        assert_names(&list.failures()[0].reason, right);
    }

    grant_all(&cluster, &without("waiting", "cluster", "+asking"));
    assert_names(&told(guard.extend().await), "+asking");
    assert_names(&told(one.try_lock("a").await), "+asking");
    assert_names(&told(soon("its end", one.lock("a").into_future()).await), "+asking");

    grant_all(&cluster, &without("waiting", "cluster", "+cluster|slots"));
    assert_names(&told(connect().await), "+cluster|slots");
    // The map goes on by what the nodes say.
    cluster.end_migration(slot, from, to);
    guard.extend().await.unwrap();
    assert_names(&warned(&other).await, "+cluster|slots");
    guard.release().await.unwrap();
}

/// Makes `watcher`, with the password `pw`, a user of the Sentinels with these rules alone.
fn grant_at_sentinels(sentinels: &Sentinels, rules: &[String]) {
    let rules = rules.iter().map(String::as_str);
    let command = ["ACL", "SETUSER", "watcher", "reset", "on", ">pw"].into_iter().chain(rules);
    let command: Vec<&str> = command.collect();
    for sentinel in 0..sentinels.sentinel_ports().len() {
        assert_eq!(sentinels.ask(sentinel, &command), Frame::Simple("OK".into()));
    }
}

#[cfg(feature = "sentinel")]
#[tokio::test]
async fn sentinels_need_rights_of_their_own() {
    let sentinels = Sentinels::start();
    let servers = |rules: &[String]| {
        sentinels.servers().iter().for_each(|server| rights::grant(server, rules));
    };
    servers(&rights::of("several"));
    let connect = || {
        let builder = Locker::builder().node(as_worker(&sentinels.url()));
        let builder = builder.sentinel_credentials(Some("watcher"), "pw").ttl(LONG);
        soon("a locker", builder.key_prefix(PREFIX).connect())
    };
    let all = rights::row("sentinels");
    // Where users may use all channels at first, it takes them away: it is no right.
    for right in all.iter().filter(|rule| *rule != "resetchannels") {
        let rest: Vec<_> = all.iter().filter(|rule| *rule != right).cloned().collect();
        grant_at_sentinels(&sentinels, &rest);
        if ["+sentinel|master", "+sentinel|get-master-addr-by-name"].contains(&right.as_str()) {
            assert_names(&told(connect().await), right);
            continue;
        }
        // They are asked now and then anyway.
        let locker = connect().await.unwrap();
        assert_names(&warned(&locker).await, right);
        take(&locker, "a").await.release().await.unwrap();
    }
    grant_at_sentinels(&sentinels, &all);
    let locker = connect().await.unwrap();
    let first = sentinels.master_port();
    for right in rights::row("several") {
        servers(&rights::of("several").into_iter().filter(|it| *it != right).collect::<Vec<_>>());
        assert_names(&told(connect().await), &right);
    }
    servers(&rights::of("several"));
    take(&locker, "a").await.release().await.unwrap();
    sentinels.failover().await;
    let second = sentinels.wait_for_master_other_than(first).await;
    // Until then, a lock may be taken at the old master, which forgets it.
    let address = format!("127.0.0.1:{second}");
    eventually("it is followed", || locker.stats().servers[0].server == address).await;
    take(&locker, "a").await.release().await.unwrap();
    assert_eq!(locker.warnings(), [] as [String; 0]);

    // Of a right that is taken away later, too.
    grant_at_sentinels(&sentinels, &all[..2]);
    let said = warned(&locker).await;
    assert!(said.contains("; grant the user "), "{said}");
}

#[tokio::test]
#[cfg(feature = "replicas")]
async fn replicas_need_one_right_more() {
    let master = RedisServer::start();
    let port = master.port().to_string();
    let prompt = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0");
    let _replica = prompt.arg("--replicaof").arg("127.0.0.1").arg(port).start();
    eventually("it follows", || master.cli_text(&["WAIT", "1", "50"]) == "1").await;
    rights::grant(&master, &with("unfenced", "replicas"));
    let builder = Locker::builder().node(rights::url(&master)).key_prefix(PREFIX);
    let builder = builder.command_timeout(Duration::from_secs(10)).ttl(LONG);
    let locker = builder.connect().await.unwrap();
    let guard = locker.try_lock("a").unfenced().await.unwrap();
    assert_eq!(guard.replicated(1, WITHIN).await.unwrap(), 1);
    rights::grant(&master, &rights::of("unfenced"));
    assert_names(&told(guard.replicated(1, WITHIN).await.map(drop)), "+wait");
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
}
