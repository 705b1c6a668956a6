//! Sockets of a simulation: what is written goes to it, and what is read comes from it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

use bytes::BytesMut;

use super::Address;
use crate::box_future::BoxFuture;
use crate::net::sync::{Mutex, MutexGuard};

type Opening = BoxFuture<'static, io::Result<(ReadHalf, WriteHalf)>>;
type Dialer = Box<dyn Fn(&Address) -> Opening>;

thread_local! {
    static DIALER: RefCell<Option<Dialer>> = const { RefCell::new(None) };
}

/// Every socket that this thread opens from here on is the simulation's; or none, any more.
pub(crate) fn set_dialer(dialer: Option<Dialer>) {
    DIALER.set(dialer);
}

pub(super) fn dial(address: &Address) -> Option<Opening> {
    DIALER.with_borrow(|dialer| dialer.as_ref().map(|dial| dial(address)))
}

/// Where what is written goes.
pub(crate) trait Wire: Send + Sync {
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    fn close(&self);
}

/// What has come and was not read yet.
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
