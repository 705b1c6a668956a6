//! The test harness does what it says: a harness that lies makes every test above it worthless.

#![allow(clippy::disallowed_methods, reason = "tests measure real time")]

#[path = "harness/cluster.rs"]
mod cluster;
#[path = "harness/proxy.rs"]
mod proxy;
#[path = "harness/scripted.rs"]
mod scripted;
#[path = "harness/sentinel.rs"]
mod sentinel;
#[path = "harness/server.rs"]
mod server;
mod support;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

async fn receive(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    support::soon("the bytes come", stream.read_exact(&mut bytes)).await.expect("they come whole");
    bytes
}

async fn end_of(stream: &mut TcpStream) -> std::io::Result<usize> {
    support::soon("the stream ends", stream.read(&mut [0; 64])).await
}
