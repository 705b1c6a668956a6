//! From a host name to addresses; one lookup at a time for each name in the whole process.
//!
//! The system's resolver blocks its thread, glibc's for 10 seconds and more if no name server answers. So each lookup
//! has a thread of its own: callers can give up earlier, and so can a runtime that ends. Callers that look up the same
//! name meanwhile share the answer.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

use crate::mutex::lock;

/// The system's errors cannot be cloned.
type Answer = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;
type Resolve = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// Keyed by name; a list, as there are few.
type Names<T> = Mutex<Vec<(String, T)>>;

#[derive(Default)]
struct Lookup {
    answer: Option<Answer>,
    waiting: Vec<Waker>,
}

static UNDER_WAY: Names<Arc<Mutex<Lookup>>> = Mutex::new(Vec::new());

/// For each name and port, the address that last served.
static PREFERRED: Mutex<Vec<(String, u16, SocketAddr)>> = Mutex::new(Vec::new());
/// Maximum entries of that; at the maximum all are dropped, which costs each name a head start.
const PREFERRED_MAX: usize = 1024;

/// Notes the address of a name that served.
pub(super) fn prefer((host, port): (&str, u16), address: SocketAddr) {
    let mut preferred = lock(&PREFERRED);
    if let Some((.., known)) = preferred.iter_mut().find(|it| it.0 == host && it.1 == port) {
        *known = address;
        return;
    }
    if preferred.len() >= PREFERRED_MAX {
        preferred.clear();
    }
    preferred.push((host.to_owned(), port, address));
}

/// Each address of the name once, the last that served first.
pub(crate) fn in_order((host, port): (&str, u16), resolved: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    for address in resolved {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let preferred = lock(&PREFERRED);
    let preferred = preferred.iter().find(|it| it.0 == host && it.1 == port).map(|it| it.2);
    if let Some(first) = addresses.iter().position(|address| Some(*address) == preferred) {
        let first = addresses.remove(first);
        addresses.insert(0, first);
    }
    addresses
}

/// The addresses of a name, each with this port.
///
/// # Cancel safety
///
/// The lookup goes on when the future is dropped.
pub(crate) async fn lookup_host((host, port): (&str, u16)) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = look_up(host, |host| Ok((host, 0).to_socket_addrs()?.collect())).await?;
    addresses.iter_mut().for_each(|address| address.set_port(port));
    Ok(addresses)
}

async fn look_up(host: &str, resolve: Resolve) -> io::Result<Vec<SocketAddr>> {
    let lookup = join(host, resolve);
    let answered = poll_fn(|context| {
        let mut known = lock(&lookup);
        if let Some(answer) = &known.answer {
            return Poll::Ready(answer.clone());
        }
        // Wakers of callers that have given up are among these: wakes all, and those that still wait register again.
        let has_stale = known.waiting.len() >= Arc::strong_count(&lookup);
        let woken = if has_stale { mem::take(&mut known.waiting) } else { Vec::new() };
        known.waiting.push(context.waker().clone());
        drop(known);
        woken.into_iter().for_each(Waker::wake);
        Poll::Pending
    });
    answered.await.map_err(|(kind, text)| io::Error::new(kind, text))
}

/// The lookup of the name that is under way, or a new one.
fn join(host: &str, resolve: Resolve) -> Arc<Mutex<Lookup>> {
    let mut under_way = lock(&UNDER_WAY);
    if let Some((_, lookup)) = under_way.iter().find(|(name, _)| name == host) {
        return Arc::clone(lookup);
    }
    let lookup = Arc::default();
    under_way.push((host.to_owned(), Arc::clone(&lookup)));
    drop(under_way);
    let name = host.to_owned();
    let look_up = move || settle(&name, resolve(&name));
    let begun = thread::Builder::new().name("leasehold-lookup".into()).spawn(look_up);
    if let Err(error) = begun {
        settle(host, Err(error));
    }
    lookup
}

fn settle(host: &str, answer: io::Result<Vec<SocketAddr>>) {
    let mut under_way = lock(&UNDER_WAY);
    let Some(at) = under_way.iter().position(|(name, _)| name == host) else { return };
    let (_, lookup) = under_way.swap_remove(at);
    drop(under_way);
    let mut known = lock(&lookup);
    known.answer = Some(answer.map_err(|error| (error.kind(), error.to_string())));
    let waiting = mem::take(&mut known.waiting);
    drop(known);
    waiting.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests;
