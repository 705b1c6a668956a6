//! Each fault of the proxy does what its name says, seen from plain sockets.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{end_of, receive};
use leasehold_testing::{Fault, FaultProxy, Harm, soon};

/// An upstream which hands its accepted sockets to the test.
struct Upstream(TcpListener);

impl Upstream {
    async fn start() -> (Self, FaultProxy) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        (Self(listener), FaultProxy::start(address))
    }

    /// A connection through the proxy: the client's end and the server's.
    async fn connect(&self, proxy: &FaultProxy) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(proxy.address()).await.expect("the proxy listens");
        let (server, _) = soon("the proxy dials", self.0.accept()).await.expect("it accepts");
        (client, server)
    }
}

/// Whether nothing can be read for a while. A wrong "yes" needs a fault that leaks late.
async fn is_silent(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 64];
    let read = stream.read(&mut buffer);
    tokio::time::timeout(Duration::from_millis(100), read).await.is_err()
}

#[tokio::test]
async fn without_a_fault_bytes_go_through_and_are_counted() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    client.write_all(b"question").await.expect("open");
    assert_eq!(receive(&mut server, 8).await, b"question");
    server.write_all(b"answer").await.expect("open");
    assert_eq!(receive(&mut client, 6).await, b"answer");

    soon("bytes are counted", proxy.to_server().until_delivered(8)).await;
    soon("bytes are counted", proxy.to_client().until_delivered(6)).await;
    assert_eq!((proxy.to_server().delivered_bytes(), proxy.to_client().delivered_bytes()), (8, 6));
    assert_eq!((proxy.accepted(), proxy.open()), (1, 1));
}

#[tokio::test]
async fn the_end_of_a_stream_goes_through_in_each_direction_by_itself() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    client.write_all(b"last").await.expect("open");
    client.shutdown().await.expect("open");
    assert_eq!(receive(&mut server, 4).await, b"last");
    assert_eq!(end_of(&mut server).await.expect("a FIN"), 0);
    server.write_all(b"still").await.expect("the other direction is open");
    assert_eq!(receive(&mut client, 5).await, b"still");
    drop(server);
    assert_eq!(end_of(&mut client).await.expect("a FIN"), 0);
    soon("the connection is over", proxy.until_open(0)).await;
}

#[tokio::test]
async fn a_delay_holds_bytes_back_and_keeps_their_order() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    let delay = Duration::from_millis(150);
    proxy.to_server().set(Fault::Delay(delay));
    let sent = Instant::now();
    client.write_all(b"one").await.expect("open");
    client.write_all(b"two").await.expect("open");
    assert_eq!(receive(&mut server, 6).await, b"onetwo");
    // A lower bound only: a busy machine can make it later, and nothing can make it earlier.
    assert!(sent.elapsed() >= delay);
    server.write_all(b"back").await.expect("open");
    assert_eq!(receive(&mut client, 4).await, b"back");
}

#[tokio::test]
async fn a_delay_that_is_lifted_lets_go_of_what_it_held() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.to_server().set(Fault::Delay(Duration::from_secs(3600)));
    client.write_all(b"held").await.expect("open");
    assert!(is_silent(&mut server).await);
    proxy.to_server().set(Fault::Pass);
    assert_eq!(receive(&mut server, 4).await, b"held");
}

#[tokio::test]
async fn a_dribble_delivers_everything_in_pieces() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.to_client().set(Fault::Dribble(1));
    server.write_all(b"$5\r\nhello\r\n").await.expect("open");
    let (mut received, mut reads) = (Vec::new(), 0);
    while received.len() < 11 {
        let mut buffer = [0; 64];
        let count = soon("the bytes come", client.read(&mut buffer)).await.expect("open");
        assert_ne!(count, 0, "the stream ended early");
        received.extend_from_slice(&buffer[..count]);
        reads += 1;
    }
    assert_eq!(received, b"$5\r\nhello\r\n");
    assert!(reads > 1, "it came in one piece");
}

#[tokio::test]
async fn a_black_hole_swallows_bytes_and_the_end_and_stays_open() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.to_server().set(Fault::Blackhole);
    client.write_all(b"lost").await.expect("open");
    client.shutdown().await.expect("open");
    assert!(is_silent(&mut server).await, "neither bytes nor the end may arrive");
    server.write_all(b"back").await.expect("open");
    assert_eq!(receive(&mut client, 4).await, b"back");
    assert_eq!(proxy.to_server().delivered_bytes(), 0);
    proxy.to_server().set(Fault::Pass);
    assert_eq!(end_of(&mut server).await.expect("a FIN"), 0, "what was swallowed stays lost");
}

#[tokio::test]
async fn a_stall_fills_the_senders_buffers_and_loses_nothing() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.to_server().set(Fault::Stall);
    let chunk = vec![7; 1 << 16];
    let mut sent = 0;
    // More than any loopback buffer: only back-pressure ends this loop.
    while let Ok(count) =
        tokio::time::timeout(Duration::from_millis(200), client.write(&chunk)).await
    {
        sent += count.expect("open");
        assert!(sent < 1 << 30, "no back-pressure");
    }
    assert!(is_silent(&mut server).await);
    proxy.to_server().set(Fault::Pass);
    let received = receive(&mut server, sent).await;
    assert!(received.iter().all(|byte| *byte == 7));
}

#[tokio::test]
async fn a_half_close_ends_one_direction_only() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.to_client().half_close();
    assert_eq!(end_of(&mut client).await.expect("a FIN"), 0);
    client.write_all(b"still").await.expect("open");
    assert_eq!(receive(&mut server, 5).await, b"still");
    let (mut client, mut server) = upstream.connect(&proxy).await;
    server.write_all(b"new").await.expect("open");
    assert_eq!(receive(&mut client, 3).await, b"new", "a new connection is whole");
}

#[tokio::test]
async fn a_cut_ends_both_sides_with_a_fin() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.cut();
    assert_eq!(end_of(&mut client).await.expect("a FIN"), 0);
    assert_eq!(end_of(&mut server).await.expect("a FIN"), 0);
    let (mut client, mut server) = upstream.connect(&proxy).await;
    client.write_all(b"new").await.expect("open");
    assert_eq!(receive(&mut server, 3).await, b"new");
    assert_eq!(proxy.accepted(), 2);
}

#[tokio::test]
async fn a_reset_ends_both_sides_with_a_rst() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.reset();
    let errors = (end_of(&mut client).await, end_of(&mut server).await);
    let kinds = (errors.0.map_err(|error| error.kind()), errors.1.map_err(|error| error.kind()));
    assert_eq!(kinds, (Err(ErrorKind::ConnectionReset), Err(ErrorKind::ConnectionReset)));
    soon("the connection is over", proxy.until_open(0)).await;
}

#[tokio::test]
async fn a_planned_reset_comes_in_the_middle_of_a_frame_and_serves_once() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.to_client().reset_after(4);
    server.write_all(b"$5\r\nhello\r\n").await.expect("open");
    assert_eq!(receive(&mut client, 4).await, b"$5\r\n");
    let end = end_of(&mut client).await.expect_err("a RST");
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    let (mut client, mut server) = upstream.connect(&proxy).await;
    server.write_all(b"$5\r\nhello\r\n").await.expect("open");
    assert_eq!(receive(&mut client, 11).await, b"$5\r\nhello\r\n");
}

#[tokio::test]
async fn refusing_closes_the_port_and_leaves_open_connections_alone() {
    let (upstream, mut proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.refuse().await;
    let refused = TcpStream::connect(proxy.address()).await.expect_err("the port is closed");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    client.write_all(b"old").await.expect("open");
    assert_eq!(receive(&mut server, 3).await, b"old");
    proxy.accept().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    client.write_all(b"new").await.expect("open");
    assert_eq!(receive(&mut server, 3).await, b"new");
}

#[tokio::test]
async fn one_chunk_is_duplicated_on_request() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    proxy.to_client().duplicate_next_chunk();
    server.write_all(b"+OK\r\n").await.expect("open");
    assert_eq!(receive(&mut client, 10).await, b"+OK\r\n+OK\r\n");
    server.write_all(b":1\r\n").await.expect("open");
    drop(server);
    assert_eq!(receive(&mut client, 4).await, b":1\r\n");
    assert_eq!(end_of(&mut client).await.expect("a FIN"), 0);
}

#[tokio::test]
async fn one_reply_is_lost_repeated_or_joined_wherever_reads_fall_and_pushes_are_none() {
    const PUSH: &[u8] = b">1\r\n+p\r\n";
    const REPLACED: &[u8] = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$7\r\nnothing\r\n";
    let harms: [(Harm, &[&[u8]]); 4] = [
        (Harm::Lost, &[b":2\r\n"]),
        (Harm::Twice, &[b":1\r\n", b":1\r\n", b":2\r\n"]),
        (Harm::Stray(b"+OK\r\n"), &[b"+OK\r\n", b":1\r\n", b":2\r\n"]),
        (Harm::OnlyPushes, &[REPLACED, REPLACED]),
    ];
    for (harm, expected) in harms {
        let (upstream, proxy) = Upstream::start().await;
        proxy.to_client().know_replies();
        let (mut client, mut server) = upstream.connect(&proxy).await;
        server.write_all(b":0\r\n").await.expect("open");
        assert_eq!(receive(&mut client, 4).await, b":0\r\n", "{harm:?}");
        proxy.to_client().harm_next_reply(harm);
        server.write_all(&[PUSH, b":"].concat()).await.expect("open");
        assert_eq!(receive(&mut client, PUSH.len()).await, PUSH, "{harm:?}");
        server.write_all(b"1\r\n:2\r\n").await.expect("open");
        drop(server);
        let expected = expected.concat();
        assert_eq!(receive(&mut client, expected.len()).await, expected, "{harm:?}");
        assert_eq!(end_of(&mut client).await.expect("a FIN"), 0, "{harm:?}");
    }
}

#[tokio::test]
async fn an_unreachable_upstream_looks_like_a_reset() {
    let closed: SocketAddr = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        listener.local_addr().expect("it is bound")
    };
    let proxy = FaultProxy::start(closed);
    let mut client = TcpStream::connect(proxy.address()).await.expect("the proxy listens");
    let end = end_of(&mut client).await.expect_err("a RST");
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn dropping_the_proxy_ends_its_connections_and_closes_its_port() {
    let (upstream, proxy) = Upstream::start().await;
    let (mut client, mut server) = upstream.connect(&proxy).await;
    let address = proxy.address();
    drop(proxy);
    assert_eq!(end_of(&mut client).await.expect("a FIN"), 0);
    assert_eq!(end_of(&mut server).await.expect("a FIN"), 0);
    soon("the port closes", async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
