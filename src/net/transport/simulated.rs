//! Sockets in memory, to servers in this process.

#[cfg(test)]
use std::cell::RefCell;
#[cfg(feature = "testing")]
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
#[cfg(feature = "testing")]
use std::sync::Weak;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::BytesMut;

use crate::box_future::BoxFuture;

pub(crate) type Opening = BoxFuture<'static, io::Result<(ReadHalf, WriteHalf)>>;
#[cfg(test)]
type Dialer = Box<dyn Fn(&str) -> Opening>;

/// The domain of servers in memory, and a host name by itself, so without a leading dot.
#[cfg(feature = "testing")]
pub(crate) const DOMAIN: &str = "in-memory";

#[cfg(feature = "testing")]
static HOSTS: Mutex<BTreeMap<String, Weak<dyn Host>>> = Mutex::new(BTreeMap::new());

/// A server in memory.
#[cfg(feature = "testing")]
pub(crate) trait Host: Send + Sync {
    /// Dials for a process, which is named before the server in the address, if at all.
    fn dial(self: Arc<Self>, process: Option<&str>) -> Opening;
}

/// Leads dials of `<name>.in-memory`, and of hosts below it, to `host` while that lives.
#[cfg(feature = "testing")]
pub(crate) fn listen(name: &str, host: Weak<dyn Host>) {
    let mut hosts = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    hosts.retain(|_, host| host.strong_count() > 0);
    hosts.insert(name.to_owned(), host);
}

/// Dials a host of the domain of servers in memory; none for other hosts.
#[cfg(feature = "testing")]
fn dial_in_memory(host: &str) -> Option<Opening> {
    let name = host.strip_suffix(DOMAIN)?.strip_suffix('.')?;
    let (process, name) = match name.rsplit_once('.') {
        Some((process, name)) => (Some(process), name),
        None => (None, name),
    };
    let hosts = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    let host = hosts.get(name).and_then(Weak::upgrade);
    drop(hosts);
    Some(match host {
        Some(host) => host.dial(process),
        None => Box::pin(async {
            let why = "this in-memory server is gone: keep its Server as long as it is used";
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, why))
        }),
    })
}

#[cfg(test)]
thread_local! {
    static DIALER: RefCell<Option<Dialer>> = const { RefCell::new(None) };
}

/// Sets the simulation that opens this thread's sockets from here on, or none.
#[cfg(test)]
pub(crate) fn set_dialer(dialer: Option<Dialer>) {
    DIALER.set(dialer);
}

/// Whether a host of this name is simulated.
pub(super) fn is_simulated(host: &str) -> bool {
    #[cfg(test)]
    if DIALER.with_borrow(Option::is_some) {
        return true;
    }
    #[cfg(feature = "testing")]
    return host.strip_suffix(DOMAIN).is_some_and(|name| name.ends_with('.'));
    #[cfg(not(feature = "testing"))]
    {
        let _ = host;
        false
    }
}

pub(super) fn dial(host: &str) -> Option<Opening> {
    #[cfg(test)]
    if let Some(opening) = DIALER.with_borrow(|dialer| dialer.as_ref().map(|dial| dial(host))) {
        return Some(opening);
    }
    #[cfg(feature = "testing")]
    return dial_in_memory(host);
    #[cfg(not(feature = "testing"))]
    None
}

/// Takes what is written.
pub(crate) trait Wire: Send + Sync {
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    fn close(&self);
}

/// Received bytes that were not read yet.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<Received>);

#[derive(Default)]
struct Received {
    bytes: BytesMut,
    is_ended: bool,
    reader: Option<Waker>,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Received> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, bytes: &[u8]) {
        let mut received = self.lock();
        received.bytes.extend_from_slice(bytes);
        let reader = received.reader.take();
        drop(received);
        reader.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn end(&self) {
        let mut received = self.lock();
        received.is_ended = true;
        let reader = received.reader.take();
        drop(received);
        reader.into_iter().for_each(Waker::wake);
    }
}

pub(crate) struct ReadHalf(pub(crate) Arc<Inbox>);

impl ReadHalf {
    pub(super) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        poll_fn(|context| {
            let mut received = self.0.lock();
            if received.bytes.is_empty() && !received.is_ended {
                received.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
            let bytes = received.bytes.split();
            buffer.extend_from_slice(&bytes);
            Poll::Ready(Ok(bytes.len()))
        })
        .await
    }
}

pub(crate) struct WriteHalf(pub(crate) Arc<dyn Wire>);

impl WriteHalf {
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    pub(super) fn shut_down(&self) {
        self.0.close();
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.0.close();
    }
}
