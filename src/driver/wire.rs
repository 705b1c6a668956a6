//! A socket as its writers see it: which party writes, and what is left.
//!
//! One party at a time has the writer's role. It takes the role inside the driver's mutex, with the bytes to be written,
//! and writes outside of it. Others that have something meanwhile say so in one atomic ([`Role`]), and go on: the writer
//! finds that when it gives the role back, and only then takes the mutex again.

mod role;

use std::future::{Future, poll_fn};
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};

use crate::mutex::lock;
use crate::net::transport::{LINGER, WriteHalf};
use crate::race::timer;
use crate::stats::AtServer;

use self::role::Role;

/// Of a buffer that is kept for the next commands.
const KEPT_BYTES: usize = 64 * 1024;

/// See the module's documentation.
pub(super) struct Writer {
    pub(super) link: usize,
    pub(super) half: WriteHalf,
    _counted: AtServer,
    role: Role,
    /// What the writer has taken. Where the socket took a part of that, the rest goes out before all else, in the same
    /// bytes, of which TLS may have encrypted some.
    taken: Mutex<BytesMut>,
}

impl Writer {
    pub(super) fn new(link: usize, half: WriteHalf, counted: AtServer) -> Self {
        Self { link, half, _counted: counted, role: Role::default(), taken: Mutex::default() }
    }

    /// Takes the role; false where another party has it, which looks for more then. Called inside the driver's mutex.
    pub(super) fn begin(&self) -> bool {
        self.role.begin()
    }

    /// Takes all that is to be written. Called inside the driver's mutex, by the party that has the role.
    pub(super) fn take(&self, output: &mut BytesMut) {
        self.role.take();
        let mut taken = lock(&self.taken);
        if taken.is_empty() {
            std::mem::swap(&mut *taken, output);
        } else {
            taken.extend_from_slice(output);
            output.clear();
        }
    }

    /// Writes what was taken, as far as the socket takes it now; whether it takes no more. An error ends the connection,
    /// which the reader finds: a part of a command may have gone out.
    pub(super) fn write(&self) -> bool {
        let mut bytes = lock(&self.taken);
        let mut written = 0;
        while written < bytes.len() {
            match self.half.try_write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    bytes.advance(written);
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.half.shut_down();
                    break;
                }
            }
        }
        bytes.clear();
        // What a burst has needed is not kept.
        if bytes.capacity() > KEPT_BYTES {
            *bytes = BytesMut::new();
        }
        false
    }

    /// Writes the rest, and ends the connection, within this time. If the runtime ends before, and replies are missing,
    /// whatever drops the future waits for the server's end, in [`LINGER`].
    pub(super) fn finish(
        self: Arc<Self>,
        within: Duration,
        lingers: bool,
    ) -> impl Future<Output = ()> {
        let (mut limit, mut ending) = (None, Ending { writer: self, lingers });
        poll_fn(move |context| {
            let limit = limit.get_or_insert_with(|| timer(within));
            if limit.as_mut().poll(context).is_pending() {
                while ending.writer.write() {
                    if ready!(ending.writer.half.poll_writable(context)).is_err() {
                        break;
                    }
                }
                let _ = ready!(ending.writer.half.poll_closed(context));
            }
            ending.lingers = false;
            Poll::Ready(())
        })
    }

    /// Gives the role back, unless there is more to write.
    pub(super) fn end(&self) -> bool {
        self.role.end()
    }

    /// Gives the role back, whatever there is to write. Called inside the driver's mutex, by a party that leaves it to
    /// the task.
    pub(super) fn leave(&self) {
        self.role.leave();
    }
}

/// A connection that is not ended yet.
struct Ending {
    writer: Arc<Writer>,
    lingers: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.lingers {
            self.writer.half.wait_closed(LINGER);
        }
    }
}

#[cfg(test)]
mod tests;
