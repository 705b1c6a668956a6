//! From a host name to a socket.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

#[cfg(test)]
use names::lookup_host;
use tokio::net::TcpStream;

use super::lookup::in_order;
#[cfg(not(test))]
use super::lookup::lookup_host;
use crate::clock;
use crate::policy::{Moment, Units};
use crate::race::timeout;

const NO_ADDRESS: &str = "the host name has no address";

/// Resolves `host` again and tries its addresses in turn until one accepts.
///
/// The error says what was tried, and what became of it.
pub(super) async fn dial(host: &str, port: u16, until: Moment) -> io::Result<TcpStream> {
    let left = until.since(clock::now());
    match host.parse::<IpAddr>() {
        Ok(ip) => connect(SocketAddr::new(ip, port), left).await,
        Err(_) => try_each(&resolve(host, port, left).await?, until).await,
    }
}

/// The addresses of a name, the one that has served last at the head; none of what is no name.
pub(super) async fn candidates(
    host: &str,
    port: u16,
    within: Duration,
) -> io::Result<Vec<SocketAddr>> {
    if host.parse::<IpAddr>().is_ok() {
        return Ok(Vec::new());
    }
    let addresses = resolve(host, port, within).await?;
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, NO_ADDRESS));
    }
    Ok(addresses)
}

async fn resolve(host: &str, port: u16, left: Duration) -> io::Result<Vec<SocketAddr>> {
    let resolved = timeout(left, pin!(lookup_host((host, port)))).await;
    let resolved = resolved.unwrap_or_else(|_| Err(no_answer(left)));
    let resolved = resolved.map_err(|error| explained(&error, "the host name was not resolved"))?;
    Ok(in_order(host, resolved))
}

/// Each address gets a fair share of the time that is left, so that one that never answers does
/// not cost the others theirs.
async fn try_each(addresses: &[SocketAddr], until: Moment) -> io::Result<TcpStream> {
    let mut shares = (1..=u32::try_from(addresses.len()).unwrap_or(u32::MAX)).rev();
    let (mut kind, mut tried) = (io::ErrorKind::NotFound, String::new());
    for address in addresses {
        let share = until.since(clock::now()) / shares.next().unwrap_or(1);
        match connect(*address, share).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                kind = error.kind();
                let separator = if tried.is_empty() { "" } else { ", " };
                // A string takes whatever is written to it.
                let _ = write!(tried, "{separator}{address}: {error}");
            }
        }
    }
    let what = if tried.is_empty() { NO_ADDRESS.to_owned() } else { tried };
    Err(io::Error::new(kind, what))
}

pub(super) async fn connect(address: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    timeout(within, pin!(TcpStream::connect(address)))
        .await
        .unwrap_or_else(|_| Err(no_answer(within)))
}

fn no_answer(within: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {:.1}", Units(within)))
}

fn explained(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Names that only a test knows.
#[cfg(test)]
pub(crate) mod names {
    use std::collections::BTreeMap;
    use std::io;
    use std::net::SocketAddr;
    use std::sync::Mutex;

    use crate::mutex::lock;

    static NAMES: Mutex<BTreeMap<&str, Vec<SocketAddr>>> = Mutex::new(BTreeMap::new());

    /// The name, which no other test gives, has these addresses, whatever the port.
    pub(crate) fn give(name: &'static str, addresses: Vec<SocketAddr>) {
        lock(&NAMES).insert(name, addresses);
    }

    fn known(name: &str) -> Option<Vec<SocketAddr>> {
        lock(&NAMES).get(name).cloned()
    }

    /// As tokio's function, but for names that were given.
    pub(crate) async fn lookup_host((host, port): (&str, u16)) -> io::Result<Vec<SocketAddr>> {
        match known(host) {
            Some(addresses) => Ok(addresses),
            None => crate::net::transport::lookup::lookup_host((host, port)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{STUCK, ports, soon};

    /// An address on which nothing answers: its listener's queue is full, and the kernel drops
    /// what comes.
    #[cfg(target_os = "linux")]
    async fn black_hole() -> (SocketAddr, impl Sized) {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddr::from(([127, 0, 0, 1], ports::free()))).unwrap();
        listen(&listener, 0).unwrap();
        let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = connect(address, Duration::from_millis(100)).await {
            queued.push(stream);
        }
        (address, (listener, queued))
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_address_that_never_answers_leaves_the_others_their_time() {
        let (hole, _kept) = black_hole().await;
        let (_listener, good) = ports::listen_async();
        let addresses = [hole, hole, good];
        let dialed = try_each(&addresses, clock::now().after(Duration::from_millis(900)));
        let stream = soon("a connection", dialed).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_error_names_every_address_that_was_tried() {
        let (hole, _kept) = black_hole().await;
        let closed = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let addresses = [closed, hole];
        let dialed = try_each(&addresses, clock::now().after(Duration::from_millis(50)));
        let error = soon("an error", dialed).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let text = error.to_string();
        assert!(text.contains(&format!("{closed}: Connection refused")), "{text}");
        assert!(text.contains(&format!("{hole}: no answer within")), "{text}");
    }

    #[tokio::test]
    async fn a_name_without_an_address_says_so() {
        let dialed = dial("nobody.invalid", 1, clock::now().after(STUCK));
        let error = soon("an error", dialed).await.unwrap_err();
        assert!(error.to_string().starts_with("the host name was not resolved: "), "{error}");
    }
}
