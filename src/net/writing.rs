//! How a connection's bytes get to the socket: by the caller, by the flusher, or by the thread that is
//! there when there is no runtime.

use std::io;
use std::task::Waker;

use bytes::{Buf, BytesMut};

use super::connection::{Connection, Pipeline};
use super::outbox::Commit;
use super::sync::MutexGuard;

/// A caller that writes takes others' commands along, but not for ever.
const CHUNKS_IN_A_ROW: usize = 16;

impl Connection {
    /// Sends what was pushed under this lock, or sees to it that somebody does.
    pub(super) fn commit(&self, mut pipeline: MutexGuard<'_, Pipeline<Waker>>) {
        let wake_sweeper = pipeline.wants_sweeper();
        let commit = pipeline.commit(self.settings.write_inline);
        drop(pipeline);
        match commit {
            Commit::Queued => {}
            Commit::WakeFlusher => self.signals.flush.notify_one(),
            Commit::Write(chunk) => self.write_or_hand_over(chunk),
        }
        if wake_sweeper {
            self.signals.sweep.notify_one();
        }
    }

    /// Sends what was pushed under this lock where no task may be there to do it.
    pub(super) fn commit_unaided(&self, mut pipeline: MutexGuard<'_, Pipeline<Waker>>) {
        let chunk = match pipeline.commit(usize::MAX) {
            Commit::Write(chunk) => Some(chunk),
            Commit::WakeFlusher | Commit::Queued => pipeline.take_over(),
        };
        drop(pipeline);
        if let Some(chunk) = chunk {
            self.write_or_hand_over(chunk);
        }
    }

    pub(super) fn write_or_hand_over(&self, chunk: BytesMut) {
        if let Err(rest) = self.write_until_blocked(chunk) {
            self.lock().hand_over(rest);
            self.signals.flush.notify_one();
        }
    }

    /// Writes as the writer until nothing is left; gives back what the kernel does not take, or
    /// what others added meanwhile once that has gone on for long.
    pub(super) fn write_until_blocked(&self, mut chunk: BytesMut) -> Result<(), BytesMut> {
        for _ in 0..CHUNKS_IN_A_ROW {
            match self.write.try_write(&chunk) {
                Ok(0) => self.fail(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) if written < chunk.len() => {
                    chunk.advance(written);
                    continue;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(chunk),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => self.fail(error.into()),
            }
            match self.lock().next_chunk(chunk) {
                Some(more) => chunk = more,
                None => return Ok(()),
            }
        }
        Err(chunk)
    }

    /// Writes as the flusher, waiting for the socket where it has to.
    pub(super) async fn flush(&self) {
        let Some(mut chunk) = self.lock().take_over() else { return };
        while let Err(rest) = self.write_until_blocked(chunk) {
            chunk = rest;
            if let Err(error) = self.write.writable().await {
                self.fail(error.into());
            }
        }
    }
}
