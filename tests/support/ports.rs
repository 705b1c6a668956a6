//! Loopback ports for servers that must keep their number over a restart.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below every system's ephemeral range. A number from that range (which is what binding port 0
/// gives) can become the source port of somebody's outgoing connection while our server is down;
/// worse, a client that dials a dead port of that range over and over can end up connected to
/// itself. The port of a Cluster's bus is 10,000 above its node's, and has to be below that range too.
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_700;

/// A listener on a loopback port that nobody in this process was given lately.
pub fn listen() -> TcpListener {
    for _ in 0..COUNT {
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, next_candidate())) {
            return listener;
        }
    }
    panic!("no free loopback port from {FIRST} on");
}

/// As [`listen`], for the runtime that this is called inside of; also says where.
pub fn listen_async() -> (tokio::net::TcpListener, SocketAddr) {
    let listener = listen();
    let address = listener.local_addr().expect("a bound listener has an address");
    listener.set_nonblocking(true).expect("a socket can be made nonblocking");
    let listener = tokio::net::TcpListener::from_std(listener).expect("inside a runtime");
    (listener, address)
}

/// A port that was free a moment ago. The caller that binds it must be ready to lose it and ask again.
pub fn free() -> u16 {
    listen().local_addr().expect("a bound listener has an address").port()
}

/// Processes start at different numbers, and go up, so that they seldom meet.
fn next_candidate() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let pid_offset = std::process::id().wrapping_mul(7_919) % u32::from(COUNT);
    let pid_offset = u16::try_from(pid_offset).expect("less than COUNT");
    let taken = TAKEN.fetch_add(1, Ordering::Relaxed) % COUNT;
    // In u32, because the sum of two numbers below COUNT may pass u16's end.
    let offset = (u32::from(pid_offset) + u32::from(taken)) % u32::from(COUNT);
    FIRST + u16::try_from(offset).expect("less than COUNT")
}
