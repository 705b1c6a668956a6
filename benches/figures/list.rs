//! The bare hand-over to compare with: a list with one element. Each contender takes the element by `BLPOP`, holds it,
//! and puts it back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use leasehold_resp::encode_command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::contention::{HOLD, Held, micros};
use crate::support::RedisServer;

const LIST: &str = "handed";
const TAKEN: &[u8] = b"*2\r\n$6\r\nhanded\r\n$1\r\nx\r\n";

/// Puts the element into the list.
pub fn begin(server: &RedisServer) {
    server.cli(&["DEL", LIST]);
    server.cli(&["RPUSH", LIST, "x"]);
}

/// As [`super::contention::contend`], with a connection for each task: a `BLPOP` blocks its own.
pub async fn contend(address: SocketAddr, tasks: usize, time: Duration) -> Vec<Vec<Held>> {
    let mut contenders = Vec::new();
    for _ in 0..tasks {
        let stream = TcpStream::connect(address).await.expect("the server is up");
        stream.set_nodelay(true).expect("a TCP stream has the option");
        contenders.push(stream);
    }
    let end = Instant::now() + time;
    let contenders: Vec<_> =
        contenders.into_iter().map(|stream| tokio::spawn(take_turns(stream, end))).collect();
    let mut all = Vec::new();
    for contender in contenders {
        all.push(contender.await.expect("a contender does not panic"));
    }
    all
}

async fn take_turns(mut stream: TcpStream, end: Instant) -> Vec<Held> {
    let mut held = Vec::new();
    while Instant::now() < end {
        ask(&mut stream, &[b"BLPOP", LIST.as_bytes(), b"0"], TAKEN).await;
        let from = micros();
        tokio::time::sleep(HOLD).await;
        held.push((from, micros()));
        ask(&mut stream, &[b"RPUSH", LIST.as_bytes(), b"x"], b":1\r\n").await;
    }
    held
}

async fn ask(stream: &mut TcpStream, command: &[&[u8]], expected: &[u8]) {
    let (mut out, mut received) = (BytesMut::new(), BytesMut::with_capacity(expected.len()));
    encode_command(&mut out, command);
    stream.write_all(&out).await.expect("the server reads");
    while received.len() < expected.len() {
        let read = stream.read_buf(&mut received).await.expect("the server answers");
        assert_ne!(read, 0, "the server hung up");
    }
    assert_eq!(received, expected);
}
