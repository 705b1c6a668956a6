//! From a host name to a socket.

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
use crate::policy::Units;
use crate::race::timeout;

const NO_ADDRESS: &str = "the host name has no address";

/// The address in a text that is an IP address.
pub(super) fn itself(host: &str, port: u16) -> io::Result<SocketAddr> {
    let ip = host.parse::<IpAddr>().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(SocketAddr::new(ip, port))
}

/// The addresses of a name, the last that served first.
pub(super) async fn candidates(
    host: &str,
    port: u16,
    within: Duration,
) -> io::Result<Vec<SocketAddr>> {
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
    Ok(in_order((host, port), resolved))
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

    /// Gives a name, unique to a test, these addresses, for any port.
    pub(crate) fn give(name: &'static str, addresses: Vec<SocketAddr>) {
        lock(&NAMES).insert(name, addresses);
    }

    fn known(name: &str) -> Option<Vec<SocketAddr>> {
        lock(&NAMES).get(name).cloned()
    }

    /// As tokio's function, but for the names given by [`give`].
    pub(crate) async fn lookup_host((host, port): (&str, u16)) -> io::Result<Vec<SocketAddr>> {
        match known(host) {
            Some(addresses) => Ok(addresses),
            None => crate::net::transport::lookup::lookup_host((host, port)).await,
        }
    }
}

#[cfg(test)]
mod tests;
