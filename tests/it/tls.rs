//! Locks over TLS on a real server: the same as without, and a server that cannot prove its identity gets no data.

use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locker, Loss, Tls};
use leasehold_testing::{Authority, Identity, RedisServer, eventually, soon};
use tokio::task::JoinSet;

/// So long that no renewal is needed.
const LONG: Duration = Duration::from_secs(3600);

/// A server with a certificate from a CA of its own.
struct Secured {
    authority: Authority,
    server: RedisServer,
}

impl Secured {
    fn start() -> Self {
        let authority = Authority::new();
        let identity = authority.issue(&["localhost", "127.0.0.1", "::1"]);
        let server = RedisServer::builder().bind("::1").tls(&identity).start();
        Self { authority, server }
    }

    /// Trusts the server's CA.
    fn tls(&self) -> Tls {
        Tls::new().ca_pem(self.authority.pem())
    }

    fn url(&self) -> String {
        self.server.tls_url("127.0.0.1")
    }

    async fn locker(&self) -> Locker {
        connect(self.url(), self.tls()).await.unwrap()
    }
}

async fn connect(url: String, tls: Tls) -> Result<Locker, Error> {
    let connecting = Locker::builder().node(url).tls(tls).ttl(LONG).connect();
    soon("connecting ends", connecting).await
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("a lock", locker.lock(name).into_future()).await.unwrap()
}

async fn refusal(url: String, tls: Tls) -> Error {
    connect(url, tls).await.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn a_lock_is_taken_extended_and_released() {
    let secured = Secured::start();
    let locker = secured.locker().await;
    let guard = take(&locker, "a").await;
    assert_eq!(locker.try_lock("a").await.unwrap_err().kind(), ErrorKind::Contended);
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(secured.server.cli_text(&["EXISTS", "a"]), "0");
}

#[tokio::test]
async fn a_server_is_known_by_name_by_ipv4_and_by_ipv6() {
    let secured = Secured::start();
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let locker = connect(secured.server.tls_url(host), secured.tls()).await.unwrap();
        take(&locker, host).await.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_guard_that_is_dropped_gives_its_lock_back() {
    let secured = Secured::start();
    let locker = secured.locker().await;
    drop(take(&locker, "a").await);
    eventually("it is free", || secured.server.cli_text(&["EXISTS", "a"]) == "0").await;
    // The last handle goes at once after it, and the release is still sent.
    drop(take(&locker, "b").await);
    drop(locker);
    eventually("it is free", || secured.server.cli_text(&["EXISTS", "b"]) == "0").await;
}

#[tokio::test]
async fn a_deletion_by_hand_is_told_at_once() {
    let secured = Secured::start();
    let locker = secured.locker().await;
    let guard = take(&locker, "a").await;
    let lost = tokio::spawn(async move { guard.lost().await });
    eventually("it is watched", || locker.stats().renewed == 1).await;
    let tracked = || {
        let info = secured.server.cli_text(&["INFO", "stats"]);
        let line = info.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
        line.unwrap().trim() != "0"
    };
    eventually("it is tracked", tracked).await;
    secured.server.cli(&["DEL", "a"]);
    assert_eq!(soon("the loss", lost).await.unwrap(), Loss::Gone);
}

/// Mangled bytes would be no protocol any more, and end the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_do_not_mangle_the_stream() {
    let secured = Secured::start();
    let locker = secured.locker().await;
    let mut tasks = JoinSet::new();
    for task in 0..64_usize {
        let locker = locker.clone();
        tasks.spawn(async move {
            for turn in 0..40_usize {
                let name = format!("{task}-{}", "x".repeat(task * turn));
                let guard = locker.try_lock(name).await.unwrap();
                guard.release().await.unwrap();
            }
        });
    }
    soon("all are done", tasks.join_all()).await;
    assert_eq!(locker.stats().released, 64 * 40);
}

#[tokio::test]
async fn a_server_that_stood_still_answers_all_that_was_sent_meanwhile() {
    let secured = Secured::start();
    let patient = Locker::builder().node(secured.url()).tls(secured.tls());
    let locker =
        patient.ttl(LONG).command_timeout(leasehold_testing::STUCK).connect().await.unwrap();
    secured.server.stop();
    let mut tasks = JoinSet::new();
    for task in 0..200 {
        let locker = locker.clone();
        let name = format!("{task}-{}", "x".repeat(15_000));
        tasks.spawn(async move { locker.try_lock(name).await.unwrap().release().await.unwrap() });
    }
    // Until as much is under way as may be.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(tasks.try_join_next().is_none(), "nothing can have been answered");
    secured.server.cont();
    soon("all are done", tasks.join_all()).await;
}

#[tokio::test]
async fn a_connection_that_was_killed_is_made_again() {
    let secured = Secured::start();
    let locker = secured.locker().await;
    let guard = take(&locker, "a").await;
    secured.server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    take(&locker, "b").await.release().await.unwrap();
    soon("a release", guard.release()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_wants_a_client_certificate_gets_it_or_gives_nothing() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let identity = authority.issue(&["127.0.0.1"]);
    let server = RedisServer::builder().mutual_tls(&identity, &authority.pem()).start();
    let tls = || Tls::new().ca_pem(authority.pem());
    let with = |Identity { chain, key }: Identity| tls().client_certificate_pem(chain, key);
    let url = || server.tls_url("127.0.0.1");

    let locker = connect(url(), with(authority.issue(&["client"]))).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();

    for tls in [tls(), with(stranger.issue(&["client"]))] {
        let error = refusal(url(), tls).await;
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
        assert!(
            error.to_string().contains("refused the client certificate, or wants one"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_certificate_that_is_no_good_is_refused_and_the_error_says_why() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let bad = [
        (authority.issue_expired(&["127.0.0.1"]), "has expired"),
        (authority.issue_early(&["127.0.0.1"]), "not valid yet"),
        (authority.issue(&["redis.example", "10.0.0.1"]), "not for \"127.0.0.1\" but for"),
        (stranger.issue(&["127.0.0.1"]), "issued by an unknown CA"),
    ];
    for (identity, expected) in bad {
        let server = RedisServer::builder().tls(&identity).start();
        let url = || server.tls_url("127.0.0.1");
        let error = refusal(url(), Tls::new().ca_pem(authority.pem())).await;
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
        assert!(!error.is_unknown(), "{error}");
        assert!(error.to_string().contains(expected), "{error}");

        // Only one call gets past that.
        let locker = connect(url(), Tls::new().danger_accept_any_certificate()).await.unwrap();
        take(&locker, "a").await.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_wrong_host_is_named_with_the_right_ones_and_another_name_can_be_expected() {
    let authority = Authority::new();
    let server = RedisServer::builder().tls(&authority.issue(&["redis.example"])).start();
    let tls = || Tls::new().ca_pem(authority.pem());
    let error = refusal(server.tls_url("localhost"), tls()).await;
    let text = error.to_string();
    assert!(text.contains("\"localhost\"") && text.contains("redis.example"), "{text}");
    connect(server.tls_url("localhost"), tls().server_name("redis.example")).await.unwrap();
}

/// The platform does not know a CA that was made a moment ago.
#[tokio::test]
async fn without_a_ca_the_platforms_are_trusted_and_no_other() {
    let secured = Secured::start();
    let error = soon("an error", Locker::connect(&secured.url())).await.map(|_| ()).unwrap_err();
    let text = error.to_string();
    let has_roots = !text.contains("the platform has no CA certificates");
    assert!(text.contains("unknown CA") || !has_roots, "{text}");
    let kind = if has_roots { ErrorKind::Auth } else { ErrorKind::Misuse };
    assert_eq!(error.kind(), kind, "{text}");
}

/// It is no use to wait for a certificate to get better.
#[tokio::test]
async fn a_waiter_is_told_of_a_certificate_that_went_bad() {
    let mut secured = Secured::start();
    let locker = secured.locker().await;
    let expired = secured.authority.issue_expired(&["127.0.0.1"]);
    secured.server.present(&expired);
    secured.server.restart();
    let error = soon("an error", locker.lock("a").into_future()).await.map(|_| ()).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Auth && error.to_string().contains("has expired"),
        "{error}"
    );

    let good = secured.authority.issue(&["127.0.0.1"]);
    secured.server.present(&good);
    secured.server.restart();
    let taken = async {
        while locker.try_lock("a").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("it is well again", taken).await;
}

#[tokio::test]
async fn tls_where_there_is_none_is_an_error_that_says_so() {
    let secured = Secured::start();
    let plain_port = format!("rediss://127.0.0.1:{}", secured.server.port());
    let connecting = Locker::builder().node(plain_port).tls(secured.tls());
    let connecting = connecting.connect_timeout(Duration::from_secs(2)).connect();
    let error = soon("an error", connecting).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("give its TLS port"), "{error}");
}

#[tokio::test]
async fn no_tls_where_there_should_be_is_an_error_that_says_so() {
    let secured = Secured::start();
    let plain_url = secured.url().replace("rediss", "redis");
    let error = soon("an error", Locker::connect(&plain_url)).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("use rediss://"), "{error}");
}

/// To connect in the clear where TLS was asked for would be a lie.
#[tokio::test]
async fn tls_beside_a_url_without_it_is_refused() {
    let error = refusal("redis://127.0.0.1:1".to_owned(), Tls::new()).await;
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("use rediss://"),
        "{error}"
    );
}

#[tokio::test]
async fn what_is_wrong_with_the_setup_is_said_before_anything_is_dialed() {
    let missing = Tls::new().ca_file("/nowhere/ca.pem");
    let error = refusal("rediss://127.0.0.1:1".to_owned(), missing).await;
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("/nowhere/ca.pem"),
        "{error}"
    );
}

/// The same locks, and the same owner's commands in order, on a quorum.
#[tokio::test]
async fn a_quorum_may_be_met_over_tls() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let servers: Vec<_> = (0..3).map(|_| RedisServer::builder().tls(&identity).start()).collect();
    let urls = servers.iter().map(|server| server.tls_url("127.0.0.1"));
    let builder = Locker::builder().nodes(urls).tls(Tls::new().ca_pem(authority.pem()));
    // They have just been started.
    let locker = soon("connecting", builder.restart_quarantine(false).connect()).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
}

/// A cluster's nodes name each other's ports for TLS to a client that asks over TLS.
#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_cluster_is_found_and_followed_over_tls() {
    use leasehold_testing::binary;

    if binary::lacks(binary::is_seven(), "a choice of the port that nodes talk on over TLS") {
        return;
    }
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    // The nodes are clients of one another.
    let builder = RedisServer::builder().mutual_tls(&identity, &authority.pem());
    let builder = builder.arg("--tls-cluster").arg("yes").arg("--tls-replication").arg("yes");
    let cluster = leasehold_testing::Cluster::start_as(&builder);
    let url = cluster[0].tls_url("127.0.0.1").replace("rediss://", "rediss-cluster://");
    let tls = |authority: &Authority| {
        Tls::new().ca_pem(authority.pem()).client_certificate_pem(&*identity.chain, &*identity.key)
    };
    let locker = connect(url.clone(), tls(&authority)).await.unwrap();
    let mut masters = [false; 3];
    for number in 0..30 {
        let name = format!("lock:{number}");
        let guard = take(&locker, &name).await;
        assert!(cluster.holding(&name));
        masters[cluster.master_of(cluster.slot(&name))] = true;
        guard.release().await.unwrap();
    }
    assert_eq!(masters, [true; 3]);
    let error = refusal(url, tls(&Authority::new())).await;
    assert!(
        error.kind() == ErrorKind::Auth && error.to_string().contains("certificate"),
        "{error}"
    );
}
