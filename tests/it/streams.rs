//! Connections that the caller opens: through a tunnel in this process, instead of the library's own sockets.

#![allow(clippy::disallowed_methods, reason = "what real servers do takes real time")]

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use leasehold::{Builder, Error, ErrorKind, Guard, Locker};
use leasehold_testing::{RedisServer, eventually, ports, soon};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, copy_bidirectional, duplex};
use tokio::net::TcpStream;

/// Less than most commands have, so that each waits for room.
const NARROW: usize = 48;
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(100);

/// What becomes of the tunnels that are open.
#[derive(Default)]
struct State {
    open: AtomicUsize,
    opened: AtomicUsize,
    sent: AtomicUsize,
    received: AtomicUsize,
    /// Those that are open pass nothing on any more, and do not end.
    is_hung: AtomicBool,
    /// The next that is read panics.
    panics: AtomicBool,
    asked: Mutex<BTreeSet<(String, u16)>>,
}

/// Tunnels to servers of this machine.
#[derive(Clone, Default)]
struct Tunnels(Arc<State>);

impl Tunnels {
    fn open(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    fn opened(&self) -> usize {
        self.0.opened.load(Ordering::SeqCst)
    }

    fn sent(&self) -> usize {
        self.0.sent.load(Ordering::SeqCst)
    }

    fn received(&self) -> usize {
        self.0.received.load(Ordering::SeqCst)
    }

    fn has_asked(&self, host: &str, port: u16) -> bool {
        self.0.asked.lock().unwrap().contains(&(host.to_owned(), port))
    }

    fn hang(&self, is_hung: bool) {
        self.0.is_hung.store(is_hung, Ordering::SeqCst);
    }

    /// The next read of a stream panics.
    fn panic(&self) {
        self.0.panics.store(true, Ordering::SeqCst);
    }

    /// To the server of this port, whatever the host.
    fn dig(&self, builder: Builder) -> Builder {
        let tunnels = self.clone();
        builder.connector(move |host, port| {
            let tunnels = tunnels.clone();
            async move {
                tunnels.0.asked.lock().unwrap().insert((host, port));
                tunnels.to(([127, 0, 0, 1], port).into()).await
            }
        })
    }

    async fn to(&self, server: SocketAddr) -> io::Result<Tunnel> {
        let mut socket = TcpStream::connect(server).await?;
        let (near, mut far) = duplex(NARROW);
        tokio::spawn(async move { copy_bidirectional(&mut far, &mut socket).await.ok() });
        self.0.open.fetch_add(1, Ordering::SeqCst);
        self.0.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Tunnel { near, state: Arc::clone(&self.0) })
    }
}

/// What the library is given.
struct Tunnel {
    near: DuplexStream,
    state: Arc<State>,
}

impl Tunnel {
    fn flows(&self) -> Poll<()> {
        if self.state.is_hung.load(Ordering::SeqCst) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.state.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.flows());
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.near).poll_read(context, buffer));
        let count = buffer.filled().len() - before;
        self.state.received.fetch_add(count, Ordering::SeqCst);
        assert!(!self.state.panics.swap(false, Ordering::SeqCst), "as it was told to");
        Poll::Ready(read)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.flows());
        let sent = ready!(Pin::new(&mut self.near).poll_write(context, bytes));
        self.state.sent.fetch_add(*sent.as_ref().unwrap_or(&0), Ordering::SeqCst);
        Poll::Ready(sent)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.flows());
        Pin::new(&mut self.near).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.flows());
        Pin::new(&mut self.near).poll_shutdown(context)
    }
}

/// A host that no resolver knows (RFC 6761): each connection to it came by a tunnel.
fn hidden(server: &RedisServer) -> String {
    format!("redis://hidden.invalid:{}", server.port())
}

async fn connect(builder: Builder) -> Result<Locker, Error> {
    soon("connecting ends", builder.connect()).await
}

async fn refusal(builder: Builder) -> Error {
    connect(builder).await.map(|_| ()).unwrap_err()
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("a lock", locker.lock(name).into_future()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_taken_passed_on_and_lost_through_a_stream() {
    let (server, tunnels) = (RedisServer::start(), Tunnels::default());
    let of = || tunnels.dig(Locker::builder().node(hidden(&server)).ttl(LONG));
    let (locker, other) = (connect(of()).await.unwrap(), connect(of()).await.unwrap());
    assert!(tunnels.has_asked("hidden.invalid", server.port()));
    let guard = take(&locker, "a").await;
    assert_eq!(other.try_lock("a").await.unwrap_err().kind(), ErrorKind::Contended);
    let next = tokio::spawn(other.lock("a").into_future());
    eventually("it waits", || other.stats().waiting == 1).await;
    guard.release().await.unwrap();
    let guard = soon("it is handed over", next).await.unwrap().unwrap();
    // Watched from the first renewal on.
    guard.extend().await.unwrap();
    server.cli(&["DEL", "a"]);
    soon("the loss is told", guard.lost()).await;
    // Far more than the tunnel holds.
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let locker = locker.clone();
            tokio::spawn(async move {
                let guard = locker.try_lock(format!("{number}-{}", "x".repeat(500))).await?;
                guard.release().await
            })
        })
        .collect();
    for task in tasks {
        soon("it is done", task).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_quorum_is_reached_through_streams_also_where_one_has_no_way() {
    let (servers, tunnels) = ([(); 2].map(|()| RedisServer::start()), Tunnels::default());
    let urls = servers.iter().map(hidden);
    let down = format!("redis://hidden.invalid:{}", ports::free());
    let builder = Locker::builder().nodes(urls.chain([down])).restart_quarantine(false);
    let locker = connect(tunnels.dig(builder)).await.unwrap();
    let guard = take(&locker, "a").await;
    assert!(servers.iter().all(|server| server.cli_text(&["EXISTS", "a"]) == "1"));
    guard.release().await.unwrap();
    assert_eq!(tunnels.open(), 2);
}

/// Nobody else reaches nodes that announce an address which no machine has (RFC 5737).
#[cfg(feature = "cluster")]
#[tokio::test]
async fn nodes_of_a_cluster_are_reached_through_streams() {
    let builder = RedisServer::builder().arg("--cluster-enabled").arg("yes");
    let node = builder.arg("--cluster-announce-ip").arg("192.0.2.1").start();
    node.complete_slots(0..=16_383).await;
    let tunnels = Tunnels::default();
    let url = hidden(&node).replace("redis://", "redis-cluster://");
    let of = || tunnels.dig(Locker::builder().node(&url));
    let locker = connect(of()).await.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    assert!(tunnels.has_asked("hidden.invalid", node.port()));
    assert!(tunnels.has_asked("192.0.2.1", node.port()));
    #[cfg(feature = "examine")]
    {
        let examination = soon("an examination", of().examine()).await.unwrap();
        assert!(examination.servers[0].round_trip.is_some(), "{examination:?}");
    }
}

#[cfg(feature = "sentinel")]
#[tokio::test]
async fn sentinels_and_the_masters_that_they_name_are_reached_through_streams() {
    let service = leasehold_testing::Sentinels::start();
    let tunnels = Tunnels::default();
    let url = service.url().replace("127.0.0.1", "hidden.invalid");
    let locker = connect(tunnels.dig(Locker::builder().node(url))).await.unwrap();
    let first = service.master_port();
    take(&locker, "a").await.release().await.unwrap();
    let sentinels = service.sentinel_ports();
    assert!(sentinels.iter().any(|port| tunnels.has_asked("hidden.invalid", *port)));
    assert!(tunnels.has_asked("127.0.0.1", first));
    service.failover().await;
    let second = service.wait_for_master_other_than(first).await;
    let address = format!("127.0.0.1:{second}");
    eventually("it is followed", || locker.stats().servers[0].server == address).await;
    assert!(tunnels.has_asked("127.0.0.1", second));
    let lock = async {
        while let Err(error) = locker.lock("b").await.map(drop) {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    };
    soon("a lock of the successor", lock).await;
    drop(locker);
    eventually("nothing is left", || tunnels.open() == 0).await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_goes_over_a_stream_and_says_who_is_not_trusted() {
    use leasehold::Tls;
    use leasehold_testing::Authority;

    let authority = Authority::new();
    let identity = authority.issue(&["hidden.invalid"]);
    let server = RedisServer::builder().mutual_tls(&identity, &authority.pem()).start();
    let (url, tunnels) = (server.tls_url("hidden.invalid"), Tunnels::default());
    let of = |tls| tunnels.dig(Locker::builder().node(&url).tls(tls));
    let trusting = || Tls::new().ca_pem(authority.pem());
    let ours = authority.issue(&["client.invalid"]);
    let locker = connect(of(trusting().client_certificate_pem(ours.chain, ours.key))).await;
    let locker = locker.unwrap();
    take(&locker, "a").await.release().await.unwrap();
    drop(locker);
    eventually("nothing is left", || tunnels.open() == 0).await;
    // In TLS 1.3 the server says so when the client believes that all is agreed.
    let error = refusal(of(trusting())).await;
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    let error = refusal(of(Tls::new().ca_pem(Authority::new().pem()))).await;
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    eventually("nothing is left", || tunnels.open() == 0).await;
}

struct Bomb;

impl AsyncWrite for Bomb {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        panic!("as it was told to");
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_connector_that_fails_hangs_or_panics_is_named() {
    let of = || Locker::builder().node("redis://hidden.invalid").connect_timeout(10 * SHORT);
    let fails = async |_, _| Err::<TcpStream, _>(io::Error::other("no route"));
    let hangs = async |_, _| std::future::pending::<io::Result<TcpStream>>().await;
    let panics = |host: String, _| {
        assert!(host.is_empty(), "as it was told to");
        std::future::pending::<io::Result<TcpStream>>()
    };
    // As soon as TLS begins.
    let in_tls = Locker::builder().node("rediss://hidden.invalid").connect_timeout(10 * SHORT);
    let in_tls = in_tls.connector(async |_, _| Ok(tokio::io::join(tokio::io::empty(), Bomb)));
    for (builder, what) in [
        (of().connector(fails), "failed: no route"),
        (of().connector(hangs), "gave no stream within "),
        (of().connector(panics), "panicked"),
        (in_tls, "gave a stream that panicked"),
    ] {
        let error = refusal(builder).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let what = format!("cannot connect: the connector (Builder::connector) {what}");
        assert!(error.to_string().contains(&what), "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_fails_says_why_and_is_replaced() {
    let (server, tunnels) = (RedisServer::start(), Tunnels::default());
    let of = || tunnels.dig(Locker::builder().node(hidden(&server)));
    tunnels.panic();
    let error = refusal(of()).await;
    assert!(error.to_string().contains("gave a stream that panicked"), "{error}");
    let locker = connect(of()).await.unwrap();
    tunnels.panic();
    let error = soon("an error", locker.try_lock("a").into_future()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    take(&locker, "a").await.release().await.unwrap();
    assert_eq!(tunnels.opened(), 3);
    eventually("one is left", || tunnels.open() == 1).await;

    struct Broken;
    impl AsyncRead for Broken {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("the tunnel fell in")))
        }
    }
    impl AsyncWrite for Broken {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
    let builder = Locker::builder().node(hidden(&server)).connector(async |_, _| Ok(Broken));
    let error = refusal(builder).await;
    assert!(error.to_string().contains("the tunnel fell in"), "{error}");
}

/// With a timeout of an hour nothing but the end of the stream can tell.
#[tokio::test]
async fn the_end_of_a_stream_is_told_at_once() {
    let (mut server, tunnels) = (RedisServer::start(), Tunnels::default());
    let builder = Locker::builder().node(hidden(&server)).ttl(2 * LONG).command_timeout(LONG);
    let locker = connect(tunnels.dig(builder)).await.unwrap();
    let guard = take(&locker, "a").await;
    server.stop();
    let sent = tunnels.sent();
    let asking = tokio::spawn(async move { guard.extend().await });
    eventually("it is asked", || tunnels.sent() > sent).await;
    server.kill();
    let error = soon("an error", asking).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    eventually("the stream is dropped", || tunnels.open() == 0).await;
}

#[tokio::test]
async fn a_locker_that_ends_leaves_no_stream_and_no_release_behind() {
    let (server, tunnels) = (RedisServer::start(), Tunnels::default());
    let locker = connect(tunnels.dig(Locker::builder().node(hidden(&server)))).await.unwrap();
    drop(take(&locker, "a").await);
    // The last handle goes at once after it, and the release is still sent.
    drop(locker);
    eventually("it is free", || server.cli_text(&["EXISTS", "a"]) == "0").await;
    eventually("nothing is left", || tunnels.open() == 0).await;
}

/// Nor does one stay that takes nothing, and never ends by itself.
#[tokio::test]
async fn a_stream_that_hangs_is_given_up_by_a_request_and_at_the_end() {
    let (server, tunnels) = (RedisServer::start(), Tunnels::default());
    let builder = Locker::builder().node(hidden(&server)).command_timeout(SHORT);
    let locker = connect(tunnels.dig(builder)).await.unwrap();
    let received = tunnels.received();
    assert!(received > 0);
    tunnels.hang(true);
    let error = soon("an error", locker.try_lock("a").into_future()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(tunnels.received(), received);
    eventually("another is opened", || tunnels.opened() > 1).await;
    tunnels.hang(false);
    take(&locker, "a").await.release().await.unwrap();
    tunnels.hang(true);
    drop(locker);
    eventually("nothing is left", || tunnels.open() == 0).await;
}

#[tokio::test]
async fn a_path_has_no_connector_and_neither_have_threads() {
    let tunnels = Tunnels::default();
    let of = |url: &str| tunnels.dig(Locker::builder().node(url));
    let error = refusal(of("redis+unix:///tmp/redis.sock")).await;
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    assert!(error.to_string().contains("needs a host and a port"), "{error}");
    #[cfg(feature = "blocking")]
    {
        let error = of("redis://hidden.invalid").connect_blocking().map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(
            error.to_string().contains("a connector and an observer need the async Locker"),
            "{error}"
        );
    }
    assert_eq!(tunnels.opened(), 0);
}
