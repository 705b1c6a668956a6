//! Tickets in files, from one run to the next.

use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use leasehold::{Guard, Locker, Ticket};
use nix::libc;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::args::Run;
use crate::exit::Failure;
use crate::times::now;
use crate::waits::Until;
use crate::words::complain;

/// Maximum bytes read of a ticket's file.
const READ_MAX: u64 = 64 * 1024;
/// Pause between two checks whether a pipe has a reader, or room.
const LOOK: Duration = Duration::from_millis(20);

/// Maximum time for which a pipe may stay full.
const FULL_MAX: Duration = Duration::from_secs(5);

/// The file for a ticket. It is opened before the lock is acquired, so that an error shows in time; until the new
/// ticket is written it keeps its content, perhaps a valid ticket. A file that was not there is removed at the end,
/// if it is still empty.
pub struct Out {
    file: File,
    path: PathBuf,
    within: Duration,
    is_new: bool,
}

impl Out {
    /// Waits until then for a pipe's reader.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn open(run: &Run, until: Until) -> Result<Option<Self>, Failure> {
        let Some(path) = run.ticket.clone() else { return Ok(None) };
        if !Ticket::GOOD_FOR.contains(&run.ticket_for) {
            return Err(Failure::Options("--ticket-for: a ticket is good for 10ms to 24h"));
        }
        let mut options = OpenOptions::new();
        // Only its owner may read it.
        options.write(true).mode(0o600);
        options.custom_flags(libc::O_NONBLOCK);
        loop {
            let is_over = until.left() == Some(Duration::ZERO);
            let is_unread =
                |error: &io::Error| error.raw_os_error() == Some(libc::ENXIO) && is_pipe(&path);
            let made = options.clone().create_new(true).open(&path);
            let is_new = made.is_ok();
            match made.or_else(|_| options.clone().create(true).open(&path)) {
                Ok(file) => {
                    return Ok(Some(Self { file, path, within: run.ticket_for, is_new }));
                }
                Err(error) if !is_over && is_unread(&error) => sleep(LOOK).await,
                Err(error) => return Err(Failure::File(shown(&path), error)),
            }
        }
    }

    /// Leaves the lock to a ticket, and writes that. If writing fails, releases the lock, which else nobody could get
    /// while the ticket is valid.
    pub async fn write(mut self, locker: &Locker, guard: Guard) -> Result<(), Failure> {
        let ticket = guard.into_ticket(self.within).await?;
        let Err(error) = self.replace(&ticket).await else { return Ok(()) };
        let released = async { locker.adopt(&ticket).await?.release().await };
        if let Err(error) = released.await {
            complain(&format!("the lock may stay taken until its ticket ends: {error}"));
        }
        Err(Failure::File(shown(&self.path), error))
    }

    async fn replace(&mut self, ticket: &Ticket) -> io::Result<()> {
        // A pipe cannot be truncated or synced.
        let is_file = self.file.metadata()?.is_file();
        if is_file {
            self.file.set_len(0)?;
        }
        // In one write, which a pipe takes whole.
        let text = format!("{ticket}\n");
        let (mut rest, until) = (text.as_bytes(), now() + FULL_MAX);
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && now() < until => {
                    sleep(LOOK).await;
                }
                Err(error) => return Err(error),
            }
        }
        if is_file { self.file.sync_all() } else { Ok(()) }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        // Another run with the same file may have written its ticket meanwhile.
        if self.is_new && self.file.metadata().is_ok_and(|it| it.is_file() && it.len() == 0) {
            // Nothing is lost by an empty file that stays.
            let _ = remove_file(&self.path);
        }
    }
}

/// Reads the ticket in a file, and checks that it is for the lock with this key. A pipe may have no writer yet.
///
/// # Cancel safety
///
/// When the future is dropped, a thread reads on, and what it reads is lost.
pub async fn read(path: &Path, key: &[u8]) -> Result<Ticket, Failure> {
    let (told, read) = oneshot::channel();
    let from = path.to_owned();
    // On a thread of its own: the runtime would wait for a writer even when this process is to end.
    thread::spawn(move || {
        let mut text = String::new();
        let read = File::open(from).and_then(|file| file.take(READ_MAX).read_to_string(&mut text));
        let _ = told.send(read.map(|_| text));
    });
    let text = read.await.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()));
    let text = text.map_err(|error| Failure::Unread(shown(path), error))?;
    let ticket: Ticket = text.trim().parse()?;
    if ticket.name() != key {
        return Err(Failure::Options("--adopt: the ticket is of another lock than NAME"));
    }
    Ok(ticket)
}

/// Whether it is a pipe.
fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
