//! What a real server sends, type by type.
//!
//! Needs Redis 7 or Valkey: the one whose path is in `LEASEHOLD_TEST_SERVER`, or `redis-server` in PATH. Each test has a server of its own, on a socket of its own.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "a test waits for a server that is starting")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use leasehold_resp::{Decoder, Frame, Limits, encode_command};

/// Runs until it is dropped, or this process ends in any way: a shell holds the other end of our
/// pipe, and kills the server when that closes.
struct Server {
    directory: PathBuf,
    shell: Child,
}

const RUN_UNTIL_STDIN_CLOSES: &str = r#"
    trap '' HUP INT TERM
    "${LEASEHOLD_TEST_SERVER:-redis-server}" --port 0 --unixsocket "$0/socket" --dir "$0" --save "" \
        --enable-debug-command yes --logfile "$0/log" &
    server=$!
    cat
    kill -9 $server
    rm -rf "$0"
"#;

impl Server {
    fn start(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("leasehold-resp-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for the server");
        let shell = Command::new("sh")
            .args(["-c", RUN_UNTIL_STDIN_CLOSES])
            .arg(&directory)
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh starts");
        Self { directory, shell }
    }

    fn connect(&self) -> Client {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match UnixStream::connect(self.directory.join("socket")) {
                Ok(stream) => return Client::new(stream),
                Err(error) if Instant::now() > deadline => panic!("no server: {error}"),
                Err(_) => sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

struct Client {
    stream: UnixStream,
    decoder: Decoder,
    received: BytesMut,
}

impl Client {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        Self { stream, decoder: Decoder::new(Limits::default()), received: BytesMut::new() }
    }

    fn call(&mut self, command: &str) -> Frame {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let mut out = BytesMut::new();
        encode_command(&mut out, &args);
        self.stream.write_all(&out).expect("the server reads");
        self.next()
    }

    fn next(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.received).expect("well-formed") {
                return frame;
            }
            let mut piece = [0; 4096];
            let count = self.stream.read(&mut piece).expect("the server answers");
            assert!(count > 0, "the server closed the connection");
            self.received.extend_from_slice(&piece[..count]);
        }
    }
}

fn bulk(text: &'static str) -> Frame {
    Frame::Bulk(text.into())
}

fn integers(numbers: impl IntoIterator<Item = i64>) -> std::sync::Arc<[Frame]> {
    numbers.into_iter().map(Frame::Integer).collect()
}

#[test]
fn every_type_in_resp3() {
    let server = Server::start("resp3");
    let mut client = server.connect();

    let Frame::Map(properties) = client.call("HELLO 3") else { panic!("HELLO answers a map") };
    assert!(properties.contains(&(bulk("proto"), Frame::Integer(3))));

    let mut debug = |kind: &str| client.call(&format!("DEBUG PROTOCOL {kind}"));
    assert_eq!(debug("string"), bulk("Hello World"));
    assert_eq!(debug("integer"), Frame::Integer(12345));
    assert_eq!(debug("double").as_double(), "3.141".parse().ok());
    assert_eq!(debug("null"), Frame::Null);
    assert_eq!(debug("array"), Frame::Array(integers(0..3)));
    assert_eq!(debug("set"), Frame::Set(integers(0..3)));
    assert_eq!(debug("true"), Frame::Boolean(true));
    assert_eq!(debug("false"), Frame::Boolean(false));
    let big = "1234567999999999999999999999999999999";
    assert_eq!(debug("bignum"), Frame::BigNumber(big.into()));
    let map = (0..3).map(|n| (Frame::Integer(n), Frame::Boolean(n == 1)));
    assert_eq!(debug("map"), Frame::Map(map.collect()));
    let text = "This is a verbatim\nstring".into();
    assert_eq!(debug("verbatim"), Frame::Verbatim { format: *b"txt", text });
    let popularity = Frame::Array([bulk("key:123"), Frame::Integer(90)].into());
    assert_eq!(
        debug("attrib"),
        Frame::Attributed {
            attributes: [(bulk("key-popularity"), popularity)].into(),
            value: Box::new(bulk("Some real reply following the attribute")),
        }
    );
    // Which comes first is another thing in Redis 7.0 and in what came after it.
    let both = [debug("push"), client.next()];
    assert!(both.contains(&Frame::Push([bulk("server-cpu-usage"), Frame::Integer(42)].into())));
    assert!(both.contains(&bulk("Some real reply following the push reply")));
}

#[test]
fn every_type_in_resp2() {
    let server = Server::start("resp2");
    let mut client = server.connect();

    let mut debug = |kind: &str| client.call(&format!("DEBUG PROTOCOL {kind}"));
    assert_eq!(debug("string"), bulk("Hello World"));
    assert_eq!(debug("integer"), Frame::Integer(12345));
    assert_eq!(debug("double"), bulk("3.141"));
    assert_eq!(debug("null"), Frame::Null);
    assert_eq!(debug("array"), Frame::Array(integers(0..3)));
    assert_eq!(debug("set"), Frame::Array(integers(0..3)));
    assert_eq!(debug("map"), Frame::Array(integers([0, 0, 1, 1, 2, 0])));
    assert_eq!(debug("true"), Frame::Integer(1));
    assert_eq!(debug("false"), Frame::Integer(0));
    assert_eq!(debug("bignum"), bulk("1234567999999999999999999999999999999"));
    assert_eq!(debug("verbatim"), bulk("This is a verbatim\nstring"));
    assert_eq!(debug("attrib"), bulk("Some real reply following the attribute"));
    let refusal = "ERR RESP2 is not supported by this command";
    assert_eq!(debug("push"), Frame::Error(refusal.into()));
    assert_eq!(client.call("BLPOP nothing 0.01"), Frame::Null, "Redis sends *-1");
}

#[test]
fn an_invalidation_comes_as_a_push() {
    let server = Server::start("tracking");
    let (mut waiter, mut holder) = (server.connect(), server.connect());

    waiter.call("HELLO 3");
    assert_eq!(waiter.call("CLIENT TRACKING ON"), Frame::Simple("OK".into()));
    assert_eq!(waiter.call("GET lock"), Frame::Null);
    assert_eq!(holder.call("SET lock owner NX PX 30000"), Frame::Simple("OK".into()));
    assert_eq!(
        waiter.next(),
        Frame::Push([bulk("invalidate"), Frame::Array([bulk("lock")].into())].into())
    );
}
