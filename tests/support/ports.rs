//! Loopback ports for servers that keep their port over a restart.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below every system's ephemeral range. A port of that range (as from binding port 0) can become the source port of
/// another program's connection while our server is down; worse, a client that keeps dialling a dead port of that range
/// can connect to itself. The port of a Cluster's bus is 10,000 above its node's, and has to be below that range too.
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_700;

/// A listener on a loopback port that was not used lately in this process.
pub fn listen() -> TcpListener {
    for _ in 0..COUNT {
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, next_candidate())) {
            return listener;
        }
    }
    panic!("no free loopback port from {FIRST} on");
}

/// As [`listen`], on the current runtime; also returns the address.
pub fn listen_async() -> (tokio::net::TcpListener, SocketAddr) {
    let listener = listen();
    let address = listener.local_addr().expect("a bound listener has an address");
    listener.set_nonblocking(true).expect("a socket can be made nonblocking");
    let listener = tokio::net::TcpListener::from_std(listener).expect("inside a runtime");
    (listener, address)
}

/// A port that was just free. The caller has to try another if it cannot bind this one.
pub fn free() -> u16 {
    listen().local_addr().expect("a bound listener has an address").port()
}

/// Processes start at different numbers, and count up, so that they seldom meet.
fn next_candidate() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let pid_offset = std::process::id().wrapping_mul(7_919) % u32::from(COUNT);
    let pid_offset = u16::try_from(pid_offset).expect("less than COUNT");
    let taken = TAKEN.fetch_add(1, Ordering::Relaxed) % COUNT;
    // In u32, because the sum of two numbers below COUNT may overflow u16.
    let offset = (u32::from(pid_offset) + u32::from(taken)) % u32::from(COUNT);
    FIRST + u16::try_from(offset).expect("less than COUNT")
}
