//! The test harness itself: if it did not do what it says, the tests above it would prove nothing.

#![allow(clippy::disallowed_methods, reason = "tests measure real time")]

mod cluster;
mod proxy;
mod scripted;
mod sentinel;
mod server;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

async fn receive(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    leasehold_testing::soon("the bytes come", stream.read_exact(&mut bytes))
        .await
        .expect("they come whole");
    bytes
}

async fn end_of(stream: &mut TcpStream) -> std::io::Result<usize> {
    leasehold_testing::soon("the stream ends", stream.read(&mut [0; 64])).await
}
