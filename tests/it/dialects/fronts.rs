//! Common proxies before servers, from Debian's packages: a connection is idle for longer than their timeouts.

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locker};
use leasehold_testing::front::Front;
use leasehold_testing::{RedisServer, eventually, soon};

/// So long that nothing ends because of it, and nothing is renewed.
const LONG: Duration = Duration::from_secs(3600);
/// Of a proxy, in which nothing has to be said. Its tests wait for it to close what is silent.
const IDLE: &str = "500ms";

fn haproxy(server: &RedisServer) -> Option<Front> {
    let settings = format!(
        "global\n    maxconn 64\ndefaults\n    mode tcp\n    timeout connect 5s\n    timeout client {IDLE}\n    \
         timeout server {IDLE}\nlisten redis\n    bind LISTEN\n    server one {}\n",
        server.address()
    );
    Front::start("haproxy", &["-db", "-f"], &settings, &[])
}

async fn take(locker: &Locker, name: &str, ttl: Duration) -> Guard {
    let request = async || locker.lock(name).ttl(ttl).await;
    soon("a lock", answer(request)).await
}

/// One whose question the proxy cuts off asks again: which of two lockers' connections it closes next is open.
async fn answer<T>(call: impl AsyncFn() -> Result<T, Error>) -> T {
    loop {
        match call().await {
            Err(error) if error.is_unknown() => {}
            answer => return answer.unwrap(),
        }
    }
}

/// The proxy has closed the connection, and another takes its place.
async fn is_silent_for_long(server: &RedisServer) {
    // The count is itself asked on a connection that stays.
    let mut client = server.client();
    let mut received = || {
        let info = client.text(&["INFO", "stats"]);
        let count = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap()
    };
    let before = received();
    eventually("the proxy closes it, and it is dialled again", || received() > before).await;
}

async fn lasts(server: &RedisServer, locker: &Locker, other: &Locker) {
    take(locker, "a", LONG).await.release().await.unwrap();
    is_silent_for_long(server).await;
    // Nothing was on the way: the next call finds a connection.
    let held = take(locker, "a", LONG).await;
    is_silent_for_long(server).await;
    soon("an answer", answer(async || held.extend().await)).await;
    let waiting = tokio::spawn(other.lock("a").ttl(LONG).into_future());
    eventually("it waits", || other.stats().contended > 0).await;
    is_silent_for_long(server).await;
    held.release().await.unwrap();
    let next = soon("it is woken", waiting).await.unwrap().unwrap();
    is_silent_for_long(server).await;
    assert!(!next.is_lost());
    next.release().await.unwrap();
    // One that is renewed more often than that.
    let renewed = take(locker, "b", Duration::from_millis(900)).await;
    is_silent_for_long(server).await;
    eventually("it is renewed", || locker.stats().renewed > 2).await;
    assert!(!renewed.is_lost());
    renewed.release().await.unwrap();
}

#[tokio::test]
async fn a_locker_outlives_the_silence_that_haproxy_ends() {
    let server = RedisServer::start();
    let Some(proxy) = haproxy(&server) else { return };
    let url = format!("redis://{}", proxy.address());
    let locker = soon("it connects", Locker::connect(&url)).await.unwrap();
    let other = soon("it connects", Locker::connect(&url)).await.unwrap();
    lasts(&server, &locker, &other).await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_locker_outlives_the_silence_that_stunnel_ends() {
    use leasehold::Tls;
    use leasehold_testing::Authority;

    let (server, authority) = (RedisServer::start(), Authority::new());
    let identity = authority.issue(&["127.0.0.1"]);
    let settings = format!(
        "foreground = yes\npid =\n[redis]\naccept = LISTEN\nconnect = {}\ncert = FILES/cert\nkey = FILES/key\n\
         TIMEOUTidle = 1\nTIMEOUTclose = 0\n",
        server.address()
    );
    let files = [("cert", &*identity.chain), ("key", &*identity.key)];
    let Some(proxy) = Front::start("stunnel4", &[], &settings, &files) else { return };
    let connect = async || {
        let builder = Locker::builder().node(format!("rediss://{}", proxy.address()));
        let connecting = builder.tls(Tls::new().ca_pem(authority.pem())).connect();
        soon("it connects", connecting).await.unwrap()
    };
    let (locker, other) = (connect().await, connect().await);
    lasts(&server, &locker, &other).await;
}

/// Which knows keys, and nothing of scripts that are loaded, of channels and of logins.
#[tokio::test]
async fn twemproxy_is_refused_with_the_reason() {
    let server = RedisServer::start();
    let settings = format!(
        "redis:\n  listen: LISTEN\n  redis: true\n  servers:\n   - {}:1\n",
        server.address()
    );
    let Some(proxy) = Front::start("nutcracker", &["-c"], &settings, &[]) else { return };
    let url = format!("redis://{}", proxy.address());
    let error = soon("the end", Locker::connect(&url)).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("a proxy that closes"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
