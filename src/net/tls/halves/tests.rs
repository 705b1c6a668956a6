//! The halves against a peer that reads on command.

use std::io::{Read, Write};
use std::net::TcpStream as PlainStream;
use std::sync::mpsc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::clock;
use crate::net::tls::Tls;
use crate::support::{Authority, STUCK, ports, soon};

type Peer = StreamOwned<ServerConnection, PlainStream>;

/// Actions for the peer, on a thread of its own.
struct Remote(mpsc::Sender<Act>);

type Act = Box<dyn FnOnce(&mut Peer) + Send>;

impl Remote {
    fn then(&self, act: impl FnOnce(&mut Peer) + Send + 'static) {
        self.0.send(Box::new(act)).unwrap();
    }

    /// The result of `act`, once the peer has run it.
    async fn asked<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Peer) -> T + Send + 'static,
    ) -> T {
        let (done, outcome) = tokio::sync::oneshot::channel();
        self.then(|peer| drop(done.send(act(peer))));
        soon("the peer is done", outcome).await.unwrap()
    }
}

fn server_config(versions: &[&'static rustls::SupportedProtocolVersion]) -> (ServerConfig, Tls) {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let chain = CertificateDer::pem_slice_iter(identity.chain.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.send_half_rtt_data = true;
    // So that after the handshake only the test's bytes come.
    config.send_tls13_tickets = 0;
    (config, Tls::new().ca_pem(authority.pem()))
}

/// The same server, which requires a certificate of a CA that no client has.
fn wants_certificates(config: ServerConfig) -> ServerConfig {
    let provider = Arc::clone(config.crypto_provider());
    let mut roots = rustls::RootCertStore::empty();
    let pem = Authority::new().pem();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_cert_resolver(config.cert_resolver)
}

/// Sends this as early as possible, in one write with the peer's part of the handshake if it can.
fn greet(peer: &mut Peer, greeting: &[u8]) {
    while !peer.conn.wants_write() {
        peer.conn.read_tls(&mut peer.sock).unwrap();
        peer.conn.process_new_packets().unwrap();
    }
    peer.conn.writer().write_all(greeting).unwrap();
    peer.flush().unwrap();
}

/// A connection and its peer, with small kernel buffers between them.
async fn pair_of(
    versions: &[&'static rustls::SupportedProtocolVersion],
    greeting: &'static [u8],
) -> (ReadHalf, WriteHalf, Remote) {
    let (config, tls) = server_config(versions);
    let listener = ports::listen();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let address = listener.local_addr().unwrap();
    let (orders, received) = mpsc::channel::<Act>();
    thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(STUCK)).unwrap();
        let mut peer = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), socket);
        greet(&mut peer, greeting);
        for act in received {
            act(&mut peer);
        }
    });
    let client = tls.client().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&stream, 4096).unwrap();
    let (read, write) = client.agree("127.0.0.1", stream, clock::now().after(STUCK)).await.unwrap();
    (read, write, Remote(orders))
}

async fn pair() -> (ReadHalf, WriteHalf, Remote) {
    pair_of(rustls::ALL_VERSIONS, b"").await
}

/// Bytes in which every displacement shows.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from((index * 7 + index / 251) % 256).unwrap()).collect()
}

fn read_exactly(length: usize) -> impl FnOnce(&mut Peer) -> Vec<u8> + Send {
    move |peer| {
        let mut bytes = vec![0; length];
        peer.read_exact(&mut bytes).unwrap();
        bytes
    }
}

async fn read(half: &mut ReadHalf) -> (io::Result<usize>, Vec<u8>) {
    let mut buffer = BytesMut::new();
    let outcome = soon("a read ends", half.read(&mut buffer)).await;
    (outcome, buffer.to_vec())
}

#[tokio::test]
async fn what_is_written_arrives_and_so_does_what_is_answered() {
    for version in rustls::ALL_VERSIONS {
        let (mut reader, writer, remote) = pair_of(&[*version], b"").await;
        assert_eq!(writer.try_write(b"PING\r\n").unwrap(), 6);
        assert_eq!(remote.asked(read_exactly(6)).await, b"PING\r\n");
        remote.then(|peer| peer.write_all(b"+PONG\r\n").unwrap());
        let (outcome, bytes) = read(&mut reader).await;
        assert_eq!((outcome.unwrap(), &bytes[..]), (7, &b"+PONG\r\n"[..]));
    }
}

/// In TLS 1.3 the server may send data before it has read a byte, together with the rest of the handshake.
#[tokio::test]
async fn what_came_with_the_handshake_is_read_first() {
    let (mut reader, _writer, _remote) = pair_of(&[&rustls::version::TLS13], b"hello").await;
    assert_eq!(read(&mut reader).await.1, b"hello");
}

/// The contract: bytes count once they are sent whole, `WouldBlock` means to offer the same again,
/// and nothing is sent twice or left out.
#[tokio::test]
async fn a_slow_peer_gets_every_byte_once_and_in_order() {
    let (mut reader, writer, remote) = pair().await;
    let all = pattern(3_000_000);
    let (length, expected) = (all.len(), all.clone());
    let (blocked, waiting) = tokio::sync::oneshot::channel::<()>();
    // It begins once the writer was blocked, and then reads odd sizes.
    remote.then(move |peer| {
        waiting.blocking_recv().unwrap();
        let mut got = Vec::new();
        while got.len() < length {
            let mut some = vec![0; 1 + got.len() % 5000];
            let read = peer.read(&mut some).unwrap();
            assert!(read > 0, "ended after {} bytes", got.len());
            got.extend_from_slice(&some[..read]);
        }
        assert!(got == expected, "the bytes differ");
        peer.write_all(b"all there").unwrap();
    });
    let (mut sent, mut blocked, mut blocks) = (0, Some(blocked), 0);
    while sent < all.len() {
        // The bytes offered again may have more behind them.
        let end = all.len().min(sent + 100_000 + blocks % 1000);
        match writer.try_write(&all[sent..end]) {
            Ok(written) => {
                assert!((1..=end - sent).contains(&written));
                sent += written;
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                blocks += 1;
                if let Some(blocked) = blocked.take() {
                    // However often it is tried.
                    assert!(writer.try_write(&all[sent..end]).is_err());
                    blocked.send(()).unwrap();
                }
                let room = std::future::poll_fn(|context| writer.poll_writable(context));
                soon("room", room).await.unwrap();
            }
        }
    }
    assert!(blocks > 0, "the kernel took everything: this shows nothing");
    assert_eq!(read(&mut reader).await.1, b"all there");
}

#[tokio::test]
async fn large_answers_come_in_whole_and_in_order() {
    let (mut reader, _writer, remote) = pair().await;
    let all = pattern(1_000_000);
    let sent = all.clone();
    remote.then(move |peer| peer.write_all(&sent).unwrap());
    let mut got = BytesMut::new();
    while got.len() < all.len() {
        assert!(soon("bytes", reader.read(&mut got)).await.unwrap() > 0);
    }
    assert!(got == all, "the bytes differ");
}

#[tokio::test]
async fn an_end_with_and_without_a_farewell_is_an_end() {
    for is_orderly in [true, false] {
        let (mut reader, _writer, remote) = pair().await;
        remote.then(move |peer| {
            peer.write_all(b"bye").unwrap();
            if is_orderly {
                peer.conn.send_close_notify();
                peer.flush().unwrap();
            }
            peer.sock.shutdown(std::net::Shutdown::Write).unwrap();
        });
        assert_eq!(read(&mut reader).await.1, b"bye");
        assert_eq!(read(&mut reader).await.0.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_writer_that_goes_says_farewell() {
    let (_reader, writer, remote) = pair().await;
    assert_eq!(writer.try_write(b"last").unwrap(), 4);
    drop(writer);
    let end = remote.asked(|peer| {
        let mut bytes = Vec::new();
        // Without close_notify this is an error of rustls.
        peer.read_to_end(&mut bytes).map(|_| bytes)
    });
    assert_eq!(end.await.unwrap(), b"last");
}

#[tokio::test]
async fn bytes_that_are_no_record_are_an_error_after_what_was_good() {
    let (mut reader, _writer, remote) = pair().await;
    remote.then(|peer| {
        peer.write_all(b"good").unwrap();
        peer.flush().unwrap();
        peer.sock.write_all(b"+OK in the clear\r\n").unwrap();
    });
    assert_eq!(read(&mut reader).await.1, b"good");
    let error = read(&mut reader).await.0.unwrap_err();
    assert!(TlsFault::inside(&error).is_some(), "{error}");
}

/// In TLS 1.3 a client's handshake ends before the server has checked the client's certificate.
#[tokio::test]
async fn a_writer_that_is_hung_up_on_says_what_the_server_said_before() {
    let (config, tls) = server_config(&[&rustls::version::TLS13]);
    let mut session = ServerConnection::new(Arc::new(wants_certificates(config))).unwrap();
    let listener = ports::listen();
    let address = listener.local_addr().unwrap();
    let (written, waiting) = mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        loop {
            session.read_tls(&mut socket).unwrap();
            let outcome = session.process_new_packets();
            while session.wants_write() {
                session.write_tls(&mut socket).unwrap();
            }
            if outcome.is_err() {
                break;
            }
        }
        // Unread bytes make the end a reset.
        waiting.recv().unwrap();
    });
    let client = tls.client().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let until = clock::now().after(STUCK);
    let (_reader, writer) = client.agree("127.0.0.1", stream, until).await.unwrap();
    writer.try_write(b"PING\r\n").unwrap();
    written.send(()).unwrap();
    tokio::task::spawn_blocking(move || server.join().unwrap()).await.unwrap();
    let hung_up = async {
        loop {
            match writer.try_write(b"PING\r\n") {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let room = std::future::poll_fn(|context| writer.poll_writable(context));
                    room.await.unwrap();
                }
                Err(error) => return error,
            }
        }
    };
    let error = soon("the end", hung_up).await;
    let fault = TlsFault::inside(&error);
    assert!(matches!(fault, Some(TlsFault::ClientCertificate(_))), "{error}");
}
